"""Progress of a long run, on standard error: one line on a terminal, else a line at times."""

from __future__ import annotations

import sys
import threading
import time
from typing import Self, TextIO

FIRST_AFTER_S = 3.0
"""Shorter runs say nothing."""
ON_TERMINAL_EVERY_S = 0.5
ELSE_EVERY_S = 10.0


class Progress:
    """Reports the stage of a run, until it is left."""

    def __init__(self, out: TextIO | None = None) -> None:
        self.out = sys.stderr if out is None else out
        self._stage = ""
        self._begin = time.monotonic()
        self._done = threading.Event()
        self._drawn = 0
        self._thread = threading.Thread(target=self._watch, name="progress", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
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
            text = f"{self._stage} ({time.monotonic() - self._begin:.0f} s)"
            if on_terminal:
                self.out.write(f"\r{text:<{self._drawn}}")
                self._drawn = len(text)
            else:
                self.out.write(f"jbodlab replay: {text}\n")
            self.out.flush()
            wait_s = ON_TERMINAL_EVERY_S if on_terminal else ELSE_EVERY_S
