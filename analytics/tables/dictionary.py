"""The data dictionary, rendered from the declarations."""

from __future__ import annotations

from pathlib import Path

from analytics.tables import catalog
from analytics.tables.spark_schema import spark_type
from analytics.tables.table import CLUSTER

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
    return "\n\n".join(parts) + "\n"
