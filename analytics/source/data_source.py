"""The Spark data source `kraft-metadata`: metadata log directories as rows.

    spark.dataSource.register(KraftMetadataSource)
    spark.read.format("kraft-metadata").load("/var/lib/kafka/metadata/__cluster_metadata-0")

The planner looks into the files at a few places and cuts them into splits at batch boundaries; the
executors read, check and decode, by columns. Rows with a `problem` are no records. Those of
snapshots have `snapshot` set, their own offsets, and the moment that the snapshot stands for in
`replay_offset` and `replay_time`, which for a record of the log are its own.

`load` takes a directory, several (a list, or commas between them), a folder of the log directories
of several nodes, or an archive of one; each is a path or the URI of a Hadoop file system, or a
pattern with `*`, `?` and `[...]`, of which what is no log is left out, with `NAME=` in front of it
where the cluster is to be called so. A path that exists by the whole name is one path, commas and
all. Copies of the log of one cluster are one log. The column `cluster` says which one a row is of,
and `source` which directory it comes from. The content of records of the usual types is in the
columns `partition_change`, `registration`, `registration_change`, `config` and `feature`, and what
any record says in `payload`. Options:

* `startOffset`, `endOffset`, `startTime`, `endTime`: which records, by `replay_offset` and
  `replay_time`; ends are exclusive, times are ms since 1970 or ISO 8601;
* `payload`: false leaves the JSON text of records out;
* `splitBytes`: bytes of one task;
* `pushFilters`: true lets filters on offsets, times, types and `snapshot` narrow what is read.
  Spark refuses that while `spark.sql.python.filterPushdown.enabled` is off, which it is by default;
* `maxBytesPerTrigger`: bytes of one micro-batch of a stream;
* `rows`: `logs` gives a row for each log instead, with the snapshots that its replay meets;
* `scratch`: the folder to which archives are unpacked; all tasks must be able to read it;
* `copies`: instead of a path the copies of logs, as a replay has found them before.

With a schema that names fewer columns (`spark.read.schema("offset long, type string")`) only these
are made. `spark.readStream` follows a log that is being written, `source.stream`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

import pyarrow as pa  # type: ignore[import-untyped] # it comes without types
from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from analytics.errors import ReplayInputError
from analytics.read.arrow_rows import ALL, ROWS_PER_BATCH, Selection
from analytics.read.layout import Split
from analytics.read.log_facts import LOG_COLUMNS
from analytics.read.split_rows import COLUMNS
from analytics.source.options import LOG_ROWS, SourceOptions, is_of_logs, narrowed, parse_options
from analytics.source.requirements import NAME
from analytics.source.stream import KraftMetadataStream, StreamPlan
from analytics.source.tasks import NamedLog, SmallLogs, Task, tasks_of

SCHEMA = from_arrow_schema(COLUMNS)
LOG_SCHEMA = from_arrow_schema(LOG_COLUMNS)

LOGS_PLANNED_MAX = 16
"""Of more logs the small ones are planned by the tasks that read them."""
SMALL_LOG_BYTES = 4 << 20
BYTES_PER_TASK = 1 << 20
"""Of small logs."""


class KraftMetadataSource(DataSource):
    """The data source, as Spark wants it registered."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return NAME

    def schema(self) -> StructType:
        """Return the columns, the same for every log."""
        return LOG_SCHEMA if is_of_logs(self.options) else SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of some directories."""
        options = parse_options(self.options)
        if options.rows == LOG_ROWS:
            return LogReader(options.logs, _checked(schema, LOG_SCHEMA))
        kind = FilteredReader if options.push_filters else KraftMetadataReader
        return kind(options, _checked(schema, SCHEMA))

    def streamReader(self, schema: StructType) -> KraftMetadataStream:  # noqa: N802 - Spark's name
        """Return the reader that follows the logs in some directories."""
        options = parse_options(self.options)
        return KraftMetadataStream(StreamPlan(options, arrow_schema(_checked(schema, SCHEMA))))


class KraftMetadataReader(DataSourceReader):
    """Plans the splits of logs and decodes them."""

    def __init__(self, options: SourceOptions, schema: StructType = SCHEMA) -> None:
        self.options = options
        self.schema = schema
        self.selection: Selection = options.selection

    def partitions(self) -> Sequence[InputPartition]:
        """Return the tasks, largest first so that none is left over at the end."""
        small, large = _by_size(self.options.logs)
        tasks = [
            task
            for log in large
            for task in tasks_of(log, self.options.split_bytes)
            if task.split is None or self._may_hold_wanted(task.split)
        ]
        tasks.sort(key=lambda task: 0 if task.split is None else task.split.start - task.split.end)
        return [*tasks, *map(SmallLogs, small)] or [Task(None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one task as Arrow batches."""
        schema, with_payload = arrow_schema(self.schema), self.options.with_payload
        if isinstance(partition, SmallLogs):
            wanted = self._may_hold_wanted
            yield from partition.rows(schema, self.selection, wanted, with_payload=with_payload)
        else:
            assert isinstance(partition, Task)
            yield from partition.rows(schema, self.selection, with_payload=with_payload)

    def _may_hold_wanted(self, split: Split) -> bool:
        if self.selection.snapshot not in (None, split.snapshot is not None):
            return False
        low, high = self.selection.replay_offset
        if split.snapshot is not None:
            return low <= split.snapshot.end_offset < high
        own_low, own_high = self.selection.offset
        low, high = max(low, own_low), min(high, own_high)
        if split.following is not None and split.following.base_offset <= low:
            return False
        return split.expected is None or split.expected < high


