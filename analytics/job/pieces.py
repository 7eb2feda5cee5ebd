"""Pieces of work that Spark's tasks do, one each, with a Python value for an answer."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from threading import Thread
from typing import TypeVar

import pyarrow as pa  # type: ignore[import-untyped] # it comes without types
from pyspark.sql import SparkSession

from analytics.errors import ReplayInputError

_ANSWER = "number int, answer binary, refusal string"

T = TypeVar("T")


def answers(spark: SparkSession, pieces: Sequence[Callable[[], T]]) -> list[T]:
    """Return what each piece gives, in their order.

    Args:
        spark: The session.
        pieces: They can be sent to tasks.

    Raises:
        ReplayInputError: a piece has raised it.
    """
    if not pieces:
        return []
    rows = spark.range(0, len(pieces), 1, len(pieces)).mapInArrow(_worker(pieces), _ANSWER)
    found: dict[int, T] = {}
    for row in rows.collect():
        if row["refusal"] is not None:
            raise ReplayInputError(row["refusal"])
        found[row["number"]] = pickle.loads(row["answer"])
    return [found[number] for number in range(len(pieces))]


def start_workers(spark: SparkSession) -> None:
    """Have a worker start on each processor, while something else is planned."""
    pieces = [int] * spark.sparkContext.defaultParallelism

    def start() -> None:
        # If the session ends meanwhile, whoever ended it knows why.
        with suppress(Exception):
            answers(spark, pieces)

    Thread(target=start, name="start workers", daemon=True).start()


def _worker(
    pieces: Sequence[Callable[[], object]],
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                answer = refusal = None
                try:
                    answer = pickle.dumps(pieces[number]())
                except ReplayInputError as error:
                    refusal = str(error)
                columns = [
                    pa.array([number], pa.int32()),
                    pa.array([answer], pa.binary()),
                    pa.array([refusal], pa.string()),
                ]
                yield pa.RecordBatch.from_arrays(columns, ["number", "answer", "refusal"])

    return work
