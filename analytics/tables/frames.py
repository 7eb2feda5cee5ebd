"""Frames of Spark as tables, and questions to them.

A question is one text of SQL rather than a row of calls: each call is several messages to the
virtual machine, and has it look over the whole plan so far.
"""

from __future__ import annotations

import string
from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from analytics.tables.spark_schema import spark_type
from analytics.tables.table import Table


def run_sql(sql: str, frames: Mapping[str, DataFrame]) -> DataFrame:
    """Return what a query gives; frames stand in it by their names in braces.

    Spark gives them names for the time of the call. When it takes the name away, it forgets what
    it has kept of the frame: one that is persisted may not stand there itself, only what is made
    of it.
    """
    asked: dict[str, Any] = {name: frames[name] for name in names_in(sql)}
    spark: SparkSession = next(iter(asked.values())).sparkSession
    return spark.sql(sql, **asked)


def names_in(sql: str) -> tuple[str, ...]:
    """Return the names in braces, in the order of their first use."""
    fields = (field for _, field, _, _ in string.Formatter().parse(sql) if field)
    return tuple(dict.fromkeys(fields))


def conform(frame: DataFrame, table: Table) -> DataFrame:
    """Return the table's columns in their order and with their types; other columns go."""
    return run_sql(f"SELECT {', '.join(conformed(table))} FROM {{frame}}", {"frame": frame})


def conformed(table: Table) -> list[str]:
    """Return SQL for each of a table's columns, with its type."""
    return [
        f"CAST(`{column.name}` AS {spark_type(column.type).simpleString()}) AS `{column.name}`"
        for column in table.columns
    ]
