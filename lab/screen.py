"""Output of demo, run and rehearse: plain lines, in colour only on a terminal, and kept."""

from __future__ import annotations

import os
import sys
from enum import Enum
from typing import TextIO

from lab.rehearsal.telling import Tell
from lab.watch.events import Event


class Tone(Enum):
    """How a line is coloured where colours are shown."""

    PLAIN = ""
    HEADING = "\033[1m"
    BAD = "\033[31m"
    GOOD = "\033[32m"


_TONES = {
    "injected": Tone.BAD,
    "offline": Tone.BAD,
    "doubt": Tone.BAD,
    "abort": Tone.BAD,
    "first-ack": Tone.GOOD,
    "healed": Tone.GOOD,
}


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

    def teller(self, zero: str) -> Tell:
        """Return what prints the events of a run as they happen.

        Args:
            zero: Kind of the event from which time counts; before it there is none.
        """
        since_ns: int | None = None

        def tell(event: Event) -> None:
            nonlocal since_ns
            if since_ns is None and event.kind == zero:
                since_ns = event.t_ns
            tone = _TONES.get(event.kind, Tone.PLAIN)
            if since_ns is None:
                self.line(f"  {event.text}", tone)
            else:
                self.line(f"  {_offset(event.t_ns - since_ns):>11}  {event.text}", tone)

        return tell


def _offset(since_ns: int) -> str:
    """Return a moment of a run: milliseconds as long as they tell something."""
    if abs(since_ns) < 100e9:
        return f"{since_ns / 1e6:.0f} ms"
    return f"{since_ns / 1e9:.1f} s"
