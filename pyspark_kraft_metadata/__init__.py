"""The data source `kraft-metadata` for any Spark session.

Spark looks for packages of this prefix and takes their `DefaultSource`, so that wherever jbodlab is
installed, `spark.read.format("kraft-metadata")` works in a plain session, in `pyspark` and under
`spark-submit`. To import it before the session starts lets Spark's Python workers run this
interpreter, which has what they need; to import it later registers the source at once.
"""

from __future__ import annotations

import os
import sys

from pyspark import SparkContext
from pyspark.sql import SparkSession

from analytics.errors import ReplayInputError
from analytics.source.data_source import KraftMetadataSource as DefaultSource

__all__ = ["DefaultSource"]


def _prepare() -> None:
    session = SparkSession.getActiveSession()
    if session is None:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        return
    context = SparkContext._active_spark_context
    if context is not None and "PYSPARK_PYTHON" not in os.environ:
        raise ReplayInputError(
            f"the Python workers of this session run {context.pythonExec}: set PYSPARK_PYTHON to "
            f"{sys.executable}, or import pyspark_kraft_metadata, before the session starts"
        )
    session.dataSource.register(DefaultSource)


_prepare()
