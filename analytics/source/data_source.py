"""The Spark data source `kraft-metadata`: metadata log directories as rows.

    spark.dataSource.register(KraftMetadataSource)
    spark.read.format("kraft-metadata").load("/var/lib/kafka/metadata/__cluster_metadata-0")

The planner looks into the files at a few places and cuts them into splits at batch boundaries; the
executors read, check and decode, by columns. Rows with a `problem` are no records. Those of
snapshots have `snapshot` set, their own offsets, and the moment that the snapshot stands for in
`replay_offset` and `replay_time`, which for a record of the log are its own.

`load` takes a directory, several (a list, or commas between them), or a folder of the log
directories of several nodes; each is a path or the URI of a Hadoop file system, or a pattern with
`*`, `?` and `[...]`, of which what is no log is left out. What there is by the whole name is one
path, commas and all. Where there are several, the column `source` says which one a row comes from.
Options:

* `startOffset`, `endOffset`, `startTime`, `endTime`: which records, by `replay_offset` and
  `replay_time`; ends are exclusive, times are ms since 1970 or ISO 8601;
* `payload`: false leaves the JSON text of records out;
* `splitBytes`: bytes of one task;
* `pushFilters`: true lets filters on offsets, times and types narrow what is read. Spark refuses
  that while `spark.sql.python.filterPushdown.enabled` is off, which it is by default;
* `maxBytesPerTrigger`: bytes of one micro-batch of a stream.

With a schema that names fewer columns (`spark.read.schema("offset long, type string")`) only these
are made. `spark.readStream` follows a log that is being written, `source.stream`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

import pyarrow as pa  # type: ignore[import-untyped] # it comes without types
from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from analytics.errors import ReplayInputError
from analytics.read.arrow_rows import ALL, ROWS_PER_BATCH, Selection
from analytics.read.layout import Split, read_layout
from analytics.read.split_rows import COLUMNS
from analytics.source.options import SourceOptions, narrowed, parse_options
from analytics.source.requirements import NAME
from analytics.source.stream import KraftMetadataStream, StreamPlan
from analytics.source.tasks import Task

SCHEMA = from_arrow_schema(COLUMNS)


class KraftMetadataSource(DataSource):
    """The data source, as Spark wants it registered."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return NAME

    def schema(self) -> StructType:
        """Return the columns, the same for every log."""
        return SCHEMA

    def reader(self, schema: StructType) -> KraftMetadataReader:
        """Return the reader of some directories."""
        options = parse_options(self.options)
        kind = FilteredReader if options.push_filters else KraftMetadataReader
        return kind(options, _checked(schema))

    def streamReader(self, schema: StructType) -> KraftMetadataStream:  # noqa: N802 - Spark's name
        """Return the reader that follows the logs in some directories."""
        options = parse_options(self.options)
        return KraftMetadataStream(StreamPlan(options, arrow_schema(_checked(schema))))


class KraftMetadataReader(DataSourceReader):
    """Plans the splits of directories and decodes them."""

    def __init__(self, options: SourceOptions, schema: StructType = SCHEMA) -> None:
        self.options = options
        self.schema = schema
        self.selection: Selection = options.selection

    def partitions(self) -> Sequence[InputPartition]:
        """Return the tasks, largest first so that none is left over at the end."""
        tasks: list[Task] = []
        for source in self.options.sources:
            layout = read_layout(source, self.options.split_bytes)
            label = source if self.options.has_several else None
            tasks += (
                Task(replace(split, label=label))
                for split in layout.splits
                if self._may_hold_wanted(split)
            )
            if layout.problems:
                tasks.append(Task(None, layout.problems, label))
        tasks.sort(key=lambda task: 0 if task.split is None else task.split.start - task.split.end)
        return tasks or [Task(None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one task as Arrow batches."""
        assert isinstance(partition, Task)
        schema = arrow_schema(self.schema)
        yield from partition.rows(schema, self.selection, with_payload=self.options.with_payload)

    def _may_hold_wanted(self, split: Split) -> bool:
        low, high = self.selection.replay_offset
        if split.snapshot is not None:
            return low <= split.snapshot.end_offset < high
        own_low, own_high = self.selection.offset
        low, high = max(low, own_low), min(high, own_high)
        if split.following is not None and split.following.base_offset <= low:
            return False
        return split.expected is None or split.expected < high


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


def _checked(schema: StructType) -> StructType:
    """Return a schema whose columns are some of the data source's.

    Raises:
        ReplayInputError: a column is not one of them, or has another type there.
    """
    known = {field.name: field.dataType for field in SCHEMA}
    for field in schema:
        if known.get(field.name) != field.dataType:
            raise ReplayInputError(
                f"the data source {NAME} has no column {field.name} {field.dataType.simpleString()}"
            )
    return schema


__all__ = ["ROWS_PER_BATCH", "SCHEMA", "KraftMetadataReader", "KraftMetadataSource"]
