"""What carries out the stages of a replay: a plan is an ordinary program over two methods.

`map` does one piece of work for each of some items. Its answer goes to the driver, and the rows
that it yields stay where they are. `shuffle` brings these rows together bucket by bucket, and does
another piece of work for each bucket. `spark_runner` is one such runner, `local_runner` the other.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import pyarrow as pa  # type: ignore[import-untyped] # it comes without types

from analytics.tables.table import BINARY, INT, LONG, STRING

Item = TypeVar("Item")
Answer = TypeVar("Answer")

ROWS = pa.schema(
    [
        pa.field("bucket", INT),
        pa.field("first", LONG),
        pa.field("last", LONG),
        pa.field("snapshot_end", LONG),
        pa.field("file_name", STRING),
        pa.field("blob", BINARY),
    ]
)
"""Rows that are shuffled: a block of events, or, without a file, the records about the topics of a
bucket. `first` and `last` are the first and the last position in the order of replay."""

Row = Mapping[str, Any]
"""A row of ROWS."""

Mapper = Callable[[Item], Generator[pa.RecordBatch, None, Answer]]
"""Work on an item: yields rows of ROWS and returns an answer."""

Reducer = Callable[[int, Iterator[Row]], Answer]
"""Work on a bucket and its rows, by `first`: returns an answer."""


@dataclass(frozen=True, slots=True)
class Mapped(Generic[Answer]):
    """What a `map` gives, to be closed.

    Attributes:
        answers: In the order of the items.
        rows: What the runner has kept of the rows.
        close: Gives back what the rows take.
    """

    answers: Sequence[Answer]
    rows: Any
    close: Callable[[], object] = int


class Runner(Protocol):
    """Where the work is done; both methods may be called by several threads at a time.

    A ReplayInputError that a piece of work raises reaches the caller. All that a piece of work is
    made of can be pickled, and so can its answer. A piece may be done twice, where a machine is
    lost: one of the answers counts.
    """

    @property
    def name(self) -> str:
        """What it is, for the report; known also when the runner is closed."""

    def map(self, work: Mapper[Item, Answer], items: Sequence[Item]) -> Mapped[Answer]:
        """Do a piece of work for each item."""

    def shuffle(
        self, mapped: Mapped[Any], more: pa.Table, buckets: int, work: Reducer[Answer]
    ) -> Sequence[Answer]:
        """Do a piece of work for each bucket that has rows.

        Args:
            mapped: What `map` gave; not closed yet.
            more: Rows that the driver adds.
            buckets: How many there are; their numbers begin at 0.
            work: What is done.

        Returns:
            The answers, in no order.
        """

    def close(self) -> None:
        """Hear that no more work comes."""


def without_rows(work: Callable[[Item], Answer]) -> Mapper[Item, Answer]:
    """Return work for `map` that yields no rows."""
    return _WithoutRows(work)


@dataclass(frozen=True, slots=True)
class _WithoutRows(Generic[Item, Answer]):
    work: Callable[[Item], Answer]

    def __call__(self, item: Item) -> Generator[pa.RecordBatch, None, Answer]:
        yield from ()
        return self.work(item)
