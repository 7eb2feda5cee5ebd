"""The Spark data source `kraft-metadata`: a metadata log directory as rows.

    spark.dataSource.register(KraftMetadataSource)
    spark.read.format("kraft-metadata").load("/var/lib/kafka/metadata/__cluster_metadata-0")

The planner reads batch headers and cuts the files into splits at batch boundaries; the executors
read, check and decode. Rows with a `problem` are no records. Those of snapshots have `snapshot`
set, their own offsets, and the moment that the snapshot stands for in `replay_offset` and
`replay_time`, which for a record of the log are its own.

Options: `path`; `splitBytes`, bytes of one task.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped] # it comes without types
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructField, StructType

from analytics.batch_walk import Problem
from analytics.decode import SourceRow, decode_split, problem_row
from analytics.layout import SPLIT_BYTES, Split, find_metadata_dir, read_layout
from analytics.tables import BINARY, BOOLEAN, INT, LONG, STRING, TIME

NAME = "kraft-metadata"
ROWS_PER_BATCH = 8192

SCHEMA = StructType(
    [
        StructField(name, kind)
        for name, kind in (
            ("file", STRING),
            ("position", LONG),
            ("snapshot", BOOLEAN),
            ("offset", LONG),
            ("timestamp", TIME),
            ("epoch", INT),
            ("batch_base_offset", LONG),
            ("batch_last_offset", LONG),
            ("replay_offset", LONG),
            ("replay_time", TIME),
            ("control", BOOLEAN),
            ("type", STRING),
            ("version", INT),
            ("topic", STRING),
            ("topic_id", STRING),
            ("partition", INT),
            ("broker", INT),
            ("payload", STRING),
            ("value", BINARY),
            ("problem", STRING),
            ("message", STRING),
        )
    ]
)


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
        """Return the reader of one directory."""
        return KraftMetadataReader(
            Path(self.options["path"]), int(self.options.get("splitBytes", SPLIT_BYTES))
        )


class SplitPartition(InputPartition):
    """One task: a split, or the problems that planning found."""

    def __init__(self, split: Split | None, problems: tuple[Problem, ...] = ()) -> None:
        super().__init__(None)
        self.split = split
        self.problems = problems


class KraftMetadataReader(DataSourceReader):
    """Plans the splits of a directory and decodes them."""

    def __init__(self, path: Path, split_bytes: int) -> None:
        self.directory = find_metadata_dir(path)
        self.split_bytes = split_bytes

    def partitions(self) -> Sequence[InputPartition]:
        """Return the tasks, largest first so that none is left over at the end."""
        layout = read_layout(self.directory, self.split_bytes)
        splits = sorted(layout.splits, key=lambda split: split.start - split.end)
        tasks = [SplitPartition(split) for split in splits]
        if layout.problems or not tasks:
            tasks.append(SplitPartition(None, layout.problems))
        return tasks

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one task as Arrow batches."""
        assert isinstance(partition, SplitPartition)
        schema = to_arrow_schema(SCHEMA, timezone="UTC")
        rows = self._rows(partition)
        while chunk := list(islice(rows, ROWS_PER_BATCH)):
            columns = [
                pa.array(column, type=field.type)
                for column, field in zip(zip(*chunk, strict=True), schema, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)

    def _rows(self, partition: SplitPartition) -> Iterator[SourceRow]:
        yield from map(problem_row, partition.problems)
        split = partition.split
        if split is None:
            return
        try:
            with (self.directory / split.file).open("rb") as file:
                file.seek(split.start)
                data = file.read(split.end - split.start)
        except OSError as error:
            # Retention may delete a segment between planning and reading.
            yield problem_row(
                Problem(
                    file=split.file,
                    position=split.start,
                    offset=None,
                    kind="unreadable",
                    message=str(error.strerror),
                )
            )
            return
        yield from decode_split(data, split)
