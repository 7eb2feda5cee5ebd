"""History of brokers, settings, features and controllers, from the rows of a scan.

These records are few, whatever partitions do, so that they are folded per key with the definitions
of `jbodlab.image`; see `fold.cluster_keys` for the keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped] # it comes without types
from pyspark.sql import DataFrame

from analytics.fold.cluster_keys import (
    KINDS,
    TYPES,
    EpochPart,
    controller_epochs,
    make_small_fold,
)
from analytics.fold.key_history import Event, Row, Sync, fold
from analytics.fold.settings import KRAFT_VERSION, RESOURCE_TYPES
from analytics.tables import catalog as t
from analytics.tables.frames import map_batches, run_sql
from jbodlab.records.config_records import ConfigRecord, FeatureLevelRecord
from jbodlab.records.control_records import KRaftVersionRecord, LeaderChangeMessage
from jbodlab.records.topic_records import RemoveTopicRecord, TopicRecord

HISTORY = pa.schema(
    [
        pa.field("kind", t.STRING),
        *(pa.field(kind, pa.struct(schema)) for kind, schema in KINDS.items()),
        pa.field("problem", pa.struct(t.PROBLEMS.schema)),
    ]
)
"""One row of one kind; the columns of the other kinds are null."""

ROWS_PER_BATCH = 8192

_RESOURCES = " ".join(f"WHEN '{code}' THEN '{name}'" for code, name in RESOURCE_TYPES.items())
_CODE = "get_json_object(payload, '$.data.resourceType')"
_TIMES = {"time": "unix_micros(replay_time)"}
_COLUMNS = ", ".join(f"{_TIMES.get(n, n)} AS {n}" for n in Event._fields if n != "key")

_EVENTS = f"""
    SELECT * FROM (
      SELECT CASE type
          WHEN '{ConfigRecord.NAME}' THEN concat_ws('/', 'c',
            CASE {_CODE} {_RESOURCES} ELSE {_CODE} END,
            get_json_object(payload, '$.data.resourceName'))
          WHEN '{FeatureLevelRecord.NAME}' THEN
            concat('f/', get_json_object(payload, '$.data.name'))
          WHEN '{KRaftVersionRecord.NAME}' THEN 'f/{KRAFT_VERSION}'
          WHEN '{LeaderChangeMessage.NAME}' THEN concat('e/', epoch)
          ELSE concat('b/', broker) END AS key, {_COLUMNS}
      FROM {{rows}} WHERE type IN {TYPES}
      UNION ALL
      SELECT concat('c/topic/', name), {_COLUMNS}
      FROM {{rows}} JOIN (
        SELECT DISTINCT topic AS name, topic_id AS id FROM {{rows}} LEFT SEMI JOIN (
          SELECT topic FROM {{rows}} WHERE type = '{ConfigRecord.NAME}' AND topic IS NOT NULL
        ) USING (topic) WHERE type = '{TopicRecord.NAME}'
      ) ON topic_id = id WHERE type = '{RemoveTopicRecord.NAME}'
    ) WHERE key IS NOT NULL
    DISTRIBUTE BY key SORT BY key, replay_offset, snapshot DESC, offset
"""
"""Events by their keys, with the ends of topics for which something was set."""


def cluster_history(rows: DataFrame, syncs: tuple[Sync, ...]) -> DataFrame:
    """Fold what is replayed of everything but topics and partitions.

    Args:
        rows: Rows of the data source's schema that are replayed, control records included.
        syncs: Snapshots that the replay meets.

    Returns:
        Rows of schema `HISTORY`; cache them if several tables come from them.
    """
    return map_batches(run_sql(_EVENTS, {"rows": rows}), _folder(syncs), HISTORY)


def epoch_rows(counts: Iterable[Mapping[str, Any]], controllers: Mapping[int, int]) -> list[Row]:
    """Return the rows of the table of controller epochs; times are microseconds since 1970.

    Args:
        counts: Rows of the table of record counts.
        controllers: The controller of each epoch whose LeaderChange record is in the log.
    """
    parts = [
        EpochPart(row["epoch"], row["first_offset"], row["first_time"], row["records"])
        for row in counts
    ]
    return controller_epochs(parts, controllers)


def _folder(
    syncs: tuple[Sync, ...],
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def fold_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = fold(_events(batches), syncs, make_small_fold)
        while chunk := list(islice(rows, ROWS_PER_BATCH)):
            yield pa.RecordBatch.from_pylist(chunk, schema=HISTORY)

    return fold_batches


def _events(batches: Iterable[pa.RecordBatch]) -> Iterator[Event]:
    for batch in batches:
        columns = (column.to_pylist() for column in batch.columns)
        yield from map(Event._make, zip(*columns, strict=True))
