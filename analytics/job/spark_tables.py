"""The engine that writes tables by Spark: one plan for each table, of all clusters.

The log is read by the data source that users have: once into rows that the tables are made from,
and once for each of the two tables that are copies of it.
"""

from __future__ import annotations

import json
import pickle
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, replace
from functools import partial
from itertools import chain
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped] # it comes without types
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import coalesce, col, lit, when

from analytics.engines.log_views import LINES, log_views
from analytics.engines.spark import FEW_CLUSTERS, STEPS, SparkEngine
from analytics.errors import ReplayInputError
from analytics.job.engine import RunOptions
from analytics.job.output import OutputDir
from analytics.read.log_copies import LogCopy
from analytics.read.log_facts import log_facts
from analytics.read.named_logs import Archive, layout_of, unpack_archive
from analytics.read.split_rows import PARTITION_TYPES
from analytics.source.data_source import SCHEMA, KraftMetadataSource
from analytics.source.requirements import NAME
from analytics.store.store import Store
from analytics.tables.table import INT, STRING

FEW_ROWS_BYTES = 1 << 20
"""Rows of logs up to this size are a part of the plans."""

ADAPTED_BYTES = 256 << 20
"""Of larger logs Spark adapts its plans while they run."""

_OF_MANY_ROWS = {
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
}

COPIES = ("records", "snapshot_records")
"""Tables that are copies of the log."""

_ANSWER = "number long, answer binary"

_ASSUMED = pa.schema([("value", INT), ("source", STRING)])

_GIVEN_LINES = "SELECT f.cluster, l.* FROM log_layouts f CROSS JOIN lines l"
_VIEWS_OF_FACTS = {
    "log_layouts": """
        SELECT f.* EXCEPT (sync_points), a.value AS min_insync_replicas,
          a.source AS min_insync_replicas_from
        FROM log_facts f CROSS JOIN assumed a""",
    "sync_points": "SELECT cluster, inline(sync_points) FROM log_facts",
}
"""Views of what planning knows of each log, as `log_views` has them."""


class SparkTables:
    """Writes tables by Spark.

    Args:
        spark: The session.
        close: Hears that no more work comes.
    """

    def __init__(self, spark: SparkSession, close: Callable[[], object] = int) -> None:
        self.spark = spark
        self._close = close
        self.name = f"Spark {spark.version}, {spark.conf.get('spark.master')}"

    def unpack(self, archives: Sequence[Archive], scratch: str) -> list[tuple[str | None, LogCopy]]:
        """Unpack archives, each in a task, into a folder that all tasks can read.

        Raises:
            ReplayInputError: one cannot be read, or holds no metadata log.
        """
        if not archives:
            return []
        numbers = self.spark.range(0, len(archives), 1, len(archives))
        done = numbers.mapInArrow(partial(_unpack, archives, scratch), _ANSWER).toArrow()
        answers = map(pickle.loads, done.sort_by("number").column("answer").to_pylist())
        found = []
        for answer in answers:
            if isinstance(answer, ReplayInputError):
                raise answer
            found += answer
        return found

    def write(
        self, clusters: Mapping[str, Sequence[LogCopy]], output: OutputDir, options: RunOptions
    ) -> None:
        """Write all tables of clusters into the scratch folder of an output."""
        size = sum(copy.size_bytes for copies in clusters.values() for copy in copies)
        names = [table.name for table in output.tables]
        with ExitStack() as opened:
            folder = self._folder(output.scratch_store, opened)
            engine = SparkEngine(self.spark, folder, clusters.keys(), self._settings(size))
            is_few = size <= FEW_ROWS_BYTES
            session = engine.few if is_few else engine.spark
            # Each session knows its own; only what is installed is found by its name.
            session.dataSource.register(KraftMetadataSource)
            read = partial(_read, session, _named(clusters))
            _view_logs(engine, clusters, read, options)
            if is_few:
                # Spark meets much for the first time while Python's processes start.
                with ThreadPoolExecutor(1) as pool:
                    rows = pool.submit(lambda: read().toArrow())
                    engine.write({"logs"}.intersection(names))
                engine.hold("log_rows", rows.result())
            else:
                self._keep_rows(engine, read)
            engine.write(names)
            folder.remove(STEPS)
            if folder is not output.scratch_store:
                folder.copy_to(output.scratch_store)
        output.fill(clusters)

    def _keep_rows(self, engine: SparkEngine, read: Callable[..., DataFrame]) -> None:
        """Write the rows of a log that tables are made of, and first those that are copies."""
        engine.source("log_rows", lambda words: read(columns=words))
        engine.write(COPIES)
        engine.source("log_rows", None)
        # Both files of a task are open at once: no need to sort the rows.
        engine.spark.conf.set("spark.sql.maxConcurrentOutputFileWriters", "2")
        engine.keep("log_rows", _short(read()), by="is_of_partition")
        engine.spark.conf.unset("spark.sql.maxConcurrentOutputFileWriters")

    def _settings(self, size: int) -> Mapping[str, str]:
        """Return settings of plans over the rows of a log of this size, in bytes."""
        if size > ADAPTED_BYTES:
            return _OF_MANY_ROWS
        # Where all partitions are known to be small, to look at each costs more than it saves.
        return _OF_MANY_ROWS | {
            "spark.sql.adaptive.enabled": "false",
            "spark.sql.shuffle.partitions": str(self.spark.sparkContext.defaultParallelism),
        }

    def close(self) -> None:
        """Hear that no more work comes."""
        self._close()

    def _folder(self, scratch: Store, opened: ExitStack) -> Store:
        """Return the folder that Spark writes to.

        It is the scratch folder where Spark knows its file system, and else a folder of this
        machine, if all of Spark runs here.

        Raises:
            ReplayInputError: Spark runs elsewhere and does not know the file system.
        """
        if scratch.local is not None or self._knows(scratch.in_hadoop()):
            return scratch
        if not str(self.spark.conf.get("spark.master")).startswith("local"):
            raise ReplayInputError(
                f"output {scratch.source}: Spark has no file system for it: give the session the "
                "library of that store, such as hadoop-aws"
            )
        return Store(opened.enter_context(tempfile.TemporaryDirectory(prefix="jbod-replay-")))

    def _knows(self, uri: str) -> bool:
        context: Any = self.spark.sparkContext
        hadoop = context._jvm.org.apache.hadoop.fs
        try:
            hadoop.Path(uri).getFileSystem(context._jsc.hadoopConfiguration())
        except Exception:  # noqa: BLE001 - whatever Java says, it is not usable
            return False
        return True


