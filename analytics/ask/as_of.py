"""Answers of the tables of history about one moment, and the differences of two.

A state holds at an offset if it began there or before and ended later: what the record at that
offset did is part of it. Nothing is replayed for that. A moment given as a time stands for the last
record written by then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

import pyarrow as pa  # type: ignore[import-untyped] # it comes without types

from analytics.ask.offline_log import clock, from_microseconds, to_microseconds
from analytics.errors import ReplayInputError
from analytics.rare.min_insync import ASSUMED, MIN_INSYNC_REPLICAS, OF_CLUSTER, OF_TOPIC
from analytics.store.questions import Questions
from analytics.store.store import Store
from analytics.store.stored_tables import StoredTables
from analytics.tables import catalog as t
from analytics.tables.table import CLUSTER, SNAPSHOT_TYPE, Table, declare

AS_OF_TABLES: Mapping[Table, Table] = {
    t.BROKERS: t.BROKER_HISTORY,
    t.LOG_DIRS: t.LOG_DIRS,
    t.TOPICS: t.TOPIC_HISTORY,
    t.PARTITIONS: t.PARTITION_HISTORY,
    t.REPLICA_PLACEMENT: t.REPLICA_PLACEMENT,
    t.BROKER_SESSIONS: t.BROKER_SESSIONS,
    t.CONFIGS: t.CONFIGS,
    t.FEATURES: t.FEATURES,
    t.ACLS: t.ACLS,
    t.SCRAM_USERS: t.SCRAM_USERS,
}
"""Tables that can be given for a moment, and the histories that they come from."""

AS_OF = "as_of"
"""Folder in the output directory that tables of a moment are written to."""

DIFF = declare("""
    diff: one fact that differs between two moments
    order by kind, topic, topic_id, partition, broker, directory, name, field

    kind (string): topic, partition, broker, directory, config or feature
    topic (string): name of the topic, if it is about one
    topic_id (string): id of the topic, if it is about one
    partition (int): the partition, if it is about one
    broker (int): the broker, if it is about one
    directory (string): the directory, if it is about one
    name (string): name of the setting or feature, if it is about one
    field (string): what differs
    before (string): its value at the first moment; null = there was none
    after (string): its value at the second moment; null = there was none
