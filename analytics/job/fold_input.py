"""From the rows that a log decodes to, to what the cluster was at each moment.

The records of a log are read once (`job.scan_stage`). What they say of partitions stays packed and
goes to the bucket of the partition; everything else is few rows: records about brokers are folded
per broker, those about topics go to the buckets that have partitions of the topic. Records that
name a topic (ClearElr, `min.insync.replicas`) are joined to its ids first, those that mean all
topics go to every bucket. No-ops and whatever an aborted transaction held never get this far.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped] # it comes without types
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812 - Spark's customary name

from analytics.bytes.arrays import inside
from analytics.bytes.batch_walk import Problem
from analytics.bytes.layout import Layout
from analytics.decode.arrow_reading import longs
from analytics.decode.plain_rows import microseconds
from analytics.decode.split_rows import COLUMNS
from analytics.fold.broker_facts import BrokerState
from analytics.fold.key_history import Sync
from analytics.fold.min_insync import MIN_INSYNC_REPLICAS
from analytics.fold.transactions import MARKERS, Dropped, Marker, dropped_stretches
from analytics.job.fold_stage import EVENT, INPUT
from analytics.job.scan_stage import BLOCK, SCANNED
from analytics.tables.frames import Work, map_batches, run_sql
from analytics.tables.spark_schema import spark_type
from jbodlab import kafka_uuid
from jbodlab.records.config_records import BROKER_RESOURCE, ConfigRecord
from jbodlab.records.topic_records import ClearElrRecord, RemoveTopicRecord, TopicRecord

TOPIC_TYPES = (TopicRecord.NAME, RemoveTopicRecord.NAME)


_IS_MIN_ISR = f"get_json_object(payload, '$.data.name') = '{MIN_INSYNC_REPLICAS}'"

_NAMES_A_TOPIC = (
    f"topic IS NOT NULL AND (type = '{ClearElrRecord.NAME}' AND topic <> ''"
    f" OR type = '{ConfigRecord.NAME}' AND {_IS_MIN_ISR})"
)
"""Whether a record means a topic by its name."""

_MEANS_ALL_TOPICS = (
    f"type = '{ClearElrRecord.NAME}' AND coalesce(topic, '') = ''"
    f" OR type = '{ConfigRecord.NAME}' AND {_IS_MIN_ISR}"
    f" AND get_json_object(payload, '$.data.resourceType') = '{BROKER_RESOURCE}'"
    " AND get_json_object(payload, '$.data.resourceName') = ''"
)

_TIMES = {"time": "unix_micros(replay_time)"}

_EVENT = f"struct({', '.join(f'{_TIMES.get(name, name)} AS {name}' for name in EVENT.names)})"

_EVENT_TYPE = spark_type(pa.struct(EVENT)).simpleString()

_POSITION = "replay_offset * 2 + IF(snapshot, 0, 1)"

# Records that name a topic, with the ids that had this name by then or before.
_BY_NAME = f"""
    SELECT named.*, topic_id, home
    FROM (SELECT * EXCEPT (topic_id, home) FROM {{rows}} WHERE {_NAMES_A_TOPIC}) AS named
    JOIN (
      SELECT topic AS name, topic_id, home, min(replay_offset) AS since
      FROM {{rows}} WHERE type = '{TopicRecord.NAME}' GROUP BY topic, topic_id, home
    ) AS created ON topic = name AND replay_offset >= since
