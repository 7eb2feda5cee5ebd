"""The engine of a cluster: Spark runs the texts of `analytics/tables` as they are.

Each table is one plan for all clusters. What others read is computed once, written and read back.
Tables that do not wait for each other are made side by side, each under its own name on Spark's
page.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from threading import Lock

from pyspark.errors import PySparkAttributeError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import coalesce, lit
from pyspark.sql.types import StringType, StructField, StructType

from analytics.engines.functions import FUNCTIONS
from analytics.tables.spark_schema import spark_schema
from analytics.tables.sql_files import SqlFile, needed
from analytics.tables.table import CLUSTER, Table

AT_ONCE = 4
"""Tables that are made side by side: most are small, and to plan one is work of the driver."""

STEPS = "_steps"
"""Folder of what is kept while tables are made."""

_NO_MARK = {"mapreduce.fileoutputcommitter.marksuccessfuljobs": "false"}

View = DataFrame | Callable[[Collection[str]], DataFrame]
"""Rows, or what gives rows with some columns: a source that makes no others."""


class SparkEngine:
    """Runs tables over views.

    Args:
        spark: The session.
        folder: Path or URI, for Spark, of the folder that tables are written to.
        clusters: How many clusters there are.
    """

    def __init__(self, spark: SparkSession, folder: str, clusters: int = 1) -> None:
        self.spark = spark
        self.folder = folder
        self._clusters = clusters
        self._sources: dict[str, View] = {}
        self._known: set[str] = set()
        self._registering, self._calling = Lock(), Lock()

    def view(self, name: str, source: View) -> None:
        """Register a base view, or another one in its place."""
        self._sources[name] = source
        if isinstance(source, DataFrame):
            source.createOrReplaceTempView(name)

    def keep(self, name: str, found: DataFrame, *, by: str | None = None) -> DataFrame:
        """Write rows for what reads them, and return them as they are read back.

        That is a short plan, of which only the columns that are asked for are read, and no lost
        executor takes it along.

        Args:
            name: What they are.
            found: The rows.
            by: Column whose values have files of their own.
        """
        path = f"{self.folder}/{STEPS}/{name}"
        writer = found.write.options(**_NO_MARK)
        (writer if by is None else writer.partitionBy(by)).parquet(path)
        kept = self.spark.read.schema(found.schema).parquet(path)
        kept.createOrReplaceTempView(name)
        return kept

    def write(self, names: Iterable[str]) -> None:
        """Make tables, and all that they need."""
        waiting = {file.name: file for file in needed(names) if file.name not in self._known}
        running: dict[Future[None], str] = {}
        unfinished = set(waiting)
        with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="table") as pool:
            while unfinished:
                for file in [f for f in waiting.values() if not unfinished.intersection(f.needs)]:
                    running[pool.submit(self._make, waiting.pop(file.name))] = file.name
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                for one in done:
                    unfinished.remove(running.pop(one))
                    one.result()

    def _make(self, file: SqlFile) -> None:
        for name in FUNCTIONS.keys() & set(file.reads):
            self._call(name)
        self._describe(file.name, file.head)
        found = self._plan(file)
        if file.table is not None:
            self._write(file.table, found)
        elif file.is_kept:
            self.keep(file.name, found)
        else:
            found.createOrReplaceTempView(file.name)
        self._known.add(file.name)

    def _call(self, name: str) -> None:
        """Register what a function of Arrow makes of a step; it is called once."""
        with self._calling:
            if name in self._known:
                return
            function = FUNCTIONS[name]
            self._describe(name, f"of {function.reads}")
            rows = self.spark.table(function.reads).groupBy(*function.keys)
            self.keep(name, rows.applyInArrow(function.call, spark_schema(function.schema)))
            self._known.add(name)

    def _plan(self, file: SqlFile) -> DataFrame:
        """Return the rows of a text; of a source only the columns that the text names are made."""
        words = set(re.findall(r"\w+", file.sql))
        with self._registering:
            for name in file.reads:
                source = self._sources.get(name)
                if source is not None and not isinstance(source, DataFrame):
                    source(words).createOrReplaceTempView(name)
            return self.spark.sql(file.sql)

    def _write(self, table: Table, found: DataFrame) -> None:
        schema = StructType(
            [StructField(CLUSTER, StringType()), *spark_schema(table.schema).fields]
        )
        # A label is never null: of a column that may be, Spark would sort the rows anew.
        label = coalesce(found[CLUSTER], lit("")).alias(CLUSTER)
        columns = (
            found[each.name].cast(each.dataType).alias(each.name) for each in schema.fields[1:]
        )
        rows = found.select(label, *columns)
        if self._clusters > 1:
            # A cluster's rows in one file, unless they are many.
            rows = rows.hint("rebalance", CLUSTER)
        path = f"{self.folder}/{table.name}"
        in_order = rows.sortWithinPartitions(CLUSTER, *table.order)
        in_order.write.options(**_NO_MARK).partitionBy(CLUSTER).parquet(path)
        self.spark.read.schema(schema).parquet(path).createOrReplaceTempView(table.name)

    def _describe(self, name: str, head: str) -> None:
        """Give the jobs of this thread the name of what they make."""
        with suppress(PySparkAttributeError):  # Spark Connect has no such thing
            self.spark.sparkContext.setJobDescription(f"{name}: {head}")
