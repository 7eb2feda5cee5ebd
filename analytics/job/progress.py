"""What a long run is doing, on standard error: a bar on a terminal, else a line now and then."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import Self, TextIO

from pyspark.sql import SparkSession

FIRST_AFTER_S = 3.0
"""Shorter runs say nothing."""
ON_TERMINAL_EVERY_S = 0.5
ELSE_EVERY_S = 10.0
BAR_CHARS = 24


class Progress:
    """Reports the stage of a run and the tasks of Spark's running stages, until it is left.

    Args:
        spark: Session whose tasks are counted.
        out: Where to.
    """

    def __init__(self, spark: SparkSession, out: TextIO | None = None) -> None:
        self.out = sys.stderr if out is None else out
        self._tracker = spark.sparkContext.statusTracker()
        self._stage = ""
        self._begin = time.monotonic()
        self._done = threading.Event()
        self._drawn = 0
        self._thread = threading.Thread(target=self._watch, name="progress", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._done.set()
        self._thread.join()
        if self._drawn:
            self.out.write("\r" + " " * self._drawn + "\r")
            self.out.flush()

    def stage(self, name: str) -> None:
        """Say what comes next."""
        self._stage = name

    def _watch(self) -> None:
        on_terminal = self.out.isatty()
        wait_s = FIRST_AFTER_S
        while not self._done.wait(wait_s):
            done, total = self._tasks()
            if self._done.is_set():
                return
            text = progress_line(self._stage, done, total, time.monotonic() - self._begin)
            if on_terminal:
                self.out.write(f"\r{text:<{self._drawn}}")
                self._drawn = len(text)
            else:
                self.out.write(f"jbodlab replay: {text}\n")
            self.out.flush()
            wait_s = ON_TERMINAL_EVERY_S if on_terminal else ELSE_EVERY_S

    def _tasks(self) -> tuple[int, int]:
        """Return how many tasks of the running stages are done, and how many there are."""
        done = total = 0
        for number in self._tracker.getActiveStageIds():
            found = self._tracker.getStageInfo(number)
            if found is not None:
                done += found.numCompletedTasks
                total += found.numTasks
        return done, total


def progress_line(stage: str, done: int, total: int, seconds: float) -> str:
    """Return a line about a stage of which some tasks are done."""
    if not total:
        return f"{stage} ({seconds:.0f} s)"
    filled = BAR_CHARS * done // total
    bar = "#" * filled + "." * (BAR_CHARS - filled)
    return f"{stage} [{bar}] {done}/{total} tasks ({seconds:.0f} s)"
