"""One group of `rare_records.sql` in, its rows of `rare_history` out: Arrow on both sides.

Spark calls it by `applyInArrow`, DuckDB's engine in this process. A group is a topic whose story is
not plain, or a broker; the fold of single records decides about it.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa  # type: ignore[import-untyped] # it comes without types

from analytics.rare.broker_registration import BrokerFold
from analytics.rare.key_history import Event, Sync, advance, interval
from analytics.rare.min_insync import AssumedMinIsr
from analytics.rare.topic_records import Change, TopicFold
from analytics.tables.table import BOOLEAN, INT, LONG, SNAPSHOT_TYPE, STRING, TYPES
from jbodlab.vocabulary import kafka_uuid

_TIME = TYPES["timestamp"]
SCHEMA = pa.schema(
    [
        *((name, STRING) for name in ("cluster", "kind", "topic", "topic_id")),
        *((name, INT) for name in ("partition", "seq", "life", "leader", "leader_epoch")),
        *((name, INT) for name in ("partition_epoch", "leader_recovery_state")),
        *((name, TYPES["int[]"]) for name in ("replicas", "isr", "removing_replicas")),
        ("adding_replicas", TYPES["int[]"]),
        ("directories", TYPES["string[]"]),
        *((name, TYPES["int[]"]) for name in ("eligible_leader_replicas", "last_known_elr")),
        ("valid_from_offset", LONG),
        ("valid_from_time", _TIME),
        ("record_type", STRING),
        *((name, LONG) for name in ("batch_base_offset", "batch_last_offset", "valid_to_offset")),
        ("valid_to_time", _TIME),
        ("to_record_type", STRING),
        ("life_to_offset", LONG),
        ("life_to_time", _TIME),
        ("life_ended_by", STRING),
        ("broker", INT),
        ("broker_epoch", LONG),
        ("incarnation_id", STRING),
        ("end_points", TYPES["end_point[]"]),
        ("features", TYPES["feature[]"]),
        ("rack", STRING),
        ("fenced", BOOLEAN),
        ("in_controlled_shutdown", BOOLEAN),
        ("log_dirs", TYPES["string[]"]),
        ("cordoned_log_dirs", TYPES["string[]"]),
        ("min_insync_replicas", INT),
        ("min_insync_replicas_from", STRING),
        ("file", STRING),
        ("offset", LONG),
        ("problem", STRING),
        ("message", STRING),
    ]
)
"""Columns of `rare_history`; `kind` is partition, topic, min_isr, broker or problem."""

_BROKER = "broker"
_LIFE_ENDS = {"deleted": "topic_deleted", "snapshot": "snapshot"}
_ORDER = [("replay_position", "ascending"), ("offset", "ascending")]


def rare_history(records: pa.Table) -> pa.Table:
    """Return the rows of one topic or broker."""
    rows = records.sort_by(_ORDER)
    times = rows.column("replay_time").cast(pa.int64()).to_pylist()
    rows = rows.drop_columns(["replay_time"]).to_pylist()
    first = rows[0]
    family, _, name = first["key"].partition("/")
    fold: TopicFold | BrokerFold = (
        BrokerFold(int(name))
        if family == _BROKER
        else TopicFold(name, AssumedMinIsr(first["assumed"], first["assumed_from"]))
    )
    events: list[Event] = []
    syncs: list[Sync] = []
    for row, time in zip(rows, times, strict=True):
        if row["type"] == SNAPSHOT_TYPE:
            offset = row["replay_offset"]
            syncs.append(Sync(offset=offset, time=time, file=row["file"], is_base=row["is_base"]))
        else:
            own = {name: row[name] for name in Event._fields if name != "time"}
            events.append(Event(time=time, **own))
    advance(fold, events, syncs)
    fold.finish()
    found = [{"seq": seq, **row} for seq, row in enumerate(fold.history.rows, 1)]
    if isinstance(fold, TopicFold):
        found += _partitions(fold)
    return pa.Table.from_pylist([{"cluster": first["cluster"], **row} for row in found], SCHEMA)


def _partitions(fold: TopicFold) -> Iterator[dict[str, object]]:
    by_partition: dict[int, list[Change]] = {}
    for change in fold.changes:
        by_partition.setdefault(change.partition, []).append(change)
    for partition, changes in by_partition.items():
        ends = [change for change in changes if change.ended != "changed"]
        life = 0
        for seq, change in enumerate(changes, 1):
            end = ends[life]
            yield {
                "kind": "partition",
                "topic": change.topic,
                "topic_id": fold.topic_id,
                "partition": partition,
                "seq": seq,
                "life": life + 1,
                **_state(change),
                **interval(change.since, change.until),
                "life_to_offset": None if end.until is None else end.until.offset,
                "life_to_time": None if end.until is None else end.until.time,
                "life_ended_by": _LIFE_ENDS.get(end.ended),
            }
            life += change.ended != "changed"


def _state(change: Change) -> dict[str, object]:
    state = change.state
    same = (
        *("leader", "leader_epoch", "partition_epoch", "leader_recovery_state", "replicas", "isr"),
        *("removing_replicas", "adding_replicas", "last_known_elr"),
    )
    return {name: getattr(state, name) for name in same} | {
        "directories": [kafka_uuid.to_text(each) for each in state.directories],
        "eligible_leader_replicas": state.elr,
    }
