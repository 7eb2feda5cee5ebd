"""What followed what in the placement of a replica, and the lag until a directory was assigned."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's customary name

from analytics.derived.log_end import milliseconds
from jbodlab import directory_id as directory_ids
from jbodlab import kafka_uuid
from jbodlab.records.topic_records import PartitionChangeRecord

_RESERVED_PREFIX = "A" * 20
"""Text of the 120 zero bits that every reserved directory id begins with, and no real one."""

_UNASSIGNED = kafka_uuid.to_text(directory_ids.UNASSIGNED)
MOVED = "moved"
REMOVED = "replica_removed"
"""Ways in which a placement ends."""
_REPLICA = ("topic_id", "partition", "broker")
_SPAN = ("valid_from_offset", "valid_from_time", "valid_to_offset", "valid_to_time")


def is_real(directory: Column) -> Column:
    """Return whether a directory id names a directory."""
    return directory.isNotNull() & ~directory.startswith(_RESERVED_PREFIX)


def steps(placement: DataFrame) -> DataFrame:
    """Return the placements of replicas that were moved at least once, each with its successors.

    Columns `next` and `third` are the directory, begin and end of the two placements that follow
    without a gap on the same broker; null where there is none.
    """
    # What neither moved nor began by a move is most of it, and stands alone.
    moving = placement.where(
        (F.col("ended_by") == MOVED)
        | (F.col("directory") == _UNASSIGNED)
        | (F.col("record_type") == PartitionChangeRecord.NAME)
    )
    in_order = Window.partitionBy(*_REPLICA).orderBy("valid_from_offset")
    here = F.struct(
        "directory", "valid_from_offset", "valid_from_time", "valid_to_offset", "valid_to_time"
    )
    follows = F.col("next.valid_from_offset") == F.col("valid_to_offset")
    goes_on = F.col("third.valid_from_offset") == F.col("next.valid_to_offset")
    return (
        moving.select("topic", *_REPLICA, *_SPAN, "directory", "ended_by")
        .withColumn("next", F.lead(here, 1).over(in_order))
        .withColumn("third", F.lead(here, 2).over(in_order))
        .withColumn("third", F.when(follows & goes_on, F.col("third")))
        .withColumn("next", F.when(follows & (F.col("ended_by") == MOVED), F.col("next")))
    )


def assignment_lag(tables: Mapping[str, DataFrame]) -> DataFrame:
    """Return the table of assignment lag."""
    created = steps(tables["replica_placement"]).where(F.col("directory") == _UNASSIGNED)
    return created.select(
        "topic",
        *_REPLICA,
        F.col("valid_from_offset").alias("created_offset"),
        F.col("valid_from_time").alias("created_time"),
        F.col("next.valid_from_offset").alias("assigned_offset"),
        F.col("next.valid_from_time").alias("assigned_time"),
        F.col("next.directory").alias("directory"),
        milliseconds(F.col("valid_from_time"), F.col("next.valid_from_time")).alias("lag_ms"),
    )
