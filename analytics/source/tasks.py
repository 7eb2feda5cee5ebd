"""The tasks of a read, in batches and as a stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pyarrow as pa  # type: ignore[import-untyped] # it comes without types
from pyspark.sql.datasource import InputPartition

from analytics.read.arrow_rows import Selection, arrow_rows
from analytics.read.batch_walk import Problem
from analytics.read.layout import Split
from analytics.read.log_copies import LogCopy
from analytics.read.log_facts import log_facts
from analytics.read.named_logs import layout_of
from analytics.read.plain_rows import problem_row
from analytics.read.split_rows import read_split

NamedLog = tuple[str | None, tuple[LogCopy, ...]]
"""A log: the label of its cluster, and the copies of which it is put together."""


class Task(InputPartition):
    """A split, or the problems that planning found."""

    def __init__(
        self,
        split: Split | None,
        problems: tuple[Problem, ...] = (),
        source: str | None = None,
        cluster: str | None = None,
        cluster_id: str | None = None,
    ) -> None:
        super().__init__(None)
        self.split = split
        self.problems = problems
        self.source = source
        self.cluster = cluster
        """Label of the cluster."""
        self.cluster_id = cluster_id
        """Whose log the split of a stream is of; None if that is not known."""

    def rows(
        self, schema: pa.Schema, selection: Selection, *, with_payload: bool
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows as Arrow batches."""
        if self.problems:
            rows = [problem_row(one, self.source, self.cluster) for one in self.problems]
            yield arrow_rows(rows, schema)
        if self.split is not None:
            yield from read_split(
                self.split, schema, with_payload=with_payload, selection=selection
            )


def tasks_of(log: NamedLog, split_bytes: int | None = None) -> Iterator[Task]:
    """Plan a log: a task for each split, and one for the problems of its files.

    Raises:
        ReplayInputError: a copy cannot be listed.
    """
    label, copies = log
    layout = layout_of(copies, split_bytes)
    yield from (Task(replace(split, cluster=label)) for split in layout.splits)
    if layout.problems:
        yield Task(None, layout.problems, layout.source, label)


class SmallLogs(InputPartition):
    """Some small logs: where there are many, the tasks plan them, not the driver."""

    def __init__(self, logs: tuple[NamedLog, ...]) -> None:
        super().__init__(None)
        self.logs = logs

    def rows(
        self,
        schema: pa.Schema,
        selection: Selection,
        may_hold_wanted: Callable[[Split], bool],
        *,
        with_payload: bool,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows as Arrow batches."""
        for log in self.logs:
            for task in tasks_of(log):
                if task.split is None or may_hold_wanted(task.split):
                    yield from task.rows(schema, selection, with_payload=with_payload)

    def facts(self) -> pa.Table:
        """Return a row for each log; see `log_facts`."""
        return log_facts((label, layout_of(copies)) for label, copies in self.logs)