def _named(clusters: Mapping[str, Sequence[LogCopy]]) -> str:
    """Return logs as the option `copies` of the data source has them."""
    return json.dumps(
        [
            [label, [asdict(replace(copy, stamp=())) for copy in copies]]
            for label, copies in clusters.items()
        ]
    )


def _read(
    spark: SparkSession, logs: str, rows: str = "records", columns: Collection[str] | None = None
) -> DataFrame:
    reader = spark.read.format(NAME).options(copies=logs, rows=rows, pushFilters="true")
    if columns is not None:
        reader = reader.schema(type(SCHEMA)([one for one in SCHEMA if one.name in columns]))
    return reader.load()


def _short(rows: DataFrame) -> DataFrame:
    """Return rows without the texts of the many records about partitions."""
    is_of_partition = col("problem").isNull() & col("type").isin(*PARTITION_TYPES)
    return rows.withColumns(
        {
            "is_of_partition": coalesce(is_of_partition, lit(False)),
            "payload": when(~is_of_partition, col("payload")),
        }
    )


def _view_logs(
    engine: SparkEngine,
    clusters: Mapping[str, Sequence[LogCopy]],
    read: Callable[..., DataFrame],
    options: RunOptions,
) -> None:
    """Register what planning knows of the logs, and what a user says of them."""
    if len(clusters) <= FEW_CLUSTERS:
        logs = ((label, layout_of(tuple(copies))) for label, copies in clusters.items())
        # As rows, no text that reads them joins or unpacks them anew, and Spark leaves out what
        # depends on a snapshot where the replay meets none.
        for name, rows in log_views(log_facts(logs), options.assumed).items():
            engine.hold(name, rows)
    else:
        engine.keep("log_facts", read(rows="logs"))
        engine.hold("assumed", pa.Table.from_pylist([asdict(options.assumed)], _ASSUMED))
        for name, sql in _VIEWS_OF_FACTS.items():
            engine.define(name, sql)
    lines = [asdict(one) for one in options.broker_logs]
    engine.hold("lines", pa.Table.from_pylist(lines, LINES.remove(0)))
    engine.define("given_broker_log_lines", _GIVEN_LINES)


def _unpack(
    archives: Sequence[Archive], scratch: str, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for number in chain.from_iterable(batch.column(0).to_pylist() for batch in batches):
        answer: object
        try:
            answer = unpack_archive(archives[number], scratch, f"inputs/{number}")
        except ReplayInputError as error:
            answer = error
        yield pa.RecordBatch.from_pydict({"number": [number], "answer": [pickle.dumps(answer)]})
