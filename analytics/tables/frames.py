"""Frames of Spark as tables."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's customary name

from analytics.tables.spark_schema import spark_type
from analytics.tables.table import Table


def conform(frame: DataFrame, table: Table) -> DataFrame:
    """Return the table's columns in their order and with their types; other columns go."""
    columns: list[Column] = [
        F.col(f"`{column.name}`").cast(spark_type(column.type)).alias(column.name)
        for column in table.columns
    ]
    return frame.select(columns)
