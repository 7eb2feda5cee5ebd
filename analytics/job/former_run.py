"""What one run leaves for the next, so that only new batches are read.

`OUTPUT/_state/cluster=LABEL/` holds what partitions have open (`open/`), the few rows that are no
partitions' with the problems of partitions (`small/`), `run.json`: how far the log was read, and
which files of the tables do not change any more; and what the run was of (`inputs.json`), with its
report and what the start page shows: where nothing has changed there is nothing to do.

The next run goes on from there only if its result is the one of a run from the begin of the log:
the log must still begin where it did, the last batch that was read must still stand where it stood,
and no snapshot may have come up that ends before it. Otherwise everything is read again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from analytics.bytes.layout import Layout, Split
from analytics.bytes.log_copies import LogCopy
from analytics.fold.min_insync import AssumedMinIsr
from analytics.page.start_page import ClusterSummary
from analytics.store.log_files import open_files
from analytics.store.store import Store
from analytics.tables.table import CLUSTER
from jbodlab.errors import DecodeError
from jbodlab.protocol.record_batch import HEADER_SIZE, read_header

FORMAT = 8
"""Of the folder; a run leaves the one of another format alone and reads everything."""

BYTES_PER_BUCKET = 32 << 20
"""Of the log; a bucket of partitions is the work of one task."""

GROWTH_MAX = 4
"""A log that has grown more than so many times is read anew, into more buckets."""

STATE = "_state"
OPEN = "open"
SMALL = "small"
_RUN = "run.json"
_INPUTS = "inputs.json"

GOES_ON_WITH = frozenset({"torn_tail", "undecodable", "unknown_type", "replay", "disagreement"})
"""Kinds of problems after which the next run may go on; a torn tail is read again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LastBatch:
    """The last batch that was read."""

    file: str
    position: int
    end: int
    base_offset: int
    last_offset: int
    crc: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FormerRun:
    """How far a run came.

    Attributes:
        source: The log's directory.
        assumed_min_isr: `min.insync.replicas` where the log does not say.
        start_offset: Where the log began.
        replay_from: Where the replay began.
        last: The last batch.
        buckets: How partitions are spread.
        snapshots: Names of the snapshots that it met.
        disagreed: Whether any of them disagreed with the log.
        files: For each table, the names of its files that hold what has ended, with the file of
            the log that their rows are from, if that is one.
    """

    source: str
    assumed_min_isr: int
    start_offset: int | None
    replay_from: int
    last: LastBatch
    buckets: int
    snapshots: tuple[str, ...]
    disagreed: bool
    files: Mapping[str, Mapping[str, str]]

    @property
    def next_offset(self) -> int:
        """The first offset that was not read."""
        return self.last.last_offset + 1


def load_former(
    output: Store, cluster: str, layout: Layout, assumed: AssumedMinIsr | None = None
) -> FormerRun | None:
    """Return the run that this one can go on from, None if there is none.

    Args:
        output: Where it wrote its tables.
        cluster: Label of the cluster.
        layout: The log as it is now.
        assumed: `min.insync.replicas` where the log does not say.
    """
    try:
        found = json.loads(output.read(f"{state_of(cluster)}/{_RUN}"))
        if found.pop("format") != FORMAT:
            return None
        former = _former(found)
    except (OSError, ValueError, TypeError, KeyError):
        return None
    names = {snapshot.name for snapshot in layout.snapshots}
    new = [s for s in layout.snapshots if s.name not in former.snapshots]
    fits = (
        former.source == layout.source
        and former.assumed_min_isr == (assumed or AssumedMinIsr()).value
        and former.start_offset == layout.start_offset
        and former.replay_from == layout.replay_from
        and layout.end_offset >= former.next_offset
        and layout.size_bytes <= GROWTH_MAX * former.buckets * BYTES_PER_BUCKET
        and all(snapshot.end_offset >= former.next_offset for snapshot in new)
        and (names >= set(former.snapshots) or not former.disagreed)
        and read_last_batch(layout.source, former.last.file, former.last.position) == former.last
        and all(
            set(files) <= set(output.names(f"{table}/{CLUSTER}={cluster}"))
            for table, files in former.files.items()
        )
    )
    return former if fits else None


def save_former(scratch: Store, cluster: str, former: FormerRun) -> None:
    """Write how far this run came, into the folder of the state."""
    text = json.dumps({"format": FORMAT} | asdict(former), indent=1)
    scratch.make_folder(state_of(cluster))
    scratch.write(f"{state_of(cluster)}/{_RUN}", text.encode())


def state_of(cluster: str) -> str:
    """Return the folder of what is left of a cluster."""
    return f"{STATE}/{CLUSTER}={cluster}"


def load_inputs(output: Store, cluster: str) -> dict[str, Any] | None:
    """Return what a run was of: `copies`, what was `asked`, its `report` and `summary`, or None.

    Args:
        output: Where it wrote its tables.
        cluster: Label of the cluster.
    """
    try:
        found = json.loads(output.read(f"{state_of(cluster)}/{_INPUTS}"))
        if found.pop("format") != FORMAT:
            return None
        found["copies"] = [
            LogCopy(**{**one, "stamp": tuple((n, s, c) for n, s, c in one["stamp"])})
            for one in found["copies"]
        ]
        found["summary"] = ClusterSummary(**found["summary"])
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return dict(found)


def save_inputs(
    scratch: Store,
    cluster: str,
    copies: Sequence[LogCopy],
    asked: object,
    report: str,
    summary: ClusterSummary,
) -> None:
    """Write what a run was of, its report, and what the start page shows of it."""
    found = {
        "copies": [asdict(copy) for copy in copies],
        "asked": asked,
        "report": report,
        "summary": asdict(summary),
    }
    scratch.make_folder(state_of(cluster))
    text = json.dumps({"format": FORMAT} | found, indent=1)
    scratch.write(f"{state_of(cluster)}/{_INPUTS}", text.encode())


def remaining_splits(layout: Layout, former: FormerRun) -> tuple[Split, ...]:
    """Return the splits that were not read yet: the rest of the log, and new snapshots."""
    last = former.last
    found = []
    for split in layout.splits:
        if split.snapshot is not None:
            if split.snapshot.name not in former.snapshots:
                found.append(split)
        elif split.file > last.file or (split.file == last.file and split.start >= last.end):
            found.append(split)
        elif split.file == last.file and split.end > last.end:
            found.append(replace(split, start=last.end, expected=former.next_offset))
    return tuple(found)


def read_last_batch(source: str, file: str, position: int) -> LastBatch | None:
    """Read the header of a batch, None if there is none."""
    try:
        raw = open_files(source).read(file, position, HEADER_SIZE)
        header = read_header(raw)
    except (OSError, ValueError, DecodeError):
        return None
    return LastBatch(
        file=file,
        position=position,
        end=position + header.size,
        base_offset=header.base_offset,
        last_offset=header.last_offset,
        crc=header.crc,
    )


def _former(found: dict[str, Any]) -> FormerRun:
    last = LastBatch(**found.pop("last"))
    snapshots = tuple(found.pop("snapshots"))
    return FormerRun(last=last, snapshots=snapshots, **found)
