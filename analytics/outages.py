"""Outages: when a partition had no leader, or fewer replicas in sync than required, and why.

A state is held against the `min.insync.replicas` in force at the time, never more than the
partition has replicas. Neighbouring states with the same shortage are one outage. What begins and
ends inside one batch was never visible and is none.

The cause is looked for among the replicas that the first step took away, in the state of their
brokers at the end of the batch in which it happened: the controller writes what a failed directory
or a fenced broker does to partitions in the same batch as the failure itself.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's customary name

from analytics.tables import OUTAGES, conform
from jbodlab import directory_id as directory_ids
from jbodlab import kafka_uuid
from jbodlab.ids import NO_LEADER

LEADERLESS = "leaderless"
UNDER_MIN_ISR = "under_min_isr"

_FOR_EVER = 2**63 - 1
_PARTITION = ("topic_id", "partition", "kind")

# In the order in which they are preferred where several replicas were lost at once.
_CAUSES = ("directory", "broker", "unknown", "controller")


def outages(partitions: DataFrame, min_isr: DataFrame, brokers: DataFrame) -> DataFrame:
    """Return the table of outages.

    Args:
        partitions: History rows of the kind partition.
        min_isr: History rows of the kind min_isr.
        brokers: History rows of the kind broker.
    """
    return conform(_with_cause(_merged(_short_states(partitions, min_isr)), brokers), OUTAGES)


def _short_states(partitions: DataFrame, min_isr: DataFrame) -> DataFrame:
    """Return one row per state, kind of shortage, and value of min.insync.replicas."""
    in_force = min_isr.select(
        F.col("topic_id").alias("min_isr_topic_id"),
        "min_insync_replicas",
        F.col("valid_from_offset").alias("min_from_offset"),
        F.col("valid_from_time").alias("min_from_time"),
        F.col("valid_to_offset").alias("min_to_offset"),
        F.col("valid_to_time").alias("min_to_time"),
    )
    leaderless = F.col("leader") == NO_LEADER
    required = F.least("min_insync_replicas", F.size("replicas"))
    began_later = F.col("min_from_offset") > F.col("valid_from_offset")
    ended_sooner = _end("min_to_offset") < _end("valid_to_offset")
    return (
        partitions.where(leaderless | (F.size("isr") < F.size("replicas")))
        .join(
            in_force,
            (F.col("topic_id") == F.col("min_isr_topic_id"))
            & (F.col("min_from_offset") < _end("valid_to_offset"))
            & (_end("min_to_offset") > F.col("valid_from_offset")),
        )
        .select(
            "topic",
            "topic_id",
            "partition",
            "replicas",
            "directories",
            F.explode(
                F.filter(
                    F.array(
                        F.when(leaderless, F.lit(LEADERLESS)),
                        F.when(F.size("isr") < required, F.lit(UNDER_MIN_ISR)),
                    ),
                    lambda kind: kind.isNotNull(),
                )
            ).alias("kind"),
            F.when(began_later, F.col("min_from_offset"))
            .otherwise(F.col("valid_from_offset"))
            .alias("from_offset"),
            F.when(began_later, F.col("min_from_time"))
            .otherwise(F.col("valid_from_time"))
            .alias("from_time"),
            F.when(ended_sooner, F.col("min_to_offset"))
            .otherwise(F.col("valid_to_offset"))
            .alias("to_offset"),
            F.when(ended_sooner, F.col("min_to_time"))
            .otherwise(F.col("valid_to_time"))
            .alias("to_time"),
            F.when(began_later, F.array().cast("array<int>"))
            .otherwise(F.col("lost"))
            .alias("lost"),
            "batch_last_offset",
        )
    )


def _merged(states: DataFrame) -> DataFrame:
    """Join states that follow each other without a pause to one outage."""
    in_order = Window.partitionBy(*_PARTITION).orderBy("from_offset")
    follows = F.lag("to_offset").over(in_order).eqNullSafe(F.col("from_offset"))
    numbered = states.withColumn(
        "outage", F.sum(F.when(follows, 0).otherwise(1)).over(in_order)
    ).withColumn("first", F.struct("from_offset", "from_time", "batch_last_offset"))
    return (
        numbered.groupBy(*_PARTITION, "outage")
        .agg(
            F.first("topic").alias("topic"),
            F.min("first").alias("first"),
            F.min_by("lost", "from_offset").alias("lost"),
            F.min_by("replicas", "from_offset").alias("replicas"),
            F.min_by("directories", "from_offset").alias("directories"),
            F.max_by("to_offset", "from_offset").alias("to_offset"),
            F.max_by("to_time", "from_offset").alias("to_time"),
        )
        .select("*", "first.*")
        .where(_end("to_offset") > F.col("batch_last_offset"))
        .withColumn("duration_ms", F.unix_millis("to_time") - F.unix_millis("from_time"))
    )


def _with_cause(found: DataFrame, brokers: DataFrame) -> DataFrame:
    state = brokers.select(
        F.col("broker").alias("state_broker"),
        "fenced",
        "in_controlled_shutdown",
        "log_dirs",
        F.col("valid_from_offset").alias("state_from"),
        _end("valid_to_offset").alias("state_to"),
    )
    lost = found.select("*", F.explode_outer("lost").alias("lost_broker")).join(
        state,
        (F.col("lost_broker") == F.col("state_broker"))
        & (F.col("state_from") <= F.col("batch_last_offset"))
        & (F.col("state_to") > F.col("batch_last_offset")),
        "left",
    )
    directory = F.try_element_at(
        "directories", F.array_position("replicas", F.col("lost_broker")).cast("int")
    )
    active = ~F.coalesce(F.col("fenced") | F.col("in_controlled_shutdown"), F.lit(True))
    rank = (
        F.when(F.col("lost_broker").isNull(), _rank("controller"))
        .when(active & _is_offline(directory, F.col("log_dirs")), _rank("directory"))
        .when(~active, _rank("broker"))
        .otherwise(_rank("unknown"))
    )
    cause = F.min(
        F.struct(
            rank.alias("rank"),
            F.col("lost_broker").alias("broker"),
            F.when(rank == _rank("directory"), directory).alias("directory"),
        )
    )
    columns = ("topic", "from_offset", "from_time", "to_offset", "to_time", "duration_ms")
    return (
        lost.groupBy(*_PARTITION, *columns)
        .agg(cause.alias("found"))
        .select(
            *_PARTITION,
            *columns,
            F.element_at(F.array(*map(F.lit, _CAUSES)), F.col("found.rank") + 1).alias("cause"),
            "found.broker",
            "found.directory",
        )
    )


def _is_offline(directory: Column, registered: Column) -> Column:
    """Return the opposite of `directory_id.is_online`, as an expression."""
    unknown = [kafka_uuid.to_text(d) for d in (directory_ids.MIGRATING, directory_ids.UNASSIGNED)]
    lost = kafka_uuid.to_text(directory_ids.LOST)
    return (directory == lost) | (
        ~directory.isin(*unknown)
        & (F.size(registered) > 0)
        & ~F.array_contains(registered, directory)
    )


def _rank(cause: str) -> Column:
    return F.lit(_CAUSES.index(cause))


def _end(column: str) -> Column:
    return F.coalesce(F.col(column), F.lit(_FOR_EVER))