"""

_COUNTED = {
    "records": "sum(count.records)",
    "first_offset": "min(count.first_offset)",
    "first_time": "unix_micros(min_by(count.first_time, count.first_offset))",
    "last_offset": "max(count.last_offset)",
    "last_time": "unix_micros(max_by(count.last_time, count.last_offset))",
    "earliest_time": "unix_micros(min(count.earliest_time))",
    "latest_time": "unix_micros(max(count.latest_time))",
}

_SEEN = {
    "markers": "collect_list(CASE WHEN NOT snapshot AND problem IS NULL"
    f" AND type IN {MARKERS} THEN struct(offset, type, file) END)",
    "wide": "collect_list(wide)",
    "names_topics": f"max({_NAMES_A_TOPIC})",
    "files": "collect_list(written)",
    "ends": "collect_list(last)",
    "others": "count_if(is_row)",
}


_IN_EFFECT = pa.schema([*COLUMNS, SCANNED.field("home")])
"""Of the rows that are replayed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """What is needed of a log before it is followed; it grows with the cluster, not with the log.

    Attributes:
        dropped: Offsets without effect.
        problems: Transaction markers that are out of place.
        wide: Topics that lie in several buckets: id as text, and the number of their slots.
        names_topics: Whether records name topics.
        counts: Rows of the table of record counts; times are microseconds since 1970.
        files: What the scan has written, rows of `scan.FILE`.
        ends: The last batches of splits, rows of `scan.END`.
        others: How many records there are that are not of a partition, and no no-ops.
    """

    dropped: tuple[Dropped, ...]
    problems: tuple[Problem, ...]
    wide: tuple[tuple[str, int], ...]
    names_topics: bool
    counts: tuple[Mapping[str, Any], ...]
    files: tuple[Row, ...]
    ends: tuple[Row, ...]
    others: int


def overview(scanned: DataFrame, layout: Layout) -> Overview:
    """Look over the few rows of a scan, in one job: each count is a group, all else another one."""
    kinds = ("kind = 'count' AS is_count", "kind = 'row' AS is_row")
    columns = (*kinds, "count", "wide", "file AS written", "`end` AS last")
    aggregates = [F.expr(f"{sql} AS {name}") for name, sql in (_COUNTED | _SEEN).items()]
    found = (
        scanned.selectExpr(*columns, "row.*")
        .groupBy("is_count", "count.epoch", "count.type")
        .agg(*aggregates)
        .collect()
    )
    seen = next((row for row in found if not row["is_count"]), None)
    markers = sorted(
        Marker(one["offset"], one["type"], one["file"]) for one in _of(seen, "markers")
    )
    dropped, problems = dropped_stretches(markers, layout.end_offset)
    wide: dict[str, int] = {}
    for one in _of(seen, "wide"):
        topic_id = kafka_uuid.to_text(UUID(bytes=bytes(one["topic_id"])))
        wide[topic_id] = max(one["slots"], wide.get(topic_id, 0))
    names = ("epoch", "type", *_COUNTED)
    return Overview(
        dropped=tuple(dropped),
        problems=tuple(problems),
        wide=tuple(wide.items()),
        names_topics=seen is not None and bool(seen["names_topics"]),
        counts=tuple({name: row[name] for name in names} for row in found if row["is_count"]),
        files=_of(seen, "files"),
        ends=_of(seen, "ends"),
        others=0 if seen is None else seen["others"],
    )


def effective_rows(
    scanned: DataFrame,
    layout: Layout,
    dropped: Sequence[Dropped],
    keep: Callable[[DataFrame], DataFrame],
) -> DataFrame:
    """Return the rows that are replayed, of the data source's schema; control records too.

    Args:
        scanned: Rows of the scan.
        layout: Where the replay starts.
        dropped: Offsets without effect.
        keep: Keeps a frame of which several things are made.
    """
    rows = scanned.where("kind = 'row' AND row.problem IS NULL").select("row.*", "home")
    if dropped:
        # SQL would compare each row with each stretch.
        rows = keep(map_batches(rows, _without(dropped), _IN_EFFECT))
    return rows.where(f"replay_offset >= {layout.replay_from}")


