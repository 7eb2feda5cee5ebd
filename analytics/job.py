"""`jbod-replay`: a metadata log directory in, Parquet tables and a short report out.

The order of steps: look at the files, read and decode them once, fold states per key, write the
tables, ask the tables for the report.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's customary name

from analytics import tables as t
from analytics.batch_walk import Problem
from analytics.errors import ReplayInputError
from analytics.layout import SPLIT_BYTES, Layout, find_metadata_dir, read_layout
from analytics.outages import outages
from analytics.output import OutputDir
from analytics.replay import history, load, of_kind, overview
from analytics.reports import report_text
from analytics.session import end_children, prepare, start_session
from jbodlab.command_line import Parser

SLOTS_MIN = 2
INTERRUPTED = 130


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayResult:
    """What a replay leaves: the folder of each table, and the report."""

    tables: dict[str, Path]
    report: str


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line tool and return its exit code."""
    parser = Parser(
        prog="jbod-replay",
        description="Replay a KRaft metadata log into Parquet tables, and print a short report.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--input",
        required=True,
        type=Path,
        metavar="DIR",
        help="__cluster_metadata-0, or the log directory that contains it",
    )
    parser.add_argument(
        "--output", required=True, type=Path, metavar="DIR", help="tables go to DIR/<table>/"
    )
    options = parser.parse_args(arguments)
    try:
        result = replay(options.input, options.output)
    except ReplayInputError as error:
        print(f"jbod-replay: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        # A virtual machine that was still starting has heard nothing, and nobody else ends it.
        end_children()
        return INTERRUPTED
    print(result.report, end="")
    print("Tables")
    for name, path in result.tables.items():
        print(f"  {name:<18} {path}")
    return 0


def replay(input_dir: Path, output_dir: Path, spark: SparkSession | None = None) -> ReplayResult:
    """Replay a metadata log into tables.

    Args:
        input_dir: The directory `__cluster_metadata-0`, or the log directory that contains it.
        output_dir: Tables are written to its subfolders, replacing those of an earlier run.
        spark: Session to use; without one, a session is started and stopped again.

    Raises:
        ReplayInputError: input, output or machine are not usable. Damage inside the log raises
            nothing; it is in the table of problems.
    """
    directory = find_metadata_dir(input_dir)
    output = OutputDir(output_dir)
    output.prepare(directory)
    try:
        layout = read_layout(directory)
        if spark is not None:
            prepare(spark, layout.size_bytes)
            return _run(spark, layout, output)
        session = start_session(layout.size_bytes)
        try:
            return _run(session, layout, output)
        finally:
            session.stop()
    finally:
        output.clean_up()


def _run(spark: SparkSession, layout: Layout, output: OutputDir) -> ReplayResult:
    # Two cached steps: decoded rows, which several tables come from, and the folded history.
    rows = load(spark, layout, SPLIT_BYTES).persist(StorageLevel.MEMORY_AND_DISK)
    seen = overview(rows)
    partitions = int(spark.conf.get("spark.sql.shuffle.partitions") or SLOTS_MIN)
    folded, problems = history(rows, layout, seen, slots=max(SLOTS_MIN, partitions))
    folded = folded.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        paths = output.write(_frames(rows, folded, problems), layout.size_bytes)
        written = {
            table.name: spark.read.schema(table.schema).parquet(str(paths[table.name]))
            for table in t.TABLES
        }
        return ReplayResult(tables=paths, report=report_text(written))
    finally:
        folded.unpersist()
        rows.unpersist()


def _frames(
    rows: DataFrame, folded: DataFrame, problems: tuple[Problem, ...]
) -> dict[t.Table, DataFrame]:
    """Return every table, not yet computed."""
    still = F.col("valid_to_offset").isNull()
    partitions = of_kind(folded, "partition")
    brokers = of_kind(folded, "broker")
    min_isr = of_kind(folded, "min_isr")
    records = rows.where(F.col("problem").isNull()).withColumn(
        "raw", F.when(F.col("payload").isNull(), F.col("value"))
    )
    return {
        t.RECORDS: records.where(~F.col("snapshot")),
        t.SNAPSHOT_RECORDS: records.where("snapshot"),
        t.BROKERS: brokers.where(still),
        t.LOG_DIRS: of_kind(folded, "log_dir"),
        t.TOPICS: _topics(folded),
        t.PARTITIONS: partitions.where(still),
        t.PARTITION_HISTORY: partitions,
        t.OUTAGES: outages(partitions, min_isr, brokers),
        t.PROBLEMS: _problems(rows, folded, problems),
    }


def _topics(folded: DataFrame) -> DataFrame:
    """Return the topics that still exist; what counts for one is brought together by its id."""
    kinds = ("topic", "partition", "min_isr")
    still = folded.where(F.col("kind").isin(*kinds)).where(
        F.coalesce(*(F.col(f"{kind}.valid_to_offset") for kind in kinds)).isNull()
    )
    first = F.col("partition.partition") == 0
    return (
        still.groupBy(F.coalesce(*(F.col(f"{kind}.topic_id") for kind in kinds)).alias("id"))
        .agg(
            F.first("topic", ignorenulls=True).alias("topic"),
            F.count("partition.partition").alias("partitions"),
            F.max(F.when(first, F.size("partition.replicas"))).alias("replication_factor"),
            F.max("min_isr.min_insync_replicas").alias("min_insync_replicas"),
        )
        .select("topic.*", "partitions", "replication_factor", "min_insync_replicas")
    )


def _problems(rows: DataFrame, folded: DataFrame, found: tuple[Problem, ...]) -> DataFrame:
    read = rows.where(F.col("problem").isNotNull()).select(
        "file", "position", "offset", F.col("problem").alias("kind"), "message"
    )
    columns = [column.name for column in t.PROBLEMS.columns]
    replayed = of_kind(folded, "problem").select(*columns)
    if not found:
        return read.unionByName(replayed)
    values = [tuple(getattr(problem, name) for name in columns) for problem in found]
    of_markers = rows.sparkSession.createDataFrame(values, t.PROBLEMS.schema)
    return read.unionByName(replayed).unionByName(of_markers)


if __name__ == "__main__":
    sys.exit(main())
