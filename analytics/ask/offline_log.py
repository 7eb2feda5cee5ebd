"""A metadata log directory, read on this machine without Spark, up to a moment.

The log is read by columns, as often as there are questions to its records; what is kept of it are
the records of brokers, topics and settings, and those of the one partition that is asked about.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped] # it comes without types
import pyarrow.compute as pc  # type: ignore[import-untyped]

from analytics.errors import ReplayInputError
from analytics.rare.transactions import MARKERS, Dropped, Marker, dropped_stretches
from analytics.read.arrays import Longs, inside
from analytics.read.arrow_reading import longs
from analytics.read.arrow_rows import ALL, Selection
from analytics.read.layout import Layout, Split
from analytics.read.log_copies import MEMBER, LogCopy
from analytics.read.named_logs import layout_of, look, unpack_archive
from analytics.read.split_rows import COLUMNS, check_split, read_split
from analytics.store.archives import is_archive
from analytics.store.log_files import open_files
from jbodlab.metadata.records import frame
from jbodlab.metadata.records.cluster_records import (
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    RegisterBrokerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from jbodlab.metadata.records.config_records import ConfigRecord, FeatureLevelRecord
from jbodlab.metadata.records.schema import Record
from jbodlab.metadata.records.topic_records import (
    ClearElrRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)

PARTITION_TYPES = frozenset((PartitionRecord.NAME, PartitionChangeRecord.NAME))
COMMON_TYPES = frozenset(
    (
        *MARKERS,
        *(
            record.NAME
            for record in (
                RegisterBrokerRecord,
                BrokerRegistrationChangeRecord,
                FenceBrokerRecord,
                UnfenceBrokerRecord,
                UnregisterBrokerRecord,
                TopicRecord,
                RemoveTopicRecord,
                ClearElrRecord,
                ConfigRecord,
                FeatureLevelRecord,
            )
        ),
    )
)
"""Records of brokers, topics and settings: few, however long the log is."""

SNAPSHOT_MOMENT = "SNAPSHOT"

_COLUMNS = (
    "snapshot",
    "offset",
    "replay_offset",
    "replay_time",
    "batch_base_offset",
    "batch_last_offset",
    "type",
    "topic_id",
    "partition",
    "value",
    "file",
    "problem",
    "message",
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NO_LONGS: Longs = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRecord:
    """One record that took effect; of a snapshot, the moment is the one that it stands for."""

    offset: int
    time: datetime | None
    type: str
    """Record type, SNAPSHOT for what is known from a snapshot."""
    batch_base_offset: int
    batch_last_offset: int
    record: Record


@dataclass(frozen=True, slots=True, kw_only=True)
class At:
    """A moment of the log: everything up to and with an offset."""

    offset: int
    time: datetime | None
    is_end: bool


class OfflineLog:
    """The log of one cluster.

    Args:
        inputs: What a replay takes; several are copies of one log. One in an archive may be named
            as reports do it, ARCHIVE!FOLDER.

    Raises:
        ReplayInputError: there is no log, it tells nothing, or there are those of several clusters.
    """

    def __init__(self, *inputs: str | Path) -> None:
        self.layout: Layout = layout_of(_of_one_cluster(self._copies([str(one) for one in inputs])))
        self._problems = dict.fromkeys(problem.message for problem in self.layout.problems)
        self.splits = _replayed(self.layout)
        if self.layout.end_offset == 0:
            deque(self._batches(ALL), maxlen=0)  # that finds out why
            reason = "".join(f": {problem}" for problem in self.problems[:1])
            raise ReplayInputError(f"input {', '.join(map(str, inputs))} holds no records{reason}")

    @property
    def problems(self) -> list[str]:
        """What was found wrong so far, each once."""
        return list(self._problems)

    def _copies(self, inputs: Sequence[str]) -> list[LogCopy]:
        parts = {text: text.partition(MEMBER) for text in inputs}
        archives = {
            text: name for text, (name, bang, _) in parts.items() if bang and is_archive(name)
        }
        found = look([archives.get(text, text) for text in inputs])
        copies = [copy for _, copy in found.found]
        if found.archives:
            scratch = tempfile.mkdtemp(prefix="jbod-why-")
            weakref.finalize(self, shutil.rmtree, scratch, ignore_errors=True)
            for number, archive in enumerate(found.archives):
                copies += (copy for _, copy in unpack_archive(archive, scratch, str(number)))
        wanted = set(archives)
        if missing := wanted - {copy.source for copy in copies}:
            raise ReplayInputError(f"input {min(missing)} holds no metadata log")
        narrowed = set(archives.values())
        chosen = [one for one in copies if one.archive not in narrowed or one.source in wanted]
        return list({copy.source: copy for copy in chosen}.values())

    def at(self, text: str | None) -> At:
        """Return the moment that a text names: an offset, or a time; None for the end.

        Raises:
            ReplayInputError: it is neither, or lies outside of what the log tells.
        """
        first, last = self.layout.replay_from, self.layout.end_offset - 1
        if text is None:
            return At(offset=last, time=self._time_at(last), is_end=True)
        wanted = parse_moment(text)
        if isinstance(wanted, int):
            low = first - 1 if first else 0
            if not low <= wanted <= last:
                raise ReplayInputError(f"offset {wanted} is outside of the log, {low} to {last}")
            return At(offset=wanted, time=self._time_at(wanted), is_end=wanted == last)
        offsets, times = self._moments
        wanted_ms = round((wanted - _EPOCH) / timedelta(milliseconds=1))
        by_then = np.nonzero(times <= wanted_ms)[0]
        if not len(by_then) or wanted_ms > times[-1]:
            ends = [clock(_from_ms(int(times[end])) if len(times) else None) for end in (0, -1)]
            span = " to ".join(ends)
            raise ReplayInputError(f"time {clock(wanted)} is outside of the log, {span}")
        offset = int(offsets[by_then[-1]])
        return At(offset=offset, time=wanted, is_end=offset == last)

    def common_records(self, until: int) -> tuple[list[LogRecord], list[Dropped]]:
        """Return the records of everything but partitions, and the stretches without effect.

        Args:
            until: Last offset.
        """
        rows: list[dict[str, Any]] = []
        for batch in self._batches(Selection(replay_offset=(0, until + 1), types=COMMON_TYPES)):
            rows += batch.to_pylist()
        markers = sorted(
            Marker(row["offset"], row["type"], row["file"])
            for row in rows
            if row["type"] in MARKERS and not row["snapshot"]
        )
        dropped, problems = dropped_stretches(markers, until + 1)
        self._problems |= dict.fromkeys(problem.message for problem in problems)
        records = [_record(row) for row in rows if row["type"] not in MARKERS]
        is_dropped = inside(np.array([record.offset for record in records], np.int64), dropped)
        return [
            record
            for record, is_gone in zip(records, is_dropped.tolist(), strict=True)
            if not is_gone or record.type == SNAPSHOT_MOMENT
        ], dropped

    def partition_records(
        self, until: int, topic_ids: Sequence[str], partition: int, dropped: Sequence[Dropped]
    ) -> Iterator[LogRecord]:
        """Yield the records of a partition of topics that had one name."""
        wanted = pa.array(list(topic_ids), type=pa.string())
        selection = Selection(replay_offset=(0, until + 1), types=PARTITION_TYPES)
        for batch in self._batches(selection):
            own = pc.and_(
                pc.is_in(_plain(batch.column("topic_id")), wanted),
                pc.equal(batch.column("partition"), partition),
            )
            of_partition = batch.filter(own)
            is_gone = pa.array(inside(longs(of_partition.column("offset")), dropped))
            has_effect = pc.or_(of_partition.column("snapshot"), pc.invert(is_gone))
            yield from map(_record, of_partition.filter(has_effect).to_pylist())

    def partition_batches(self, until: int, since: int = 0) -> Iterator[pa.RecordBatch]:
        """Yield the rows of all partitions' records, of one file each."""
        yield from self._batches(Selection(replay_offset=(since, until + 1), types=PARTITION_TYPES))

    def _batches(self, selection: Selection) -> Iterator[pa.RecordBatch]:
        schema = pa.schema([field for field in COLUMNS if field.name in _COLUMNS])
        replay_from = self.layout.replay_from
        of_base = replace(selection, replay_offset=ALL.replay_offset)
        for split in self.splits:
            # The base belongs to every moment, also to the one of its end.
            wanted = selection if split.snapshot is None else of_base
            for batch in read_split(split, schema, with_payload=False, selection=wanted):
                sound = pc.is_null(batch.column("problem"))
                if batch.column("problem").null_count < len(batch):
                    texts = batch.filter(pc.invert(sound)).column("message").to_pylist()
                    self._problems |= dict.fromkeys(texts)
                    batch = batch.filter(sound)
                if split.snapshot is None and replay_from:
                    batch = batch.filter(pc.greater_equal(batch.column("offset"), replay_from))
                if len(batch):
                    yield batch

    @cached_property
    def _moments(self) -> tuple[Longs, Longs]:
        """Last offsets and times (ms since 1970) of what is replayed, batch by batch, in order."""
        offsets, times = [_NO_LONGS], [_NO_LONGS]
        base = 0
        for split in self.splits:
            if split.snapshot is not None:
                base = split.snapshot.end_offset
                offsets.append(np.array([base - 1]))
                times.append(np.array([split.snapshot.timestamp_ms]))
                continue
            try:
                raw = open_files(split.source).read(
                    split.file, split.start, split.end - split.start
                )
            except OSError:
                continue  # the passes over the records say so
            batches, _ = check_split(raw, split)
            known = batches.last_offset >= base
            offsets.append(batches.last_offset[known])
            times.append(batches.max_timestamp[known])
        return np.concatenate(offsets), np.concatenate(times)

    def _time_at(self, offset: int) -> datetime | None:
        offsets, times = self._moments
        if not len(offsets):
            return None
        place = min(int(np.searchsorted(offsets, offset)), len(offsets) - 1)
        return _from_ms(int(times[place]))


