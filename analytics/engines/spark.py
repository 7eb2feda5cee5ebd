"""The engine of a cluster: Spark runs the texts of `analytics/tables` as they are.

Each table is one plan for all clusters. Rows that others read are made once, written and read back.
Few rows are read back into the plans themselves: Spark then broadcasts them, and leaves out what
nothing comes of. A plan of nothing but few rows is asked in a session that neither generates code
nor shuffles, since that takes longer than the rows. Tables that do not wait for each other are made
side by side, each under its own name on Spark's page.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from functools import partial
from pathlib import PurePosixPath
from threading import RLock
from urllib.parse import unquote
from uuid import uuid4

import pyarrow as pa  # type: ignore[import-untyped] # it comes without types
import pyarrow.compute as pc  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
from pyspark.errors import PySparkAttributeError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import coalesce, lit
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

from analytics.engines.functions import FUNCTIONS, ArrowFunction, plain
from analytics.store.part_files import LONG_TEXTS, SKIPPED_BY, PartWriters, in_order
from analytics.store.store import Store
from analytics.store.stored_tables import SUFFIX
from analytics.tables.sql_files import SqlFile, needed, times_read
from analytics.tables.table import CLUSTER, STRING, Table

AT_ONCE = 4
"""Tables that are made side by side: most are small, and to plan one is work of the driver."""

STEPS = "_steps"
"""Folder of what is kept while tables are made."""

FEW_BYTES, FEW_ROWS = 1 << 20, 10_000
"""Up to this size, and as many, rows of files are read back into the plans."""

FEW_CLUSTERS = 16
"""Of more clusters Spark's tasks write the files, however few the rows are."""

OFTEN = 5
"""Few rows of a view that as many texts read are asked for once."""

_OF_ALL = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.caseSensitive": "false",
    "spark.sql.ansi.enabled": "true",
    # With a smaller value Spark adds up the sizes of all columns of a batch with each of its rows.
    # Batches end by their number of rows.
    "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
    # Each name of a WITH stands for its text. Otherwise all that a name is made of is copied into
    # the plan, and its columns named anew, once more for each name that is made of it.
    "spark.sql.legacy.ctePrecedencePolicy": "LEGACY",
}
_OF_NO_USE = """
    BooleanSimplification ConstantPropagation EliminateAggregateFilter EliminateOuterJoin
    FoldablePropagation GenerateOptimization InferFiltersFromConstraints InjectRuntimeFilter
    NullDownPropagation OptimizeCsvJsonExprs OptimizeIn OptimizeJoinCondition
    OptimizeOneRowRelationSubquery OptimizeRepartition OptimizeWindowFunctions PruneFilters
    PushFoldableIntoBranches RemoveRedundantAliases ReorderAssociativeOperator
    ReplaceNullWithFalseInPredicate SimplifyBinaryComparison SimplifyCasts SimplifyConditionals
    SimplifyExtractValueOps UnwrapCastInBinaryComparison
"""
"""Rules of Spark that shorten the work with many rows, and take longer than few."""

_OF_FEW_ROWS = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.leafNodeDefaultParallelism": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.constraintPropagation.enabled": "false",
    "spark.sql.optimizer.excludedRules": ",".join(
        f"org.apache.spark.sql.catalyst.optimizer.{rule}" for rule in _OF_NO_USE.split()
    ),
}
_OF_FILES = {
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    "parquet.size.statistics.enabled": "false",
    "parquet.column.statistics.enabled": "false",
}
NO_GLOB = {"__globPaths__": "false"}
"""Otherwise Spark takes brackets in the name of a folder for a pattern."""

_WRITTEN = "file string"
_ROWS_OF_PART = 1 << 18
"""Rows of a row group: so many a task reads at least."""

Source = Callable[[Collection[str]], DataFrame]
"""Gives rows with some columns: it makes no others."""


class _Asked:
    """A session, and the views that it knows."""

    def __init__(self, spark: SparkSession, settings: Mapping[str, str]) -> None:
        self.spark = spark.newSession()
        self.known: set[str] = set()
        for name, value in (_OF_ALL | dict(settings)).items():
            self.spark.conf.set(name, value)

    def add(self, name: str, rows: DataFrame) -> None:
        rows.createOrReplaceTempView(name)
        self.known.add(name)

    def ask(self, file: SqlFile) -> DataFrame:
        # Behind WITH, Spark's parser reads as far as the end of all names to see whether a query
        # or a change of a table follows; what is in parentheses is a query.
        return self.spark.sql(f"({file.sql})")


