"""How often, and how long, each replica was out of the ISR.

Changes of the ISR may be most of what a log holds. They are summed up where they lie, one summary
per replica and stretch of a file, and only the summaries are sorted. A summary keeps when its
replica was heard of first, and whether it was out at the end, so that the next one can go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from urllib.parse import unquote, urlsplit

import pyarrow as pa  # type: ignore[import-untyped] # it comes without types
import pyarrow.parquet as pq  # type: ignore[import-untyped]
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's customary name

from analytics.derived.flap_parts import COLUMNS, PARTS, flap_parts
from analytics.derived.log_end import LogEnd

_REPLICA = ("topic_id", "partition", "broker")
_LOCAL = "file"


def isr_flaps(tables: Mapping[str, DataFrame], end: LogEnd) -> DataFrame:
    """Return the table of ISR flaps."""
    parts = _parts(tables["isr_changes"])
    in_order = Window.partitionBy(*_REPLICA).orderBy("first_offset")
    gone = (
        tables["replica_placement"]
        .groupBy(*_REPLICA)
        .agg(F.max(F.coalesce("valid_to_time", end.time)).alias("until"))
    )
    open_ms = _ms(F.col("open_us"), F.coalesce("next_us", F.unix_micros("until"), end_us(end)))
    return (
        parts.withColumn("next_us", F.lead("first_us").over(in_order))
        .join(gone, list(_REPLICA), "left")
        .withColumn("open_ms", open_ms)
        .groupBy("topic", *_REPLICA)
        .agg(
            F.sum("shrinks").alias("shrinks"),
            F.sum("expands").alias("expands"),
            F.timestamp_micros(F.min("first_out_us")).alias("first_time"),
            F.timestamp_micros(F.max("last_us")).alias("last_time"),
            F.sum(F.col("out_ms") + F.coalesce("open_ms", F.lit(0))).alias("out_ms_total"),
            F.max(F.greatest("out_ms_max", F.coalesce("open_ms", F.lit(0)))).alias("out_ms_max"),
        )
        .where(F.col("shrinks") > 0)
    )


def end_us(end: LogEnd) -> Column:
    """Return the end of the log in microseconds."""
    return F.lit(end.time_us).cast("long")


def _ms(start: Column, until: Column) -> Column:
    return F.greatest(F.floor((until - start) / 1000), F.lit(0))


def _parts(changes: DataFrame) -> DataFrame:
    paths = [urlsplit(uri) for uri in changes.inputFiles()]
    if paths and all(path.scheme == _LOCAL for path in paths) and _is_local(changes):
        return _from_files(changes, [unquote(path.path) for path in paths])
    return changes.select(*COLUMNS).mapInArrow(_summed, PARTS)


def _is_local(frame: DataFrame) -> bool:
    """Return whether tasks run on this machine, where the files are."""
    master = frame.sparkSession.conf.get("spark.master", "") or ""
    return master.startswith("local")


def _from_files(changes: DataFrame, paths: list[str]) -> DataFrame:
    """Read the files by columns: handing rows from Spark to Python costs more than the rest."""
    stretches = [
        (path, group) for path in paths for group in range(pq.ParquetFile(path).num_row_groups)
    ]
    if not stretches:
        return changes.select(*COLUMNS).mapInArrow(_summed, PARTS)
    numbers = changes.sparkSession.range(0, len(stretches), 1, len(stretches))
    return numbers.mapInArrow(_read_and_summed(stretches), PARTS)


def _read_and_summed(
    stretches: list[tuple[str, int]],
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def summed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                path, group = stretches[number]
                with pq.ParquetFile(path, read_dictionary=["topic", "topic_id", "cause"]) as file:
                    rows = file.read_row_group(group, columns=list(COLUMNS))
                yield flap_parts(rows)

    return summed


def _summed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield flap_parts(pa.Table.from_batches([batch]))
