"""The tasks of a read, in batches and as a stream."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa  # type: ignore[import-untyped] # it comes without types
from pyspark.sql.datasource import InputPartition

from analytics.read.arrow_rows import Selection, arrow_rows
from analytics.read.batch_walk import Problem
from analytics.read.layout import Split
from analytics.read.plain_rows import problem_row
from analytics.read.split_rows import read_split


class Task(InputPartition):
    """A split, or the problems that planning found."""

    def __init__(
        self,
        split: Split | None,
        problems: tuple[Problem, ...] = (),
        label: str | None = None,
        cluster_id: str | None = None,
    ) -> None:
        super().__init__(None)
        self.split = split
        self.problems = problems
        self.label = label
        self.cluster_id = cluster_id
        """Whose log the split of a stream is of; None if that is not known."""

    def rows(
        self, schema: pa.Schema, selection: Selection, *, with_payload: bool
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows as Arrow batches."""
        if self.problems:
            yield arrow_rows([problem_row(one, self.label) for one in self.problems], schema)
        if self.split is not None:
            yield from read_split(
                self.split, schema, with_payload=with_payload, selection=selection
            )