class LogReader(DataSourceReader):
    """Tells what planning knows of each log."""

    def __init__(self, logs: Sequence[NamedLog], schema: StructType) -> None:
        self.logs = logs
        self.schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        """Return the tasks."""
        small, large = _by_size(self.logs)
        return [*(SmallLogs((log,)) for log in large), *map(SmallLogs, small)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one task as Arrow batches."""
        assert isinstance(partition, SmallLogs)
        schema = arrow_schema(self.schema)
        yield from partition.facts().select(schema.names).cast(schema).to_batches()


def _by_size(logs: Sequence[NamedLog]) -> tuple[list[tuple[NamedLog, ...]], list[NamedLog]]:
    """Return small logs in groups, if there are many, and the other ones."""
    if len(logs) <= LOGS_PLANNED_MAX:
        return [], list(logs)
    groups: list[list[NamedLog]] = []
    large: list[NamedLog] = []
    size = BYTES_PER_TASK
    for log in logs:
        own = sum(copy.size_bytes for copy in log[1])
        if own > SMALL_LOG_BYTES:
            large.append(log)
            continue
        if size + own > BYTES_PER_TASK:
            groups.append([])
            size = 0
        groups[-1].append(log)
        size += own
    return [tuple(group) for group in groups], large


class FilteredReader(KraftMetadataReader):
    """A reader that takes what filters say of offsets, times and types."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Narrow what is read; return the filters that Spark has to apply: all."""
        selection = narrowed(self.selection, filters)
        self.selection = ALL if selection == ALL else selection
        return filters


@lru_cache(maxsize=32)
def _arrow_schema(text: str) -> pa.Schema:
    return to_arrow_schema(StructType.fromJson(json.loads(text)), timezone="UTC")


def arrow_schema(schema: StructType = SCHEMA) -> pa.Schema:
    """Return the schema of the Arrow batches for columns of the data source."""
    return _arrow_schema(schema.json())


def _checked(schema: StructType, columns: StructType) -> StructType:
    """Return a schema whose columns are some of the data source's.

    Raises:
        ReplayInputError: a column is not one of them, or has another type there.
    """
    known = {field.name: field.dataType for field in columns}
    for field in schema:
        if known.get(field.name) != field.dataType:
            raise ReplayInputError(
                f"the data source {NAME} has no column {field.name} {field.dataType.simpleString()}"
            )
    return schema


__all__ = ["ROWS_PER_BATCH", "SCHEMA", "KraftMetadataReader", "KraftMetadataSource"]
