"""Spark's classes kept ready, so that the Java virtual machine of a replay starts sooner.

Half of what a replay of a small log takes is loading and checking some fifteen thousand classes.
The virtual machine can keep them in an archive that later ones map into memory. `make env` makes
it; without it, or with another Java than it was made with, everything works, only slower.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped] # it comes without types
import pyspark
from pyspark import StorageLevel
from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's customary name

from analytics.errors import ReplayInputError

_QUIET = ("-XX:+IgnoreUnrecognizedVMOptions", "-Xlog:disable", "-Xlog:all=error:stderr")
"""An archive that does not fit is passed over; nobody needs to read about it."""

_WAIT_S = 120


def archive_options() -> list[str]:
    """Return the options of a virtual machine that uses the archive; none if there is none."""
    path = _archive()
    return [*_QUIET, f"-XX:SharedArchiveFile={path}"] if path is not None and path.exists() else []


def make_archive() -> Path | None:
    """Make the archive.

    Returns:
        Its path; None if it exists already.

    Raises:
        ReplayInputError: there is no Java runtime, or Spark does not start.
        OSError: it cannot be written.
    """
    # Here, for the session looks for the archive.
    from analytics.session import SMALL_LOG_BYTES, require_java, start_session

    require_java()
    path = _archive()
    if path is None or path.exists():
        return None
    path.parent.mkdir(parents=True, exist_ok=True)
    for stale in path.parent.glob("spark-*.jsa"):
        stale.unlink()
    unfinished = path.with_suffix(f".{os.getpid()}")
    options = [*_QUIET, f"-XX:ArchiveClassesAtExit={unfinished}"]
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


def _archive() -> Path | None:
    """Return where the archive belongs, by the Java and the Spark that it is of."""
    home = os.environ.get("JAVA_HOME")
    java = Path(home) / "bin" / "java" if home else Path(shutil.which("java") or "")
    jars = Path(pyspark.__file__).parent / "jars"
    try:
        made = (java.resolve(), java.stat().st_mtime_ns, jars.stat().st_mtime_ns)
    except OSError:
        return None
    key = hashlib.sha256(repr((made, str(jars), pyspark.__version__)).encode()).hexdigest()[:12]
    return Path(sys.prefix) / "share" / "jbodlab" / f"spark-{key}.jsa"


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
