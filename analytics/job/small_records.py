"""The records about everything but partitions: they are few, and the driver processes them.

Records about brokers, settings, features and epochs are folded per key, with the definitions of
`jbodlab.metadata.image`; see `rare.cluster_keys` for the keys. Records about topics go to the
buckets that have partitions of the topic: those that name a topic (ClearElr,
`min.insync.replicas`) are joined to its ids first, those that mean all topics go to every bucket.
Records of aborted transactions are left out before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped] # it comes without types
import pyarrow.compute as pc  # type: ignore[import-untyped]

from analytics.job.runner import ROWS
from analytics.job.scan_stage import OTHERS, Scanned
from analytics.rare.broker_facts import BrokerState
from analytics.rare.cluster_keys import ALL_ACLS, TYPES, config_key, make_small_fold
from analytics.rare.key_history import Event, Sync, fold
from analytics.rare.key_history import Row as TableRow
from analytics.rare.min_insync import MIN_INSYNC_REPLICAS
from analytics.rare.settings import KRAFT_VERSION
from analytics.rare.transactions import MARKERS, Dropped, Marker, dropped_stretches
from analytics.read.arrays import Longs, inside
from analytics.read.arrow_reading import firsts, longs
from analytics.read.batch_walk import Problem
from analytics.read.layout import Layout
from analytics.read.plain_rows import microseconds
from analytics.read.record_counts import RecordCounts
from analytics.tables.table import BINARY, BOOLEAN, LONG, STRING
from jbodlab.metadata.records import frame
from jbodlab.metadata.records.config_records import (
    BROKER_RESOURCE,
    ConfigRecord,
    FeatureLevelRecord,
)
from jbodlab.metadata.records.control_records import KRaftVersionRecord, LeaderChangeMessage
from jbodlab.metadata.records.security_records import (
    AccessControlEntryRecord,
    RemoveAccessControlEntryRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from jbodlab.metadata.records.topic_records import ClearElrRecord, RemoveTopicRecord, TopicRecord
from jbodlab.vocabulary import kafka_uuid

TOPIC_TYPES = (TopicRecord.NAME, RemoveTopicRecord.NAME)

EVENT = pa.schema(
    [
        pa.field("replay_offset", LONG),
        pa.field("snapshot", BOOLEAN),
        pa.field("offset", LONG),
        pa.field("time", LONG),
        pa.field("batch_base_offset", LONG),
        pa.field("batch_last_offset", LONG),
        pa.field("file", STRING),
        pa.field("type", STRING),
        pa.field("value", BINARY),
    ]
)
"""Columns of an `Event`, but for its key."""

TOPIC_ROW = pa.schema([pa.field("topic_id", STRING), pa.field("is_first", BOOLEAN), *EVENT])
"""A record about a topic, or about all topics (null). `is_first`: whether its bucket is the first
one of the topic."""

_ORDER = [("replay_offset", "ascending"), ("snapshot", "descending"), ("offset", "ascending")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """What is needed of a log before it is followed; it grows with the cluster, not with the log.

    Attributes:
        dropped: Offsets without effect.
        problems: Transaction markers that are out of place.
        wide: Topics with several slots: id as text, and the number of slots.
        counts: Rows of the table of record counts; times are microseconds since 1970.
    """

    dropped: tuple[Dropped, ...]
    problems: tuple[Problem, ...]
    wide: Mapping[str, int]
    counts: Sequence[Mapping[str, Any]]


def overview(scanned: Sequence[Scanned], others: pa.Table, layout: Layout) -> Overview:
    """Look over what the splits of a log gave.

    Args:
        scanned: Of all splits.
        others: Their rows of OTHERS.
        layout: The log.
    """
    is_marker = pc.and_(
        pc.and_(pc.invert(others.column("snapshot")), pc.is_null(others.column("problem"))),
        pc.is_in(others.column("type"), pa.array(MARKERS)),
    )
    found = others.filter(is_marker).select(("offset", "type", "file")).to_pylist()
    dropped, problems = dropped_stretches(sorted(Marker(**row) for row in found), layout.end_offset)
    counts = RecordCounts()
    wide: dict[str, int] = {}
    for one in scanned:
        counts.merge(one.counts)
        for topic_id, slots in one.wide.items():
            text = kafka_uuid.to_text(UUID(bytes=topic_id))
            wide[text] = max(slots, wide.get(text, 0))
    return Overview(dropped=tuple(dropped), problems=tuple(problems), wide=wide, counts=counts.rows)


def effective_rows(others: pa.Table, replay_from: int, dropped: Sequence[Dropped]) -> pa.Table:
    """Return the rows that are replayed, control records included.

    Args:
        others: Rows of OTHERS.
        replay_from: Offset that the replay starts from.
        dropped: Offsets without effect.
    """
    sound = others.filter(pc.is_null(others.column("problem")))
    has_none = inside(longs(sound.column("offset")), dropped)
    for name in ("snapshot", "control"):
        has_none &= ~np.asarray(pc.fill_null(sound.column(name), False))
    is_replayed = longs(sound.column("replay_offset")) >= replay_from
    return sound.filter(pa.array(~has_none & is_replayed))


def sync_points(layout: Layout) -> tuple[Sync, ...]:
    """Return the snapshots that the replay meets."""
    begins_later = layout.start_offset != 0
    replay_from, met = layout.replay_from, frozenset(layout.sync_offsets)
    return tuple(
        Sync(
            offset=snapshot.end_offset,
            time=microseconds(snapshot.timestamp_ms),
            file=snapshot.name,
            is_base=begins_later and snapshot.end_offset == replay_from,
        )
        for snapshot in layout.snapshots
        if snapshot.end_offset in met
    )


class _Named(NamedTuple):
    """A record about one or all topics that gives no id."""

    row: int
    topic: str | None
    """None: all topics."""


class SmallRecords:
    """The records about everything but partitions.

    Args:
        rows: Rows of OTHERS that are replayed.
    """

    def __init__(self, rows: pa.Table) -> None:
        in_order = pc.sort_indices(rows, sort_keys=_ORDER)
        self.rows = rows.take(in_order)
        self.types = self.rows.column("type")

    def history(self, syncs: tuple[Sync, ...]) -> dict[str, list[TableRow]]:
        """Fold everything but topics and partitions.

        Args:
            syncs: Snapshots that the replay meets.

        Returns:
            Rows of each kind of `cluster_keys.KINDS`, and of `problem`.
        """
        return by_kind(fold(sorted(self._keyed(), key=_of_key), syncs, make_small_fold))

    def topic_rows(self, wide: Mapping[str, int], buckets: int) -> pa.Table:
        """Return the records about topics for the buckets that have partitions of theirs.

        Args:
            wide: Topics with several slots, and the number of slots.
            buckets: How many buckets there are.

        Returns:
            Rows of ROWS: for each bucket one, whose blob is a file of TOPIC_ROW in Arrow's format.
        """
        parts = [self._of_ids(wide, buckets), *self._of_names(wide, buckets)]
        row, bucket, is_first = (np.concatenate([part[at] for part in parts]) for at in range(3))
        ids = pa.chunked_array([part.topic_id for part in parts], STRING)
        order = np.lexsort((row, bucket))
        events = self._events.take(pa.array(row[order])).columns
        found = pa.table(
            [ids.take(pa.array(order)), pa.array(is_first[order]), *events], schema=TOPIC_ROW
        )
        starts = [*np.nonzero(firsts(bucket[order]))[0].tolist(), len(order)]
        rows = [
            {"bucket": int(bucket[order[low]]), "first": -1, "last": -1, "blob": _packed(own)}
            for low, high in pairwise(starts)
            for own in [found.slice(low, high - low)]
        ]
        return pa.Table.from_pylist(rows, ROWS)

    @cached_property
    def _events(self) -> pa.Table:
        """The records as rows of EVENT."""
        time = self.rows.column("replay_time").cast(pa.int64())
        return self.rows.append_column("time", time).select(EVENT.names).cast(EVENT)

    @cached_property
    def _settings(self) -> list[tuple[int, ConfigRecord]]:
        """The settings, with their rows."""
        rows = self._where(ConfigRecord.NAME)
        values = self.rows.column("value").take(pa.array(rows)).to_pylist()
        found = zip(rows.tolist(), map(_record, values), strict=True)
        return [(row, one) for row, one in found if isinstance(one, ConfigRecord)]

    def _where(self, *types: str) -> Longs:
        rows: Longs = np.nonzero(np.asarray(pc.is_in(self.types, pa.array(types))))[0]
        return rows

    def _keyed(self) -> Iterator[Event]:
        settings = dict(self._settings)
        rows = self._where(*TYPES).tolist()
        columns = self.rows.take(pa.array(rows, LONG)).select(("epoch", "broker")).to_pylist()
        events = self._events.take(pa.array(rows, LONG)).to_pylist()
        for row, own, event in zip(rows, columns, events, strict=True):
            key = _key(event, own, settings.get(row))
            if key is not None:
                yield Event(key=key, **event)
        yield from self._ends_of_topics()

    def _ends_of_topics(self) -> Iterator[Event]:
        """Yield the ends of topics for which something was set, for their settings."""
        topics = self.rows.column("topic")
        named = set(topics.filter(pc.equal(self.types, ConfigRecord.NAME)).to_pylist()) - {None}
        created = self.rows.select(("topic", "topic_id")).take(
            pa.array(self._where(TopicRecord.NAME))
        )
        names: dict[str, set[str]] = {}
        for topic, topic_id in zip(*(one.to_pylist() for one in created.columns), strict=True):
            if topic in named:
                names.setdefault(topic_id, set()).add(topic)
        ends = pa.array(self._where(RemoveTopicRecord.NAME)) if names else pa.array([], LONG)
        ids = self.rows.column("topic_id").take(ends).to_pylist()
        for topic_id, event in zip(ids, self._events.take(ends).to_pylist(), strict=True):
            for name in sorted(names.get(topic_id, ())):
                yield Event(key=f"c/topic/{name}", **event)

    def _of_ids(self, wide: Mapping[str, int], buckets: int) -> _Copies:
        """Return the begins and ends of topics, for their buckets."""
        rows = self._where(*TOPIC_TYPES)
        ids = self.rows.column("topic_id").take(pa.array(rows))
        home = longs(self.rows.column("home").take(pa.array(rows)))
        slots = np.ones(len(rows), dtype=np.int64)
        if wide:
            place = pc.index_in(ids, pa.array(wide, STRING)).fill_null(-1)
            counts = np.array([*wide.values(), 1])
            slots = np.minimum(counts[np.asarray(place)], buckets)
        return _copies(rows, ids.to_pylist(), home, slots, buckets)

    def _of_names(self, wide: Mapping[str, int], buckets: int) -> Iterator[_Copies]:
        """Yield the records that give no id, for the buckets of the topics that they mean."""
        named = self._named()
        every = np.array([one.row for one in named if one.topic is None], dtype=np.int64)
        yield _Copies(
            row=np.repeat(every, buckets),
            bucket=np.tile(np.arange(buckets), len(every)),
            is_first=np.zeros(len(every) * buckets, dtype=np.bool_),
            topic_id=pa.nulls(len(every) * buckets, STRING),
        )
        created = self._created({one.topic for one in named})
        offset = longs(self.rows.column("replay_offset"))
        found = [
            (one.row, topic_id, home, min(wide.get(topic_id, 1), buckets))
            for one in named
            if one.topic is not None
            for (topic_id, home), since in created.get(one.topic, {}).items()
            if offset[one.row] >= since
        ]
        if found:
            row, ids, home, slots = zip(*found, strict=True)
            yield _copies(np.array(row), list(ids), np.array(home), np.array(slots), buckets)

    def _named(self) -> list[_Named]:
        topics = self.rows.column("topic")
        found = [
            _Named(row, topics[row].as_py() or None)
            for row in self._where(ClearElrRecord.NAME).tolist()
        ]
        for row, setting in self._settings:
            topic = topics[row].as_py()
            is_of_all = setting.resource_type == BROKER_RESOURCE and setting.resource_name == ""
            if setting.name == MIN_INSYNC_REPLICAS and (topic is not None or is_of_all):
                found.append(_Named(row, topic))
        return found

    def _created(self, names: set[str | None]) -> dict[str, dict[tuple[str, int], int]]:
        """Return for names of topics the ids that had them, and since which offset."""
        rows = self.rows.take(pa.array(self._where(TopicRecord.NAME)))
        rows = rows.filter(pc.is_in(rows.column("topic"), pa.array(names, STRING)))
        found: dict[str, dict[tuple[str, int], int]] = {}
        for row in rows.select(("topic", "topic_id", "home", "replay_offset")).to_pylist():
            ids = found.setdefault(row["topic"], {})
            ids.setdefault((row["topic_id"], row["home"]), row["replay_offset"])
        return found


class _Copies(NamedTuple):
    """Records about topics, one entry for each bucket that gets one."""

    row: Longs
    bucket: Longs
    is_first: Any
    topic_id: pa.Array


def _copies(rows: Longs, ids: list[str], home: Longs, slots: Longs, buckets: int) -> _Copies:
    entry = np.repeat(np.arange(len(rows)), slots)
    slot = np.arange(len(entry)) - np.repeat(np.cumsum(slots) - slots, slots)
    return _Copies(
        row=rows[entry],
        bucket=(home[entry] + slot) % buckets,
        is_first=slot == 0,
        topic_id=pa.array(ids, STRING).take(pa.array(entry)),
    )


def by_kind(rows: Iterable[TableRow]) -> dict[str, list[TableRow]]:
    """Return the rows of a history by their kinds."""
    found: dict[str, list[TableRow]] = {}
    for row in rows:
        kind = str(row["kind"])
        found.setdefault(kind, []).append(row[kind])  # type: ignore[arg-type]
    return found


def broker_states(rows: Iterable[Mapping[str, Any]]) -> tuple[BrokerState, ...]:
    """Return what brokers were, from rows of the kind `broker`.

    Their number grows with restarts and failures, not with what happens to partitions.
    """
    return tuple(
        BrokerState(
            broker=row["broker"],
            from_offset=row["valid_from_offset"],
            to_offset=row["valid_to_offset"],
            fenced=row["fenced"],
            in_controlled_shutdown=row["in_controlled_shutdown"],
            directories=frozenset(kafka_uuid.parse(text).bytes for text in row["log_dirs"]),
            from_time=row["valid_from_time"],
            to_time=row["valid_to_time"],
        )
        for row in rows
    )


def all_others(scanned: Iterable[Scanned]) -> pa.Table:
    """Return the rows of OTHERS of all splits."""
    return pa.concat_tables([OTHERS.empty_table(), *(one.others for one in scanned)])


def _key(
    event: Mapping[str, Any], own: Mapping[str, Any], setting: ConfigRecord | None
) -> str | None:
    match event["type"]:
        case ConfigRecord.NAME:
            if setting is None:
                return None
            return config_key(setting.resource_type, setting.resource_name)
        case FeatureLevelRecord.NAME:
            record = _record(event["value"])
            return f"f/{record.name}" if isinstance(record, FeatureLevelRecord) else None
        case KRaftVersionRecord.NAME:
            return f"f/{KRAFT_VERSION}"
        case LeaderChangeMessage.NAME:
            return f"e/{own['epoch']}"
        case AccessControlEntryRecord.NAME | RemoveAccessControlEntryRecord.NAME:
            return ALL_ACLS
        case UserScramCredentialRecord.NAME | RemoveUserScramCredentialRecord.NAME:
            record = _record(event["value"])
            if isinstance(record, UserScramCredentialRecord | RemoveUserScramCredentialRecord):
                return f"s/{record.name}"
            return None
        case _:
            return None if own["broker"] is None else f"b/{own['broker']}"


def _of_key(event: Event) -> tuple[str, int, int]:
    return event.key, event.position, event.offset


def _record(value: bytes) -> object:
    return frame.decode(value).record


def _packed(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return bytes(sink.getvalue())
