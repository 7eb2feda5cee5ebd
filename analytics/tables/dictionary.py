"""The data dictionary, rendered from the declarations."""

from __future__ import annotations

import inspect
from pathlib import Path

from analytics.tables import catalog
from analytics.tables.spark_schema import spark_type
from analytics.tables.table import CLUSTER
from jbodlab.kafka_wire.field_table import field_rows
from jbodlab.metadata.records.registry import BY_NAME

_FIELDS_OF_RECORDS = """\
The `payload` of a record is JSON with these fields; `a[].b` is the field `b` of each struct in the
list `a`. A record lacks the fields that its `version` has not, and those with a tag that are at
their default. Where no default is named, it is zero, empty or false."""
_HEAD = "| field | type | versions | tag | default | meaning |\n|---|---|---|---|---|---|"

_ROOT = Path(__file__).parents[2]


def dictionary() -> str:
    """Return the data dictionary as Markdown."""
    assert catalog.__doc__ is not None
    files = sorted((_ROOT / "analytics" / "derive").glob("*/*.sql"))
    sql = {path.stem: path.relative_to(_ROOT) for path in files}
    parts = ["# Data dictionary", *catalog.__doc__.strip().split("\n\n")[2:]]
    for table in catalog.TABLES:
        lines = ["| column | type | meaning |", "|---|---|---|"]
        lines.append(f"| `{CLUSTER}` | string | label of the cluster |")
        lines += [
            f"| `{column.name}` | {spark_type(column.type).simpleString()} | {column.meaning} |"
            for column in table.columns
        ]
        parts += [f"## {table.name}", f"One row: {table.row}.", "\n".join(lines)]
        if table.name in sql:
            parts.append(f"Derived by [`{table.name}.sql`](../{sql[table.name]}).")
    parts += ["## Fields of records", _FIELDS_OF_RECORDS]
    for name, cls in BY_NAME.items():
        assert cls.__doc__ is not None
        rows = [f"| `{row.field}` | {' | '.join(row[1:])} |" for row in field_rows(cls)]
        parts += [f"### {name}", inspect.cleandoc(cls.__doc__)]
        if rows:
            parts.append("\n".join([_HEAD, *rows]))
    return "\n\n".join(parts) + "\n"
