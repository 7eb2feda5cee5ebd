"""A metadata log directory, read on this machine without Spark, up to a moment.

Questions go to its tables, which the local engine makes in memory: of the records of brokers,
topics and settings, and of those of the partitions that are asked about.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped] # it comes without types
import pyarrow.compute as pc  # type: ignore[import-untyped]

from analytics.engines.duck import DuckEngine
from analytics.engines.log_views import LOG_ROWS, log_rows, log_views
from analytics.errors import ReplayInputError
from analytics.rare.min_insync import AssumedMinIsr
from analytics.read.arrays import Longs
from analytics.read.arrow_rows import ALL, Selection
from analytics.read.layout import Layout, Split
from analytics.read.log_copies import MEMBER, LogCopy
from analytics.read.log_facts import LOG_COLUMNS, log_facts
from analytics.read.named_logs import layout_of, look, unpack_archive
from analytics.read.split_rows import COLUMNS, PARTITION_TYPES, check_split, read_split
from analytics.store.archives import is_archive
from analytics.store.log_files import open_files
from analytics.store.questions import connection
from analytics.tables.table import SNAPSHOT_TYPE, STRING
from jbodlab.metadata.records.cluster_records import (
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    RegisterBrokerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from jbodlab.metadata.records.config_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
)
from jbodlab.metadata.records.topic_records import ClearElrRecord, RemoveTopicRecord, TopicRecord

COMMON_TYPES = frozenset(
    record.NAME
    for record in (
        *(BeginTransactionRecord, EndTransactionRecord, AbortTransactionRecord),
        *(RegisterBrokerRecord, BrokerRegistrationChangeRecord, FenceBrokerRecord),
        *(UnfenceBrokerRecord, UnregisterBrokerRecord, TopicRecord, RemoveTopicRecord),
        *(ClearElrRecord, ConfigRecord, FeatureLevelRecord),
    )
)
"""Records of brokers, topics and settings: few, however long the log is."""

_THIS = "this"
"""Label of the cluster."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NO_LONGS: Longs = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRecord:
    """One record that took effect; of a snapshot, the moment is the one that it stands for."""

    offset: int
    time: datetime | None
    type: str
    """Record type, SNAPSHOT for what is known from a snapshot."""
    batch_last_offset: int
    said: Mapping[str, Any] | None = None
    """The fields of a change of a partition; null = not in the record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class At:
    """A moment of the log: everything up to and with an offset."""

    offset: int
    time: datetime | None
    is_end: bool


class OfflineLog:
    """The log of one cluster.

    Args:
        inputs: Inputs of a replay; several are copies of one log. One in an archive may be named
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
        """Problems that were found so far, each once."""
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

    def tables(
        self, at: At, assumed: AssumedMinIsr, *, topic: str | None = None, about: str | None = None
    ) -> DuckEngine:
        """Return an engine for the tables of a moment; to be left again.

        Args:
            at: The moment: what was later is in no table.
            assumed: Value for topics for which the log sets nothing.
            topic: Name of the topic whose partitions are wanted; None for all.
            about: Condition in SQL that a record about a partition has to meet at some time, so
                that the partition is wanted; None for all.
        """
        until = (0, at.offset + 1)
        common = list(self._batches(Selection(replay_offset=until, types=COMMON_TYPES)))
        of_partitions = self._batches(
            Selection(replay_offset=until, types=frozenset(PARTITION_TYPES)), False
        )
        if topic is not None:
            of_partitions = _of_topics(of_partitions, _topic_ids(common, topic))
        rows = pa.Table.from_batches(map(log_rows, chain(common, of_partitions)), LOG_ROWS)
        if about is not None:
            rows = _of_partitions(rows, about)
        (facts,) = log_facts([(_THIS, self.layout)]).to_pylist()
        facts |= {
            "end_offset": at.offset + 1,
            "sync_points": [sync for sync in facts["sync_points"] if sync["is_base"]],
        }
        views = log_views(pa.Table.from_pylist([facts], LOG_COLUMNS), assumed)
        tables = DuckEngine({**views, "log_rows": rows})
        tables.make("misplaced_markers")
        messages = tables.ask('SELECT message FROM misplaced_markers ORDER BY "offset"').fetchall()
        self._problems |= dict.fromkeys(message for (message,) in messages)
        return tables

    def _batches(self, selection: Selection, with_payload: bool = True) -> Iterator[pa.RecordBatch]:
        replay_from = self.layout.replay_from
        of_base = replace(selection, replay_offset=ALL.replay_offset)
        for split in (replace(split, cluster=_THIS) for split in self.splits):
            # The base belongs to every moment, also to the one of its end.
            wanted = selection if split.snapshot is None else of_base
            for batch in read_split(split, COLUMNS, with_payload=with_payload, selection=wanted):
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


def _topic_ids(batches: Iterable[pa.RecordBatch], topic: str) -> pa.Array:
    """Return the ids of the topics that have had a name."""
    found = [
        batch.filter(pc.equal(batch.column("topic"), topic)).column("topic_id") for batch in batches
    ]
    return pa.chunked_array(found, STRING).drop_null().combine_chunks()


def _of_topics(batches: Iterable[pa.RecordBatch], ids: pa.Array) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch.filter(pc.is_in(batch.column("topic_id"), ids))


def _of_partitions(rows: pa.Table, about: str) -> pa.Table:
    """Return the rows of partitions of which any meets a condition, and all that are of none."""
    with connection() as asked:
        asked.register("log_rows", rows)
        sql = f"SELECT DISTINCT topic_id || '-' || partition AS key FROM log_rows WHERE {about}"
        wanted = asked.sql(sql).to_arrow_table().column("key").combine_chunks()
    texts = (rows.column(name).cast(STRING) for name in ("topic_id", "partition"))
    key = pc.binary_join_element_wise(*texts, "-")
    return rows.filter(pc.or_(pc.is_null(key), pc.is_in(key, value_set=wanted)))


def named_rows(tables: DuckEngine, sql: str) -> list[dict[str, Any]]:
    """Return the rows that a question gives, each by the names of its columns."""
    found: list[dict[str, Any]] = tables.ask(sql).to_arrow_table().to_pylist()
    return found


def begin_of(row: Mapping[str, Any]) -> LogRecord:
    """Return the record that began the state of a row of a history."""
    is_snapshot = row["record_type"] == SNAPSHOT_TYPE
    offset = row["valid_from_offset"] - is_snapshot
    last = offset if is_snapshot else row.get("batch_last_offset", offset)
    return LogRecord(
        offset=offset,
        time=row["valid_from_time"],
        type=row["record_type"],
        batch_last_offset=last,
        said=row.get("said"),
    )


def end_of(row: Mapping[str, Any], record_type: str) -> LogRecord | None:
    """Return the record that ended the state of a row of a history; None if it still holds."""
    offset = row["valid_to_offset"]
    if offset is None:
        return None
    return LogRecord(
        offset=offset, time=row["valid_to_time"], type=record_type, batch_last_offset=offset
    )


def _from_ms(timestamp_ms: int) -> datetime | None:
    try:
        return _EPOCH + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return None
