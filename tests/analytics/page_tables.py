"""Tables as a replay writes them, made by hand: a small cluster with one of everything."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from analytics.tables.catalog import TABLES
from analytics.tables.table import Table
from tests.analytics.small_logs import answered
from tests.analytics.stories import given_row

Row = dict[str, object]

ONE = "one"
"""Name of the cluster."""

START = datetime(2026, 1, 1, 12, tzinfo=UTC)
HOSTILE = "</script><script>alert(1)</script>\"'&<b>\x00\u202e"
EVERYTHING = Path(__file__).with_name("some_of_everything.txt")
ALL_TABLES: Mapping[str, Table] = {table.name: table for table in TABLES}


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def write_tables(folder: Path, cluster: str = ONE, **rows: list[Row]) -> None:
    """Write every table below a folder; those not given are empty, records are counted."""
    if "records" in rows:
        of_log = [{**row, "snapshot": False} for row in rows["records"]]
        rows.setdefault("record_counts", answered("record_counts", log_rows=of_log))
    names = {"leadership", "isr_changes"} & rows.keys()
    if names:
        given = {name: rows[name] for name in (*names, "record_counts") if name in rows}
        rows.setdefault("change_counts", answered("change_counts", log_layouts=[{}], **given))
    for name, table in ALL_TABLES.items():
        schema = table.schema
        given = [{key: row.get(key) for key in schema.names} for row in rows.get(name, [])]
        assert all(set(row) <= set(schema.names) for row in rows.get(name, [])), name
        (folder / table.folder(cluster)).mkdir(parents=True)
        path = folder / table.folder(cluster) / "part.parquet"
        pq.write_table(pa.Table.from_pylist(given, schema), path)


def outage(
    partition: int, start: float, end: float | None, kind: str = "leaderless", **more: object
) -> Row:
    return {
        "topic": "orders",
        "topic_id": "id-orders",
        "partition": partition,
        "kind": kind,
        "from_offset": int(start),
        "from_time": at(start),
        "to_offset": None if end is None else int(end),
        "to_time": None if end is None else at(end),
        "duration_ms": None if end is None else int((end - start) * 1000),
        "cause": "unknown",
        **more,
    }


def rows_of_text(text: str) -> dict[str, list[Row]]:
    """Return rows of tables, `given TABLE: COLUMN ...`, with a row in each line below."""
    found = {}
    for block in text.strip().split("\n\n"):
        (head, *lines) = block.splitlines()
        name, _, columns = head.removeprefix("given ").partition(":")
        schema = ALL_TABLES[name].schema
        found[name] = [given_row(columns.split(), schema, line, START) for line in lines]
    return found


def some_of_everything() -> dict[str, list[Row]]:
    """Rows for a log of 600 seconds, some with texts that want to be code."""
    _, _, text = EVERYTHING.read_text("utf-8").partition("\n\n")
    found = rows_of_text(text)
    for row in (row for rows in found.values() for row in rows):
        row |= {key: HOSTILE for key, value in row.items() if value == "HOSTILE"}
    found["records"] = [
        {
            "offset": n,
            "timestamp": at(n),
            "epoch": 1 + n // 400,
            "type": "NO_OP_RECORD" if n % 3 else "PARTITION_CHANGE_RECORD",
        }
        for n in range(601)
    ]
    return found
