"""The data source `kraft-metadata` for any Spark session.

Spark imports all packages of this prefix and takes their `DefaultSource`, so that wherever jbodlab
is installed, `spark.read.format("kraft-metadata")` works in a plain session, in `pyspark` and under
`spark-submit`. If one of these imports fails, Spark knows the formats of none of the packages: so
this one imports nothing but the standard library, and `DefaultSource` only Spark's base class.

To import it before the session starts lets Spark's Python workers run this interpreter, which has
what they need; to import it later registers the source at once.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark_kraft_metadata.source import DefaultSource

__all__ = ["DefaultSource"]


def __getattr__(name: str) -> Any:
    """Import the source when it is asked for.

    Raises:
        ReplayInputError: what is there of PySpark has no such sources.
    """
    if name != "DefaultSource":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from pyspark_kraft_metadata.source import DefaultSource
    except ImportError:
        from analytics.source.requirements import FOR_SOURCE, NAME, check_requirements

        check_requirements(f"the data source {NAME}", FOR_SOURCE)
        raise
    return DefaultSource


def _prepare() -> None:
    # Where a session runs, this is imported already.
    spark: Any = sys.modules.get("pyspark.sql")
    session = None if spark is None else spark.SparkSession.getActiveSession()
    if session is None:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        return
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    if context is not None and "PYSPARK_PYTHON" not in os.environ:
        from analytics.errors import ReplayInputError

        raise ReplayInputError(
            f"the Python workers of this session run {context.pythonExec}: set PYSPARK_PYTHON to "
            f"{sys.executable}, or import {__name__}, before the session starts"
        )
    session.dataSource.register(__getattr__("DefaultSource"))


_prepare()