def _without(dropped: Sequence[Dropped]) -> Work:
    def leave_out(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            has_none = inside(longs(batch.column("offset")), dropped)
            for name in ("snapshot", "control"):
                has_none &= ~np.asarray(batch.column(name).fill_null(False))
            yield batch.filter(pa.array(~has_none))

    return leave_out


def history_input(
    blocks: DataFrame, rows: DataFrame, seen: Overview, buckets: int, layout: Layout
) -> DataFrame:
    """Return what the buckets get, of schema `INPUT`.

    Args:
        blocks: Rows of the scan, with the blocks of events.
        rows: Those of them that are replayed.
        seen: What `overview` found.
        buckets: How many there are.
        layout: Where the replay starts.
    """
    own = blocks.where("kind = 'block'").select(*(field.name for field in BLOCK))
    frames = {"blocks": own, "rows": rows}
    if seen.wide:
        frames["wide"] = rows.sparkSession.createDataFrame(list(seen.wide), "id string, slots int")
    types = f"SELECT * FROM {{rows}} WHERE type IN {TOPIC_TYPES}"
    parts = [
        f"""
        SELECT bucket, first, last, snapshot_end, file_name, blob, CAST(NULL AS STRING) AS topic_id,
          CAST(NULL AS BOOLEAN) AS is_first, CAST(NULL AS {_EVENT_TYPE}) AS event FROM {{blocks}}
        WHERE snapshot_end IS NULL OR snapshot_end >= {layout.replay_from}
        """,
        _of_topics(types, seen, buckets),
        f"""
        SELECT explode(sequence(0, {buckets - 1})), {_POSITION}, {_POSITION}, NULL, NULL, NULL,
          NULL, false, {_EVENT} FROM {{rows}} WHERE {_MEANS_ALL_TOPICS}
        """,
    ]
    if seen.names_topics:
        parts.append(_of_topics(_BY_NAME, seen, buckets))
    # What is made of this is kept, and Spark would not know it again with a union in a union: it
    # makes one of the two wherever it meets them.
    found = reduce(DataFrame.union, (run_sql(part, frames) for part in parts))
    # A row for each bucket, so that what it holds open is looked after.
    begin = ("CAST(id AS INT)", "-1L", "-1L", *("NULL",) * (len(INPUT) - 3))
    return found.union(rows.sparkSession.range(buckets).selectExpr(*begin))


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


def states_of_cluster(folded: DataFrame) -> tuple[tuple[BrokerState, ...], dict[int, int]]:
    """Return what brokers were, and the controller of each epoch, from their folded history.

    Its size grows with restarts, failures and elections, not with what happens to partitions.
    """
    kinds = ("broker", "controller_epoch")
    columns = (
        "broker.broker",
        "broker.valid_from_offset",
        "broker.valid_to_offset",
        "unix_micros(broker.valid_from_time) AS from_us",
        "unix_micros(broker.valid_to_time) AS to_us",
        "broker.fenced",
        "broker.in_controlled_shutdown",
        "broker.log_dirs",
        "controller_epoch.epoch",
        "controller_epoch.controller",
    )
    rows = folded.where(f"kind IN {kinds}").selectExpr("kind", *columns).collect()
    controllers = {row["epoch"]: row["controller"] for row in rows if row["kind"] == kinds[1]}
    brokers = tuple(
        BrokerState(
            broker=row["broker"],
            from_offset=row["valid_from_offset"],
            to_offset=row["valid_to_offset"],
            fenced=row["fenced"],
            in_controlled_shutdown=row["in_controlled_shutdown"],
            directories=frozenset(kafka_uuid.parse(text).bytes for text in row["log_dirs"]),
            from_time=row["from_us"],
            to_time=row["to_us"],
        )
        for row in rows
        if row["kind"] == kinds[0]
    )
    return brokers, controllers


def _of_topics(rows: str, seen: Overview, buckets: int) -> str:
    """Return SQL for events of single topics, for every bucket that has partitions of the topic."""
    slots, wide = "1", ""
    if seen.wide:
        slots = f"least(coalesce(slots, 1), {buckets})"
        wide = "LEFT JOIN {wide} ON topic_id = id"
    return f"""
        SELECT CAST(pmod(home + slot, {buckets}) AS INT), {_POSITION}, {_POSITION}, NULL, NULL,
          NULL, topic_id, slot = 0, {_EVENT}
        FROM (SELECT *, explode(sequence(0, {slots} - 1)) AS slot FROM ({rows}) {wide})
    """


def _of(row: Row | None, name: str) -> tuple[Row, ...]:
    return () if row is None else tuple(row[name])
