"""The rows of a bucket of partitions, table by table.

Tasks that wrote the tables left files per bucket, and reading the few columns that are needed costs
little.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa  # type: ignore[import-untyped] # it comes without types
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from analytics.store.store import Store
from analytics.tables import catalog as t
from analytics.tables.table import Table

_MOMENTS = ("valid_from_offset", "valid_from_time", "valid_to_offset", "valid_to_time")
PLACEMENT = (
    *("topic", "topic_id", "partition", "broker", "directory", "ended_by"),
    *_MOMENTS,
)
LEADERSHIP = (
    *("topic", "topic_id", "partition", "leader", "previous_leader", "cause"),
    *_MOMENTS,
)
HISTORY = (
    *("topic", "topic_id", "partition", "adding_replicas", "removing_replicas"),
    *("leader", "replicas", "isr"),
    *_MOMENTS,
)
ISR_CHANGE = (
    *("topic", "topic_id", "partition", "offset", "time"),
    *("change", "joined", "left", "cause"),
)
OUTAGE = (
    *("topic_id", "partition", "kind", "cause", "broker", "directory"),
    *("from_offset", "from_time", "to_offset", "to_time"),
)
PARTITION = ("topic_id", "partition", "leader", "replicas", "directories")
NEEDED: Mapping[Table, tuple[str, ...]] = {
    t.REPLICA_PLACEMENT: PLACEMENT,
    t.LEADERSHIP: LEADERSHIP,
    t.PARTITION_HISTORY: HISTORY,
    t.ISR_CHANGES: ISR_CHANGE,
    t.OUTAGES: OUTAGE,
    t.PARTITIONS: PARTITION,
}
"""The tables of partitions that others are derived from, and the columns that are read of them."""

_REPEATED = ("topic", "topic_id", "directory", "ended_by", "cause", "change", "kind")
_BUCKET = re.compile(r"part-\d+-(\d+)(-still)?-[0-9a-f]{12}\.parquet")


class BucketRows(Protocol):
    """Gives rows of tables: those of one bucket, or all."""

    def rows(self, table: Table, columns: Sequence[str]) -> pa.Table:
        """Return columns of a table; of one of partitions at most those of `NEEDED`."""


@dataclass(frozen=True, slots=True)
class RowsOfFiles:
    """Rows that lie in files."""

    store: Store
    files: Mapping[str, Sequence[str]]
    """Their names in the store, by the name of the table."""

    def rows(self, table: Table, columns: Sequence[str]) -> pa.Table:
        """Return columns of a table."""
        repeated = [name for name in _REPEATED if name in columns]
        parts = []
        for name in self.files.get(table.name, ()):
            path = self.store.path(name)
            with pq.ParquetFile(
                path, read_dictionary=repeated, filesystem=self.store.files
            ) as file:
                parts.append(file.read(columns=list(columns)).select(columns))
        return pa.concat_tables(parts) if parts else no_rows(table, columns)


def few(rows: BucketRows, table: Table, columns: Sequence[str]) -> list[dict[str, Any]]:
    """Return rows of a table that has few of them, one by one; times are microseconds."""
    found = rows.rows(table, columns)
    kinds = [
        field.with_type(pa.int64()) if pa.types.is_timestamp(field.type) else field
        for field in found.schema
    ]
    return list(found.cast(pa.schema(kinds)).to_pylist())


def no_rows(table: Table, columns: Sequence[str]) -> pa.Table:
    """Return columns of a table without rows."""
    schema = table.schema
    return pa.schema([schema.field(name) for name in columns]).empty_table()


def files_by_bucket(
    names: Mapping[str, Iterable[str]], cluster: str, tables: Iterable[Table]
) -> dict[int, dict[str, list[str]]]:
    """Return the files that tasks have written of some tables.

    Args:
        names: Of the files of each table.
        cluster: Label of the cluster.
        tables: The tables.

    Returns:
        For each bucket the names of its files in the store, by the name of the table.
    """
    found: dict[int, dict[str, list[str]]] = {}
    for table in tables:
        folder = table.folder(cluster)
        for name in sorted(names.get(table.name, ())):
            bucket = _BUCKET.fullmatch(name)
            if bucket is not None:
                own = found.setdefault(int(bucket[1]), {})
                own.setdefault(table.name, []).append(f"{folder}/{name}")
    return found