class SparkEngine:
    """Runs tables over views.

    Args:
        spark: The session.
        folder: That tables are written to; Spark knows its file system.
        clusters: Their labels.
        settings: Of plans over many rows.
    """

    def __init__(
        self,
        spark: SparkSession,
        folder: Store,
        clusters: Collection[str],
        settings: Mapping[str, str],
    ) -> None:
        self.folder = folder
        self._clusters = clusters
        self._few = _Asked(spark, _OF_FEW_ROWS)
        self._start_many = partial(_Asked, spark, settings)
        self._started_many: _Asked | None = None
        self._rows: dict[str, pa.Table] = {}
        self._views: dict[str, SqlFile] = {}
        self._sources: dict[str, Source] = {}
        self._done: set[str] = set()
        self._registering, self._calling = RLock(), RLock()

    @property
    def few(self) -> SparkSession:
        """The session that plans over few rows are asked in."""
        return self._few.spark

    @property
    def spark(self) -> SparkSession:
        """The session that plans over many rows are asked in."""
        return self._many.spark

    @property
    def _many(self) -> _Asked:
        with self._registering:
            if self._started_many is None:
                self._started_many = self._start_many()
            return self._started_many

    def source(self, name: str, source: Source | None) -> None:
        """Register a source, or forget it."""
        if source is None:
            del self._sources[name]
        else:
            self._sources[name] = source

    def hold(self, name: str, rows: pa.Table) -> None:
        """Register few rows."""
        self._rows[name] = rows
        self._done.add(name)

    def define(self, name: str, sql: str) -> None:
        """Register a view by its text."""
        self._views[name] = SqlFile(name=name, head=name, sql=sql, is_kept=False, table=None)
        self._done.add(name)

    def keep(self, name: str, found: DataFrame, *, by: str | None = None) -> None:
        """Write rows for what reads them, and register them as they are read back.

        That is a short plan, of which only the columns that are asked for are read, and no lost
        executor takes it along.

        Args:
            name: Name of the rows.
            found: The rows.
            by: Column whose values have files of their own.
        """
        writer = found.write.options(**_of_parquet(found.schema))
        path = f"{STEPS}/{name}"
        (writer if by is None else writer.partitionBy(by)).parquet(self.folder.in_hadoop(path))
        self._read_back(name, path, found.schema)

    def write(self, names: Iterable[str]) -> None:
        """Make tables, and all that they need."""
        waiting = {file.name: file for file in needed(names) if file.name not in self._done}
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
        is_few = self._is_of_few(file.reads)
        is_asked_once = is_few and times_read()[file.name] >= OFTEN
        if file.table is None and not file.is_kept and not is_asked_once:
            self._views[file.name] = file
        elif is_few:
            self._make_few(file)
        elif file.table is not None:
            self._write(file.table, self._plan(file, self._many))
        else:
            self.keep(file.name, self._plan(file, self._many))
        self._done.add(file.name)

    def _is_of_few(self, names: Iterable[str]) -> bool:
        """Return whether all rows that something is made of are few."""
        return all(
            name in self._rows or (name in self._views and self._is_of_few(self._views[name].reads))
            for name in names
        )

    def _make_few(self, file: SqlFile) -> None:
        """Make a table or step of few rows."""
        rows = self._plan(file, self._few).toArrow()
        if file.table is None:
            self.hold(file.name, rows)
            return
        rows = rows.cast(_schema(file.table))
        self.hold(file.name, rows)
        if len(self._clusters) > FEW_CLUSTERS:
            self._write(file.table, _local(self._few.spark, rows))
            return
        for label in rows.column(CLUSTER).unique().to_pylist():
            own = rows.filter(pc.equal(rows.column(CLUSTER), label)).drop_columns([CLUSTER])
            with PartWriters(self.folder, label, "00000") as parts:
                parts.write(file.table, in_order(own, file.table))

    def _call(self, name: str) -> None:
        """Register what a function of Arrow makes of a step; it is called once."""
        with self._calling:
            if name in self._done:
                return
            function = FUNCTIONS[name]
            self._describe(name, f"of {function.reads}")
            if self._is_of_few([function.reads]):
                self._use(self._few, [function.reads])
                found = function.of_all(self._few.spark.table(function.reads).toArrow())
                self.hold(name, plain(found, function.schema))
                return
            self._use(self._many, [function.reads])
            rows, schema = self.spark.table(function.reads), from_arrow_schema(function.schema)
            if function.is_of_many:
                path = f"{STEPS}/{name}"
                self.folder.make_folder(path)
                folder = str(self.folder.local or self.folder.source)
                call = partial(write_of_many, function, folder, path)
                found = rows.repartition(*function.keys).mapInArrow(call, _WRITTEN).toArrow()
                self._read_back(name, path, schema, found.column("file").to_pylist())
            else:
                self.keep(name, rows.groupBy(*function.keys).applyInArrow(function.call, schema))
            self._done.add(name)

    def _plan(self, file: SqlFile, asked: _Asked) -> DataFrame:
        """Return the rows of a text; of a source only the columns that the text names are made."""
        with self._registering:
            words = set(re.findall(r"\w+", file.sql))
            for name in self._sources.keys() & set(file.reads):
                self._sources[name](words).createOrReplaceTempView(name)
            self._use(asked, file.reads)
            return asked.ask(file)

    def _use(self, asked: _Asked, names: Iterable[str]) -> None:
        """Let a session know what it is asked of."""
        with self._registering:
            for name in names:
                if name in asked.known or name in self._sources:
                    continue
                if name in self._rows:
                    rows = _local(asked.spark, self._rows[name])
                    # Of one partition that it knows of, Spark shuffles nothing.
                    asked.add(name, rows.coalesce(1) if asked is self._few else rows)
                elif name in self._views:
                    file = self._views[name]
                    self._use(asked, file.reads)
                    asked.add(name, asked.ask(file))

    def _write(self, table: Table, found: DataFrame) -> None:
        schema = StructType(
            [StructField(CLUSTER, StringType()), *from_arrow_schema(table.schema).fields]
        )
        columns = [
            found[each.name].cast(each.dataType).alias(each.name) for each in schema.fields[1:]
        ]
        path = self.folder.in_hadoop(table.name)
        if len(self._clusters) == 1:
            # Spark compares the beginnings of the first values, which are equal in all labels.
            writer = found.select(*columns).sortWithinPartitions(*table.order).write
            path = f"{path}/{CLUSTER}={next(iter(self._clusters))}"
        else:
            # A label is never null: of a column that may be, Spark would sort the rows anew.
            label = coalesce(found[CLUSTER], lit("")).alias(CLUSTER)
            # A cluster's rows in one file, unless they are many.
            rows = found.select(label, *columns).hint("rebalance", CLUSTER)
            writer = rows.sortWithinPartitions(CLUSTER, *table.order).write.partitionBy(CLUSTER)
        writer.options(**_of_parquet(schema)).parquet(path)
        if table.name not in self._done:
            self._read_back(table.name, table.name, schema)

    def _read_back(
        self, name: str, path: str, schema: StructType, written: Collection[str] | None = None
    ) -> None:
        """Register rows in files of a folder: all, or those that have been written in the end."""
        files = [
            file
            for file in self.folder.files_in(path)
            if file.name.endswith(SUFFIX) and (written is None or file.name in written)
        ]
        if sum(file.size for file in files) <= FEW_BYTES:
            arrow = to_arrow_schema(schema, timezone="UTC")
            read = (_read(self.folder, file.name, arrow) for file in files)
            rows = pa.concat_tables([arrow.empty_table(), *read])
            if len(rows) <= FEW_ROWS:
                self.hold(name, rows)
                return
        paths = [path] if written is None else written
        places = map(self.folder.in_hadoop, paths)
        found = self.spark.read.options(**NO_GLOB).schema(schema).parquet(*places)
        self._many.add(name, found)

    def _describe(self, name: str, head: str) -> None:
        """Give the jobs of this thread the name of what they make."""
        with suppress(PySparkAttributeError):  # Spark Connect has no such thing
            self.few.sparkContext.setJobDescription(f"{name}: {head}")


