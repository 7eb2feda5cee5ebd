"""Frames of Spark as tables."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's customary name

from analytics.tables.spark_schema import spark_schema, spark_type
from analytics.tables.table import Table


def read_parquet(spark: SparkSession, table: Table, path: str) -> DataFrame:
    """Return a table that lies in a folder of Parquet files."""
    return spark.read.schema(spark_schema(table.schema)).parquet(path)


def conform(frame: DataFrame, table: Table) -> DataFrame:
    """Return the table's columns in their order and with their types; other columns go."""
    columns: list[Column] = [
        F.col(f"`{column.name}`").cast(spark_type(column.type)).alias(column.name)
        for column in table.columns
    ]
    return frame.select(columns)
