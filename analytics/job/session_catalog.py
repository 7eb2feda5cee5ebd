"""Tables of a replay in the catalog of a Spark session: Hive, Iceberg, Delta, as it is set up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StringType, StructType

from analytics.engines.spark import NO_GLOB
from analytics.errors import ReplayInputError
from analytics.store.store import Store
from analytics.tables.table import CLUSTER, Table


def save_tables(
    spark: SparkSession, tables: Iterable[Table], folders: Mapping[str, str], name: str
) -> None:
    """Save tables in the session's catalog, instead of those of an earlier run.

    Raises:
        ReplayInputError: there is no such catalog or namespace, or it does not take the tables.
    """
    for table in tables:
        schema = StructType(from_arrow_schema(table.schema).fields).add(CLUSTER, StringType())
        folder = Store(folders[table.name]).in_hadoop()
        rows = spark.read.options(**NO_GLOB).schema(schema).parquet(folder)
        try:
            rows.write.mode("overwrite").partitionBy(CLUSTER).saveAsTable(f"{name}.{table.name}")
        except PySparkException as error:
            reason = str(error).partition("\n")[0]
            raise ReplayInputError(f"--catalog {name}: {table.name}: {reason}") from None