def write_of_many(
    function: ArrowFunction, folder: str, path: str, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Call a function once with all groups of a partition, most of which are small.

    A file takes the rows, whose name is returned: Java's rows and its writer would take several
    times as long for lists. A file of an attempt that failed is named by nobody.
    """
    given = list(batches)
    if given:
        rows = plain(function.call(pa.Table.from_batches(given)), function.schema)
        store, name = Store(folder), f"{path}/{uuid4().hex}{SUFFIX}"
        with store.files.open_output_stream(store.path(name)) as file:
            pq.write_table(rows, file, row_group_size=_ROWS_OF_PART)
        yield pa.RecordBatch.from_pydict({"file": [name]})


def _of_parquet(schema: StructType) -> dict[str, str]:
    """Return options of the writer of files: none tries a dictionary of what hardly repeats."""
    found = dict(_OF_FILES)
    for each in schema.fields:
        if each.name in LONG_TEXTS or isinstance(each.dataType, LongType | TimestampType):
            found[f"parquet.enable.dictionary#{each.name}"] = "false"
        if each.name in SKIPPED_BY:
            found[f"parquet.column.statistics.enabled#{each.name}"] = "true"
    return found


def _schema(table: Table) -> pa.Schema:
    return pa.schema([pa.field(CLUSTER, STRING), *table.schema])


def _local(spark: SparkSession, rows: pa.Table) -> DataFrame:
    """Return rows as a part of plans."""
    batches = rows.combine_chunks().to_batches()
    # Of a table without a chunk PySpark does not know the types.
    batches = batches or [pa.RecordBatch.from_pylist([], schema=rows.schema)]
    return spark.createDataFrame(pa.Table.from_batches(batches))


def _read(store: Store, name: str, schema: pa.Schema) -> pa.Table:
    """Return the rows of a file, with the values that the names of its folders give."""
    with store.files.open_input_file(store.path(name)) as file:
        rows = pq.ParquetFile(file).read()
    for part in PurePosixPath(name).parts:
        column, equals, text = part.partition("=")
        if equals:
            value = pa.scalar(unquote(text)).cast(schema.field(column).type)
            rows = rows.append_column(column, pa.repeat(value, len(rows)))
    return rows.select(schema.names).cast(schema)
