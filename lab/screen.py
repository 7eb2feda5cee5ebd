"""What the demo prints: plain lines, in colour only on a terminal, and kept for the record."""

from __future__ import annotations

import os
import sys
from enum import Enum
from typing import TextIO


class Tone(Enum):
    """How a line is coloured where colours are shown."""

    PLAIN = ""
    HEADING = "\033[1m"
    BAD = "\033[31m"
    GOOD = "\033[32m"


class Screen:
    """The terminal, and a copy of everything that was printed."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.lines: list[str] = []
        self._stream = stream or sys.stdout
        self._colours = self._stream.isatty() and "NO_COLOR" not in os.environ

    def line(self, text: str = "", tone: Tone = Tone.PLAIN) -> None:
        """Print one line."""
        self.lines.append(text)
        shown = f"{tone.value}{text}\033[0m" if self._colours and tone.value and text else text
        print(shown, flush=True, file=self._stream)

    def heading(self, text: str) -> None:
        """Print the heading of a section."""
        self.line()
        self.line(text, Tone.HEADING)

    def detail(self, text: str) -> None:
        """Print an indented line."""
        self.line(f"  {text}")

    def block(self, text: str) -> None:
        """Print several indented lines."""
        for line in text.rstrip().splitlines():
            self.line(f"  {line}".rstrip())

    def moment(self, since_fault_ns: int, text: str, tone: Tone = Tone.PLAIN) -> None:
        """Print something that happened, with the milliseconds since the fault."""
        self.line(f"  {since_fault_ns / 1e6:>8.0f} ms  {text}", tone)
