"""Keeps Spark's classes ready for `jbod-replay`; see `analytics.job.class_archive`."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped] # it comes without types
from pyspark import StorageLevel
from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's customary name

from analytics.errors import ReplayInputError
from analytics.job.class_archive import QUIET, archive_path
from analytics.job.session import SMALL_LOG_BYTES, require_java, start_session

_WAIT_S = 120


def main() -> int:
    """Make the archive if it is not there; whatever prevents that only costs time later."""
    try:
        made = make_archive()
    except (ReplayInputError, OSError) as error:
        print(f"Spark's classes are not kept ready: {error}", file=sys.stderr)
        return 0
    if made is not None:
        print(f"keeping Spark's classes ready in {made}")
    return 0


def make_archive() -> Path | None:
    """Make the archive.

    Returns:
        Its path; None if it exists already.

    Raises:
        ReplayInputError: there is no Java runtime, or Spark does not start.
        OSError: it cannot be written.
    """
    require_java()
    path = archive_path()
    if path is None or path.exists():
        return None
    path.parent.mkdir(parents=True, exist_ok=True)
    for stale in path.parent.glob("spark-*.jsa"):
        stale.unlink()
    unfinished = path.with_suffix(f".{os.getpid()}")
    options = [*QUIET, f"-XX:ArchiveClassesAtExit={unfinished}"]
    spark = start_session(SMALL_LOG_BYTES, java_options=options)
    try:
        with tempfile.TemporaryDirectory() as folder:
            _use(spark, Path(folder))
    finally:
        machine = spark.sparkContext._gateway.proc  # type: ignore[union-attr]
        spark.stop()
        # It writes the archive when it ends, and it ends with its input.
        machine.stdin.close()
        try:
            machine.wait(_WAIT_S)
        except subprocess.TimeoutExpired as error:
            machine.kill()
            raise ReplayInputError(f"Java did not end within {_WAIT_S} s") from error
    unfinished.replace(path)
    return path


def _use(spark: SparkSession, folder: Path) -> None:
    """Do a little of everything that a replay does, so that its classes are loaded."""

    def doubled(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.RecordBatch.from_arrays(
                [batch.column(0), pa.array(["a"] * len(batch))], names=["number", "text"]
            )

    rows = spark.range(0, 100, 1, 2).mapInArrow(doubled, "number long, text string")
    kept = rows.persist(StorageLevel.DISK_ONLY)
    for stage in ("false", "true"):
        spark.conf.set("spark.sql.codegen.wholeStage", stage)
        spark.conf.set("spark.sql.codegen.factoryMode", "FALLBACK")
        spark.conf.set("spark.sql.adaptive.enabled", stage)
        in_order = Window.partitionBy("text").orderBy("number")
        frame = (
            kept.withColumn("at", F.timestamp_micros("number"))
            .withColumn("one", F.struct("number", "text"))
            .withColumn("next", F.lead("number").over(in_order))
            .where(F.coalesce("next", F.lit(0)) >= 0)
        )
        path = (folder / stage).as_uri()
        frame.repartition(2, "number").sortWithinPartitions("number").write.parquet(path)
        read = spark.read.schema(frame.schema).parquet(path)
        counts = read.groupBy("text").agg(
            F.count("*").alias("count"), F.max_by("number", "at"), F.collect_list("number")
        )
        read.join(F.broadcast(counts), "text").join(counts, "text", "left").collect()
        spark.sql(
            "SELECT text, count(DISTINCT number) AS numbers, (SELECT max(number) FROM {rows})"
            " AS top FROM {rows} GROUP BY text ORDER BY numbers DESC LIMIT 3",
            rows=read,
        ).collect()
    kept.unpersist()


if __name__ == "__main__":
    sys.exit(main())
