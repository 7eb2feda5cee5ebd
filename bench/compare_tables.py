"""Compare the tables of two result folders of replays: every row, every column, of every cluster.

    python -m bench.compare_tables BEFORE AFTER

Rows are compared as they are, whatever their order in files; a difference is shown with the first
rows that only one side has. The exit code is 1 if there is any.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import duckdb

from analytics.tables.catalog import TABLES

SHOWN = 2


def compare(before: Path, after: Path) -> list[str]:
    """Return a line for each table that differs."""
    found = []
    for table in TABLES:
        with duckdb.connect() as connection:
            connection.execute("SET TimeZone = 'UTC'")
            columns = ", ".join(f'"{name}"' for name in ("cluster", *table.schema.names))
            for name, folder in (("before", before), ("after", after)):
                files = f"{folder}/{table.name}/*/*.parquet"
                read = f"read_parquet('{files}', hive_partitioning = true, union_by_name = true)"
                connection.execute(f'CREATE VIEW "{name}" AS SELECT {columns} FROM {read}')
            for one, other in (("before", "after"), ("after", "before")):
                only = f'FROM "{one}" EXCEPT ALL FROM "{other}"'
                (count,) = connection.sql(f"SELECT count(*) FROM ({only})").fetchall()[0]
                if count:
                    found.append(f"{table.name}: {count} rows only {one}")
                    rows = connection.sql(f"{only} LIMIT {SHOWN}")
                    found += [
                        f"  {dict(zip(rows.columns, row, strict=True))}" for row in rows.fetchall()
                    ]
    return found


def main() -> int:
    """Compare two folders that the command line names."""
    parser = argparse.ArgumentParser(prog="python -m bench.compare_tables")
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    options = parser.parse_args()
    found = compare(options.before, options.after)
    print("\n".join(found) or "equal")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
