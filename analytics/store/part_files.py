"""Parquet files that this process writes into the store of the output."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Iterable
from typing import Any, Self

import pyarrow as pa  # type: ignore[import-untyped] # it comes without types
import pyarrow.compute as pc  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from analytics.store.store import Store
from analytics.store.stored_tables import SUFFIX
from analytics.tables.table import Table

COMPRESSION = "snappy"
"""Compression of Spark, too: every reader has it, and others take a third longer to write."""

ROWS_PER_GROUP = 1 << 20

LONG_TEXTS = ("payload", "raw", "value", "message")
"""Columns whose values hardly repeat: a dictionary of them would cost and save nothing."""

SKIPPED_BY = frozenset(
    (
        *("offset", "timestamp", "time", "batch_base_offset"),
        *("valid_from_offset", "valid_from_time", "valid_to_offset", "valid_to_time"),
        *("from_offset", "from_time", "to_offset", "to_time"),
        *("type", "topic", "topic_id", "partition", "broker", "directory"),
    )
)
"""Columns by whose range of values readers skip parts of a file; no others are worth it."""


class PartWriters:
    """The files that one task writes, one per table.

    Args:
        store: Where they are written before they are put in their places.
        cluster: Label of the cluster, for the folders of the tables' files.
        label: Beginning of their names, by which the files of a table are in order.
    """

    def __init__(self, store: Store, cluster: str, label: str) -> None:
        self.store = store
        self.cluster = cluster
        self.name = f"part-{label}-{uuid.uuid4().hex[:12]}{SUFFIX}"
        self.writers: dict[str, pq.ParquetWriter] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for writer in self.writers.values():
            writer.close()

    def write(self, table: Table, rows: pa.Table) -> None:
        """Write rows of a table, its columns in order."""
        if not rows.num_rows:
            return
        writer = self.writers.get(table.name)
        if writer is None:
            folder = table.folder(self.cluster)
            self.store.make_folder(folder)
            path = self.store.path(f"{folder}/{self.name}")
            writer = self.writers[table.name] = _writer(path, table, rows.schema, self.store.files)
        writer.write_table(rows, row_group_size=ROWS_PER_GROUP)


def in_order(rows: pa.Table, table: Table) -> pa.Table:
    """Return rows in the order of the table."""
    keys = [(name, "ascending") for name in table.order]
    return rows.take(pc.sort_indices(rows.select(table.order), sort_keys=keys))


def fill(store: Store, table: Table, clusters: Iterable[str]) -> None:
    """Write a file without rows for each cluster, so that a table has its columns."""
    content = pa.BufferOutputStream()
    with _writer(content, table, table.schema) as writer:
        writer.write_table(table.schema.empty_table())
    name = f"part-00000-{uuid.uuid4().hex[:12]}{SUFFIX}"

    def put(cluster: str) -> None:
        store.make_folder(table.folder(cluster))
        store.write(f"{table.folder(cluster)}/{name}", content.getvalue())

    store.do(put, clusters)


def _writer(where: Any, table: Table, schema: pa.Schema, files: Any = None) -> pq.ParquetWriter:
    writer = pq.ParquetWriter(
        where,
        schema,
        filesystem=files,
        compression=COMPRESSION,
        use_dictionary=[
            field.name
            for field in schema
            if field.name not in LONG_TEXTS
            and (pa.types.is_dictionary(field.type) or not pa.types.is_int64(field.type))
        ],
        store_schema=False,
        write_statistics=[name for name in schema.names if name in SKIPPED_BY],
    )
    writer.add_key_value_metadata({"ARROW:schema": base64.b64encode(table.schema.serialize())})
    return writer