def parse_moment(text: str) -> int | datetime:
    """Return the offset or the time that a text names.

    Numbers of up to eleven digits are offsets, longer ones milliseconds since 1970. A time without
    a zone is UTC.

    Raises:
        ReplayInputError: it is neither.
    """
    if text.isascii() and text.isdecimal():
        number = int(text)
        if number < _LEAST_EPOCH_MS:
            return number
        moment = _from_ms(number)
        if moment is not None:
            return moment
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ReplayInputError(
            f"{text!r} is neither an offset nor a time such as 2026-01-31T12:00:00Z"
        ) from None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def clock(moment: datetime | None) -> str:
    """Return a time as text, in UTC."""
    if moment is None:
        return "unknown time"
    return (
        moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.") + f"{moment.microsecond // 1000:03}Z"
    )


def from_microseconds(microseconds: int) -> datetime:
    """Return a time that is given in microseconds since 1970."""
    return _EPOCH + timedelta(microseconds=microseconds)


def to_microseconds(moment: datetime) -> int:
    """Return a time in microseconds since 1970."""
    return (moment - _EPOCH) // timedelta(microseconds=1)


_LEAST_EPOCH_MS = 10**11


def _of_one_cluster(copies: Sequence[LogCopy]) -> Sequence[LogCopy]:
    ids = sorted({copy.cluster_id for copy in copies if copy.cluster_id is not None})
    if len(ids) > 1:
        names = ", ".join(copy.source for copy in copies[:3])
        raise ReplayInputError(f"inputs hold logs of {len(ids)} clusters: name one, as of {names}")
    return copies


def _replayed(layout: Layout) -> list[Split]:
    """Return the splits of a replay in order: the snapshot that it starts from, then the log."""
    base = layout.replay_from
    own = [split for split in layout.splits if split.snapshot is None]
    if layout.start_offset == 0:
        return own
    of_base = [
        split
        for split in layout.splits
        if split.snapshot is not None and split.snapshot.end_offset == base
    ]
    return [*of_base, *own]


def _record(row: dict[str, Any]) -> LogRecord:
    is_snapshot = row["snapshot"]
    offset = row["replay_offset"] - 1 if is_snapshot else row["offset"]
    return LogRecord(
        offset=offset,
        time=row["replay_time"],
        type=SNAPSHOT_MOMENT if is_snapshot else row["type"],
        batch_base_offset=offset if is_snapshot else row["batch_base_offset"],
        batch_last_offset=offset if is_snapshot else row["batch_last_offset"],
        record=frame.decode(row["value"]).record,
    )


def _plain(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _from_ms(timestamp_ms: int) -> datetime | None:
    try:
        return _EPOCH + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return None