""")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogMoment:
    """A moment of the log: an offset, and the time of the record there."""

    offset: int
    time: datetime | None

    def __str__(self) -> str:
        return f"offset {self.offset} ({clock(self.time)})"


class _Compared(NamedTuple):
    """One comparison: a table, its keys, and the fields that may differ."""

    table: Table
    keys: tuple[str, ...]
    fields: tuple[str, ...]


_COMPARED: Mapping[str, _Compared] = {
    "topic": _Compared(t.TOPICS, ("topic", "topic_id"), ("partitions", "min_insync_replicas")),
    "partition": _Compared(
        t.PARTITIONS,
        ("topic", "topic_id", "partition"),
        (
            *("leader", "replicas", "isr", "directories", "adding_replicas"),
            *("removing_replicas", "eligible_leader_replicas"),
        ),
    ),
    "broker": _Compared(
        t.BROKERS,
        ("broker",),
        ("broker_epoch", "fenced", "in_controlled_shutdown", "log_dirs", "cordoned_log_dirs"),
    ),
    "directory": _Compared(t.LOG_DIRS, ("broker", "directory"), ("state",)),
    "config": _Compared(t.CONFIGS, ("resource_type", "resource_name", "name"), ("value",)),
    "feature": _Compared(t.FEATURES, ("feature",), ("level",)),
}
_NAMES = {
    "config": "resource_type || '/' || resource_name || '/' || name",
    "feature": "feature",
}
"""Expressions of the column `name`, by table."""


def cluster_to_ask(output_dir: str, wanted: str | None = None) -> str:
    """Return the cluster that a question is about.

    Args:
        output_dir: Where a replay wrote its tables.
        wanted: Its label; may be left out where there is one only.

    Raises:
        ReplayInputError: there are no tables, none of that cluster, or those of several.
    """
    names = Store(f"{output_dir}/{t.LOGS.name}").names()
    begin = f"{CLUSTER}="
    found = [name.removeprefix(begin) for name in names if name.startswith(begin)]
    if not found:
        raise ReplayInputError(f"{output_dir} holds no tables: {t.LOGS.name} is missing")
    if wanted is None and len(found) > 1:
        some = ", ".join(found[:3])
        raise ReplayInputError(
            f"{output_dir} holds {len(found)} clusters ({some}, ...): choose one with --named NAME"
        )
    if wanted is not None and wanted not in found:
        raise ReplayInputError(f"{output_dir} holds no cluster {wanted}")
    return wanted or found[0]


def read_tables(output_dir: str, cluster: str) -> StoredTables:
    """Return the tables that a replay has written of a cluster.

    Raises:
        ReplayInputError: one is missing.
    """
    store = Store(output_dir)
    for table in t.TABLES:
        if not store.is_folder(table.folder(cluster)):
            raise ReplayInputError(f"{output_dir} holds no tables: {table.name} is missing")
    return StoredTables(store, [cluster])


def resolve(tables: StoredTables, moment: int | datetime) -> LogMoment:
    """Return the moment of the log that is meant.

    Raises:
        ReplayInputError: it lies before what the log tells, or behind its end.
    """
    with Questions(tables.dataset) as questions:
        return _resolve(questions, moment)


def _resolve(questions: Questions, moment: int | datetime) -> LogMoment:
    ((first, behind, base_us),) = questions.rows(
        "SELECT replay_from, end_offset, epoch_us(replay_from_time) FROM logs"
    )
    end = behind - 1
    # The content of a snapshot is the state before the first record that follows it.
    low = first - 1 if first else 0
    if isinstance(moment, int):
        if not low <= moment <= end:
            raise ReplayInputError(f"offset {moment} is outside of the log, {low} to {end}")
        by_then = f'"offset" <= {moment}'
    else:
        by_then = f"epoch_us(timestamp) <= {to_microseconds(moment)}"
    ((offset,),) = questions.rows(
        f'SELECT max("offset") FROM records WHERE "offset" >= {first} AND {by_then}'
    )
    if offset is None:
        base = _moment(base_us)
        if not isinstance(moment, int) and (base is None or moment < base):
            span = f"{clock(base or _begin(questions))} on"
            raise ReplayInputError(f"time {clock(moment)} is outside of the log, {span}")
        return LogMoment(offset=low, time=base)
    ((time_us,),) = questions.rows(
        f'SELECT max(epoch_us(timestamp)) FROM records WHERE "offset" = {offset}'
    )
    return LogMoment(offset=offset, time=_moment(time_us))


def _begin(questions: Questions) -> datetime | None:
    """Return the time of the first record."""
    ((time_us,),) = questions.rows("SELECT min(epoch_us(earliest_time)) FROM record_counts")
    return _moment(time_us)


def _moment(time_us: int | None) -> datetime | None:
    return None if time_us is None else from_microseconds(time_us)


def as_of(tables: StoredTables, moment: LogMoment) -> dict[Table, pa.Table]:
    """Return the tables as they were; what ended later still holds in them."""
    with Questions(tables.dataset) as questions:
        return {
            table: questions.table(
                _TOPICS.format(held=_held(history, moment.offset), **_held_of_topics(moment))
                if table is t.TOPICS
                else _held(history, moment.offset),
                table.schema,
            )
            for table, history in AS_OF_TABLES.items()
        }


def difference(before: Mapping[Table, pa.Table], after: Mapping[Table, pa.Table]) -> pa.Table:
    """Return what differs between the tables of two moments, of schema `DIFF`, in its order."""
    given = {f"old_{table.name}": rows for table, rows in before.items()}
    given |= {f"new_{table.name}": rows for table, rows in after.items()}
    parts = [_differing(kind, compared) for kind, compared in _COMPARED.items()]
    with Questions(given.__getitem__) as questions:
        order = ", ".join(f'"{name}"' for name in DIFF.order)
        return questions.table("\nUNION ALL\n".join(parts) + f"\nORDER BY {order}", DIFF.schema)


_ENDS = ("valid_to_offset", "valid_to_time", "ended_by", "duration_ms")
"""Columns that say how a state ended."""


def _held(history: Table, offset: int) -> str:
    """Return SQL for the rows of a history that hold at an offset."""
    ends = [name for name in history.schema.names if name in _ENDS]
    nothing = ", ".join(f"NULL AS {name}" for name in ends)
    return f"""
        SELECT * REPLACE ({nothing}) FROM {history.name}
        WHERE valid_from_offset <= {offset}
          AND (valid_to_offset IS NULL OR valid_to_offset > {offset})
          -- A snapshot's states stand at its end, and hold before the record there.
          OR record_type = '{SNAPSHOT_TYPE}' AND valid_from_offset = {offset + 1}
    """


def _held_of_topics(moment: LogMoment) -> dict[str, str]:
    histories = {"partitions": t.PARTITION_HISTORY, "configs": t.CONFIGS}
    return {name: _held(history, moment.offset) for name, history in histories.items()}


# Topics with the counts of their partitions, and what is set for them.
_TOPICS = f"""
    WITH settings AS (
      SELECT resource_type, resource_name,
        CASE WHEN regexp_full_match(trim(value), '[0-9]+') THEN TRY_CAST(trim(value) AS INT) END
          AS number
      FROM ({{configs}}) WHERE name = '{MIN_INSYNC_REPLICAS}'
    )
    SELECT held.*, coalesce(counts.partitions, 0) AS partitions, counts.replication_factor,
      coalesce(own.number, by_default.number, assumed.min_insync_replicas) AS min_insync_replicas,
      CASE WHEN own.number IS NOT NULL THEN '{OF_TOPIC}'
        WHEN by_default.number IS NOT NULL THEN '{OF_CLUSTER}' ELSE '{ASSUMED}' END
        AS min_insync_replicas_from
    FROM ({{held}}) AS held
    LEFT JOIN (
      SELECT topic_id, count(*) AS partitions,
        max(CASE WHEN partition = 0 THEN len(replicas) END) AS replication_factor
      FROM ({{partitions}}) GROUP BY topic_id
    ) AS counts ON held.topic_id = counts.topic_id
    LEFT JOIN (
      SELECT resource_name, number FROM settings WHERE resource_type = 'topic'
    ) AS own ON held.topic = own.resource_name
    CROSS JOIN (
      SELECT max(number) AS number FROM settings
      WHERE resource_type = 'broker' AND resource_name = ''
    ) AS by_default
    CROSS JOIN (SELECT min_insync_replicas FROM logs) AS assumed
