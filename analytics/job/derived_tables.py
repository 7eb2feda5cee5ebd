"""All derived tables, each from the tables that it needs.

Tasks go through the buckets of partitions. What concerns several buckets is summed up at the end:
by then it is few rows, which lie in files, and questions to them need no Spark.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from analytics.derive.bucket import BUCKET_TABLES
from analytics.derive.cluster import known_failures
from analytics.derive.log_end import log_end
from analytics.job.derive_stage import BucketFiles, derive_buckets
from analytics.store.part_files import WrittenFile
from analytics.store.stored_tables import StoredTables

OF_TASKS = BUCKET_TABLES
"""Tables whose files `derive_by_tasks` names."""


def derive_by_tasks(
    spark: SparkSession, tables: StoredTables, files: BucketFiles
) -> list[WrittenFile]:
    """Derive what the buckets give.

    Args:
        spark: The session.
        tables: The tables of records and facts, as they were written.
        files: The files of the buckets, and where the tables of OF_TASKS are written.

    Returns:
        The files of OF_TASKS.
    """
    return derive_buckets(spark, known_failures(tables), log_end(tables), files)
