"""Ten questions of an operator, in Spark SQL, and translated for DuckDB.

The report shows them, and `docs/ten-questions.md` with the answers for a log of Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from analytics.engines.sql import in_duckdb

TABLES = (
    "broker_failures",
    "controller_changes",
    "directory_failures",
    "isr_flaps",
    "leadership",
    "log_dirs",
    "moves",
    "outages",
    "partitions",
    "skew",
)
"""The tables that the questions ask."""

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


QUESTIONS = (
    Question(
        text="Which directories failed, and for how long were they offline?",
        note="`offline_ms` is null while the failure is open.",
        spark="""\
SELECT broker, directory, detected_time,
  unix_millis(closed_time) - unix_millis(detected_time) AS offline_ms, state,
  partitions_touched, leaders_moved, leaders_lost
FROM directory_failures
ORDER BY detected_time""",
    ),
    Question(
        text="Which partitions had no leader for the longest time?",
        note="An outage that is still open has no duration.",
        spark="""\
SELECT topic, partition, count(*) AS outages,
  count(*) FILTER (WHERE to_offset IS NULL) AS still_open,
  sum(duration_ms) AS leaderless_ms, max(duration_ms) AS longest_ms
FROM outages WHERE kind = 'leaderless'
GROUP BY topic, partition
ORDER BY still_open DESC, leaderless_ms DESC, topic, partition""",
    ),
    Question(
        text="Which broker lost the most leaderships, and why?",
        note="A leadership is lost when another broker, or none, follows as leader.",
        spark="""\
SELECT previous_leader AS broker, cause, count(*) AS lost,
  count(*) FILTER (WHERE leader = -1) AS to_no_leader
FROM leadership
WHERE previous_leader <> -1 AND leader <> previous_leader
GROUP BY previous_leader, cause
ORDER BY lost DESC, broker, cause""",
    ),
    Question(
        text="How long did it take after each failure until every ISR was full again?",
        note="`time_to_last_leader_ms` is null where no partition lost its leader, and both times "
        "are null where it has not happened yet.",
        spark="""\
SELECT 'directory' AS failed, broker, directory, detected_time, partitions_touched,
  time_to_last_leader_ms, time_to_full_isr_ms
FROM directory_failures
UNION ALL
SELECT 'broker', broker, NULL, detected_time, partitions_touched,
  time_to_last_leader_ms, time_to_full_isr_ms
FROM broker_failures
ORDER BY detected_time, failed, broker""",
    ),
    Question(
        text="Which replicas are in no directory that is online?",
        note="Their directory is offline, or the controller knows none for them.",
        spark="""\
SELECT topic, partition, broker, directory
FROM (
  SELECT topic, partition, broker, element_at(directories, place + 1) AS directory
  FROM (
    SELECT topic, partition, directories, posexplode(replicas) AS (place, broker) FROM partitions
  )
) LEFT ANTI JOIN (
  SELECT broker, directory FROM log_dirs
  WHERE valid_to_offset IS NULL AND state = 'online'
) USING (broker, directory)
ORDER BY topic, partition, broker""",
    ),
    Question(
        text="How evenly are replicas and leaders spread?",
        note="`deviation` is 0.1 for a tenth more replicas than the mean: of all brokers, or of "
        "the directories of the same broker.",
        spark="""\
SELECT scope, broker, directory, replicas, leaders, round(deviation, 3) AS deviation
FROM skew
ORDER BY scope, abs(deviation) DESC, broker, directory""",
    ),
    Question(
        text="Which partitions have one replica in sync, and where is it?",
        note="The failure of that directory would take the partition offline.",
        spark="""\
SELECT topic, partition, isr[0] AS broker,
  try_element_at(directories, CAST(array_position(replicas, isr[0]) AS INT)) AS directory,
  size(replicas) AS replicas
FROM partitions WHERE size(isr) = 1
ORDER BY topic, partition""",
    ),
    Question(
        text="Which replicas left the ISR most often?",
        note="`out_ms_total` is the time that the replica was outside the ISR.",
        spark="""\
SELECT topic, partition, broker, shrinks, expands, out_ms_total, out_ms_max
FROM isr_flaps
ORDER BY shrinks DESC, out_ms_total DESC, topic, partition, broker""",
    ),
    Question(
        text="When did the active controller change?",
        note="`gap_ms` is the time without a record between the two controllers.",
        spark="""\
SELECT epoch, previous_controller, controller, from_time, gap_ms
FROM controller_changes
ORDER BY epoch""",
    ),
    Question(
        text="Which reassignments and moves took the longest?",
        note="A move between directories has the same broker on both sides. "
        "`duration_ms` is null while a move is running, or if the log does not have its begin.",
        spark="""\
SELECT kind, topic, partition, from_broker, to_broker, outcome, duration_ms
FROM moves
ORDER BY duration_ms DESC NULLS LAST, topic, partition, kind""",
    ),
)


def opening() -> str:
    """Return the Python that opens the tables in DuckDB and in Spark."""
    names = "\n".join(f'    "{name}",' for name in TABLES)
    tables = f"TABLES = (\n{names}\n)"
    return f"{tables}\n\n# DuckDB\n{OPEN_IN_DUCKDB}\n# Spark\n{OPEN_IN_SPARK}"


def document(answers: Sequence[Rows]) -> str:
    """Return the page of the documentation.

    Args:
        answers: The rows of each question, in the order of the questions.
    """
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