"""


def _differing(kind: str, compared: _Compared) -> str:
    """Return SQL for what differs of one table, as rows of `DIFF`."""
    keys = ", ".join(compared.keys)
    own = {"kind": f"'{kind}'", "name": _NAMES.get(kind, "NULL")}
    own |= {name: name for name in ("field", "before", "after")}
    shown = ", ".join(
        f"{own.get(column.name, column.name if column.name in compared.keys else 'NULL')}"
        f' AS "{column.name}"'
        for column in DIFF.columns
    )
    # Of what came or went, that it did says enough.
    return f"""
        SELECT {shown} FROM (
          SELECT * FROM ({_texts("old", "before", compared)})
          FULL JOIN ({_texts("new", "after", compared)}) USING ({keys}, field)
          WHERE before IS DISTINCT FROM after
          QUALIFY field = 'exists' OR NOT bool_or(field = 'exists') OVER (PARTITION BY {keys})
        )
    """


def _texts(age: str, column: str, compared: _Compared) -> str:
    """Return SQL for a row per key and field, with the field's text in a column."""
    texts = [f'{_text(compared.table, field)} AS "{field}"' for field in compared.fields]
    fields = ", ".join(f'"{name}"' for name in ("exists", *compared.fields))
    held = f"""
        SELECT {", ".join((*compared.keys, *texts))}, 'yes' AS "exists"
        FROM {age}_{compared.table.name}
    """
    return f"UNPIVOT ({held}) ON {fields} INTO NAME field VALUE {column}"


def _text(table: Table, field: str) -> str:
    if pa.types.is_list(table.schema.field(field).type):
        return f"array_to_string(CAST({field} AS VARCHAR[]), ',')"
    return f"CAST({field} AS VARCHAR)"
