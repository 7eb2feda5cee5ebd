"""Schemas as Spark has them."""

from __future__ import annotations

import pyarrow as pa  # type: ignore[import-untyped] # it comes without types
from pyspark.sql.pandas.types import from_arrow_schema, from_arrow_type, to_arrow_schema
from pyspark.sql.types import DataType, StructType


def spark_schema(schema: pa.Schema) -> StructType:
    """Return a schema for readers, and for what tasks give to Spark."""
    return from_arrow_schema(schema)


def spark_type(kind: pa.DataType) -> DataType:
    """Return a type to cast to."""
    return from_arrow_type(kind)


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return a schema of Arrow; times are UTC."""
    return to_arrow_schema(schema, timezone="UTC")
