"""Tables of a few batches of records, or of rows that a test gives, made by the product's engines.

Everything is of one cluster, of which the rows here do not speak.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa  # type: ignore[import-untyped] # it comes without types
import pyarrow.compute as pc  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from analytics.engines.duck import DuckEngine
from analytics.engines.log_views import LINES, log_views
from analytics.engines.spark import SparkEngine
from analytics.rare.min_insync import AssumedMinIsr
from analytics.read.arrow_rows import problem_rows
from analytics.read.layout import Layout, read_layout
from analytics.read.log_facts import LOG_COLUMNS, log_facts
from analytics.read.split_rows import COLUMNS, read_split
from analytics.store.store import Store
from analytics.tables.sql_files import needed, sql_files
from analytics.tables.table import CLUSTER, STRING, Table
from jbodlab.metadata.log.batches import control_batch
from jbodlab.metadata.records.control_records import KRaftVersionRecord, LeaderChangeMessage
from jbodlab.metadata.records.schema import Record
from tests.analytics.builders import uid, versioned
from tests.metadata_batches import data_batch
from tests.snapshot_files import write_snapshot

Row = dict[str, object]
Rows = dict[str, list[Row]]
Snapshots = Mapping[int, Sequence[Record]]
"""Records of snapshots, by their end offsets."""

START = datetime(2026, 1, 1, 23, 0, tzinfo=UTC)
TOPIC = uid(1)

_ONE = "one"
_SEGMENT = "00000000000000000000.log"


class Answered(Protocol):
    """Gives the rows of a table that is made of others."""

    def __call__(self, name: str, **rows: Sequence[Row]) -> list[Row]:
        """See `answered`."""


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def tables_of(names: Sequence[str], batches: Sequence[Sequence[Record]]) -> Rows:
    """Return the rows of tables of a log, a second from batch to batch; see `tables_of_logs`."""
    with tempfile.TemporaryDirectory() as folder:
        write_log(Path(folder), batches, 1.0, {})
        return tables_of_logs(names, {_ONE: read_layout(Path(folder))})[_ONE]


def tables_of_logs(
    names: Sequence[str], layouts: Mapping[str, Layout], **more: Sequence[Row]
) -> dict[str, Rows]:
    """Return for each cluster the rows of tables, each in its order, all made by one plan.

    Args:
        names: The tables.
        layouts: The logs, by cluster.
        more: Rows of tables that count in place of what the logs say.
    """
    rows = [
        batch
        for label, layout in layouts.items()
        for split in layout.splits
        for batch in read_split(replace(split, cluster=label), COLUMNS)
    ]
    views = base_views() | log_views(log_facts(layouts.items()), AssumedMinIsr())
    rows += (problem_rows(layout, label, COLUMNS) for label, layout in layouts.items())
    views["log_rows"] = pa.Table.from_batches(rows, COLUMNS)
    views |= {name: _given(name, given) for name, given in more.items()}
    made: dict[str, pa.Table] = {}
    with DuckEngine(views) as engine:
        engine.make_all(names, made.__setitem__)

    def found(label: str, name: str) -> list[Row]:
        rows = made[name]
        return _ordered(rows.filter(pc.equal(rows.column(CLUSTER), label)), _table(name))

    return {label: {name: found(label, name) for name in names} for label in layouts}


def holds(row: Row, moment: Any, unit: str = "offset") -> bool:
    """Return whether a row is valid at an offset or a time."""
    start, end = row[f"valid_from_{unit}"], row[f"valid_to_{unit}"]
    return start <= moment and (end is None or moment < end)  # type: ignore[operator]


def picked(rows: Sequence[Row], *names: str) -> list[tuple[object, ...]]:
    """Return some columns of rows."""
    return [tuple(row[name] for name in names) for row in rows]


def write_log(
    folder: Path, batches: Sequence[Sequence[Record]], step_s: float, snapshots: Snapshots
) -> None:
    """Write batches as the log of a cluster."""
    data, offset = b"", 0
    times = {0: _milliseconds(START)}
    for number, batch in enumerate(batches):
        time = _milliseconds(at(number * step_s))
        if isinstance(batch[0], LeaderChangeMessage | KRaftVersionRecord):
            data += control_batch(*batch, base_offset=offset, epoch=1, timestamp_ms=time)  # type: ignore[arg-type]
        else:
            records = list(map(versioned, batch))
            data += data_batch(records, base_offset=offset, epoch=1, timestamp_ms=time)
        offset += len(batch)
        times[offset] = time
    (folder / _SEGMENT).write_bytes(data)
    for end, records in snapshots.items():
        write_snapshot(folder, map(versioned, records), end, 1, times[end])


def answered(name: str, **rows: Sequence[Row]) -> list[Row]:
    """Return the rows of a table or step, in its order, by the local engine.

    Args:
        name: The table.
        rows: Of what it reads; a table that is not given is empty, and steps are made.
    """
    with DuckEngine(_around(name, rows)) as engine:
        table = sql_files()[name].table
        engine.make(name)
        if table is not None:
            return _ordered(engine.rows(name), table)
        found = _texts(engine.ask(f"FROM {name} ORDER BY ALL").to_arrow_table())
        return list(found.drop_columns([CLUSTER]).to_pylist())


def answered_by_spark(spark: SparkSession, name: str, **rows: Sequence[Row]) -> list[Row]:
    """Return the rows of a table, in its order, by Spark; see `answered`."""
    with tempfile.TemporaryDirectory() as folder:
        engine = SparkEngine(spark, Store(folder), [_ONE], {"spark.sql.shuffle.partitions": "2"})
        for view, given in _around(name, rows).items():
            engine.hold(view, given)
        engine.write([name])
        table = _table(name)
        files = sorted(Path(folder, table.name).rglob("*.parquet"))
        read = [pq.ParquetFile(file).read().cast(table.schema) for file in files]
        return _in_order(pa.concat_tables([table.schema.empty_table(), *read]).to_pylist(), table)


def _around(name: str, rows: Mapping[str, Sequence[Row]]) -> dict[str, pa.Table]:
    """Return what a table is made from; a step that is not read is a table without rows."""
    views = {
        view: _typed(rows[view], base.schema) if view in rows else base
        for view, base in base_views().items()
    }
    files = {file.name: file for file in needed([name])}
    for file in files.values():
        if file.name != name and (file.table is not None or file.name in rows):
            views[file.name] = _given(file.name, rows.get(file.name, ()))
    reached: set[str] = set()
    todo = {name}
    while todo := (todo & files.keys()) - views.keys() - reached:
        reached |= todo
        todo = {needs for each in todo for needs in files[each].needs}
    unread = files.keys() - reached - views.keys()
    return views | {each: pa.table({CLUSTER: pa.array([], STRING)}) for each in unread}


def base_views() -> dict[str, pa.Table]:
    """Return the base views of no log at all."""
    return {
        **log_views(LOG_COLUMNS.empty_table(), AssumedMinIsr()),
        "log_rows": COLUMNS.empty_table(),
        "given_broker_log_lines": LINES.empty_table(),
    }


def _table(name: str) -> Table:
    table = sql_files()[name].table
    assert table is not None
    return table


@cache
def schema_of(name: str) -> pa.Schema:
    """Return the columns of a table, a step or a base view."""
    if name not in sql_files():
        return base_views()[name].schema
    if (table := sql_files()[name].table) is not None:
        return pa.schema([pa.field(CLUSTER, STRING), *table.schema])
    with DuckEngine(base_views()) as engine:
        engine.make(name)
        return _texts(engine.ask(f"FROM {name}").to_arrow_table()).schema


def _given(name: str, rows: Sequence[Row]) -> pa.Table:
    schema = schema_of(name)
    known = set(schema.names)
    assert all(row.keys() <= known for row in rows), name
    return _typed(rows, schema)


def _typed(rows: Sequence[Row], schema: pa.Schema) -> pa.Table:
    given = [{CLUSTER: _ONE, **row} for row in rows]
    return pa.Table.from_pylist(
        [{name: row.get(name) for name in schema.names} for row in given], schema
    )


def _texts(rows: pa.Table) -> pa.Table:
    coded = {field.name for field in rows.schema if pa.types.is_dictionary(field.type)}
    fields = [one.with_type(STRING) if one.name in coded else one for one in rows.schema]
    return rows.cast(pa.schema(fields))


def _ordered(rows: pa.Table, table: Table) -> list[Row]:
    return _in_order(rows.drop_columns([CLUSTER]).to_pylist(), table)


def _in_order(rows: list[Row], table: Table) -> list[Row]:
    return sorted(
        rows, key=lambda row: [(row[name] is not None, row[name]) for name in table.order]
    )


def _milliseconds(time: datetime) -> int:
    return round(time.timestamp() * 1000)
