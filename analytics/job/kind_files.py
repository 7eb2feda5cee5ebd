"""Tables whose rows come mixed, row by row of one kind, written by tasks into files of their own.

Spark's writer makes a job of each table; several tables of few rows are one job here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import pyarrow as pa  # type: ignore[import-untyped] # it comes without types
import pyarrow.compute as pc  # type: ignore[import-untyped]
from pyspark.sql import DataFrame

from analytics.job.row_kinds import task_label
from analytics.job.scan_stage import FILE
from analytics.store.part_files import PartFiles, PartWriters
from analytics.tables.frames import map_batches
from analytics.tables.table import Table


class Source(NamedTuple):
    """Where the rows of a table come from."""

    kind: str
    still_only: bool
    """Whether only those that have not ended belong to it."""


def write_kinds(
    rows: DataFrame, tables: Mapping[Table, Source], parts: PartFiles, *, tasks: int
) -> DataFrame:
    """Write tables, each from the rows of one kind.

    Args:
        rows: A column `kind`, and a struct column of the name of each kind.
        tables: The tables; the structs have their columns.
        parts: Where to.
        tasks: How many tasks write at most.

    Returns:
        The files, of schema `scan.FILE`; nothing is written before they are asked for.
    """
    kinds = dict.fromkeys(source.kind for source in tables.values())
    chosen = rows.select("kind", *kinds).coalesce(tasks)
    return map_batches(chosen, _writer(tables, parts), FILE)


def table_rows(structs: pa.StructArray, table: Table) -> pa.Table:
    """Return structs as rows of a table, with the columns that it has."""
    schema = table.schema
    columns = {field.name: pc.struct_field(structs, [field.name]) for field in schema}
    return pa.table({field.name: columns[field.name].cast(field.type) for field in schema})


def in_order(rows: pa.Table, table: Table) -> pa.Table:
    """Return rows in the order of the table."""
    keys = [(name, "ascending") for name in table.order]
    return rows.take(pc.sort_indices(rows.select(table.order), sort_keys=keys))


def _writer(
    tables: Mapping[Table, Source], parts: PartFiles
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found: dict[Table, list[pa.Table]] = {table: [] for table in tables}
        for batch in batches:
            kinds = batch.column("kind")
            for table, source in tables.items():
                own = batch.column(source.kind).filter(pc.equal(kinds, source.kind))
                if source.still_only:
                    own = own.filter(pc.is_null(pc.struct_field(own, ["valid_to_offset"])))
                if len(own):
                    found[table].append(table_rows(own, table))
        with PartWriters(parts, task_label()) as writers:
            for table, pieces in found.items():
                if pieces:
                    rows = in_order(pa.concat_tables(pieces), table)
                    writers.write(table, rows, still=True)
        if writers.files:
            yield pa.RecordBatch.from_pylist(writers.files, schema=FILE)

    return write
