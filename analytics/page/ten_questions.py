"""Ten questions of an operator, in Spark SQL (`questions.toml`), and translated for DuckDB.

The report shows them, and `docs/ten-questions.md` with the answers for a log of Apache Kafka.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib.resources import files

from analytics.engines.sql import in_duckdb
from analytics.tables.names_in_sql import names_in

OPEN_IN_DUCKDB = """\
import duckdb

for table in TABLES:
    files = f"OUT/{table}/**/*.parquet"
    duckdb.sql(f"CREATE VIEW {table} AS SELECT * FROM read_parquet('{files}')")
"""
OPEN_IN_SPARK = """\
for table in TABLES:
    spark.read.parquet(f"OUT/{table}").createOrReplaceTempView(table)
"""

ROWS_SHOWN = 5
Rows = Sequence[Mapping[str, object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question, and the text in Spark SQL that answers it."""

    text: str
    note: str
    spark: str

    @property
    def duckdb(self) -> str:
        """The same for DuckDB."""
        return in_duckdb(self.spark)

    @property
    def sql(self) -> Mapping[str, str]:
        """The SQL by the name of the engine that understands it."""
        return {"Spark": self.spark, "DuckDB": self.duckdb}

    @property
    def listing(self) -> str:
        """The SQL for both engines as one text."""
        return "\n\n".join(f"-- {engine}\n{sql}" for engine, sql in self.sql.items())


QUESTIONS = tuple(
    Question(**one)
    for one in tomllib.loads(files(__package__).joinpath("questions.toml").read_text("utf-8"))[
        "questions"
    ]
)
TABLES = tuple(sorted({name for one in QUESTIONS for name in names_in(one.spark)}))
"""The tables that the questions ask."""


def opening() -> str:
    """Return the Python that opens the tables in DuckDB and in Spark."""
    names = "\n".join(f'    "{name}",' for name in TABLES)
    tables = f"TABLES = (\n{names}\n)"
    return f"{tables}\n\n# DuckDB\n{OPEN_IN_DUCKDB}\n# Spark\n{OPEN_IN_SPARK}"


def document(answers: Sequence[Rows]) -> str:
    """Return the page of the documentation."""
    parts = [f"{_HEAD}\n```python\n{opening()}```\n"]
    for number, (question, rows) in enumerate(zip(QUESTIONS, answers, strict=True), start=1):
        parts.append(f"## {number}. {question.text}\n\n{question.note}\n")
        for engine, sql in question.sql.items():
            parts.append(f"{engine}:\n\n```sql\n{sql}\n```\n")
        parts.append(_answer(rows))
    return "\n".join(parts)


_HEAD = """\
# Ten questions to the tables of a replay

`jbodlab replay --input __cluster_metadata-0 --results OUT` writes a folder of Parquet files for
each table; [the data dictionary](data-dictionary.md) describes all of them. These ten questions
are a start. Each has its SQL for Spark, what SQLGlot makes of that for DuckDB, and the answer for a
log of Apache Kafka 4.3.1: three brokers with three log directories each, whose disks failed one
after another. The last section of every report has the same questions.

Open the tables first. With several clusters, add `WHERE cluster = 'NAME'` to each table.
"""


def _answer(rows: Rows) -> str:
    if not rows:
        return "Answer: none.\n"
    names = list(rows[0])
    lines = [names, ["---"] * len(names)]
    lines += [[_shown(row[name]) for name in names] for row in rows[:ROWS_SHOWN]]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    more = len(rows) - ROWS_SHOWN
    return f"Answer:\n\n{table}\n" + (f"\nand {more} more\n" if more > 0 else "")


def _shown(value: object) -> str:
    if isinstance(value, datetime):
        return f"{value:%H:%M:%S}.{value.microsecond // 1000:03}"
    return "" if value is None else str(value)
