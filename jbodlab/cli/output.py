"""Output of a command: its result on stdout, everything else on stderr."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from jbodlab.vocabulary.errors import JbodlabError

if TYPE_CHECKING:
    from jbodlab.cli.results import Place, Printed, PrintedRows
    from jbodlab.vocabulary.ids import TopicPartition

PROGRESS_AFTER_S = 1.0
"""A command that takes no longer than this says nothing about its progress."""


class DeclinedError(JbodlabError):
    """The user has not confirmed what would be destroyed or moved."""


class Output:
    """The streams of one command.

    Attributes:
        is_json: Whether the result is printed as JSON, `--output json`.
    """

    def __init__(
        self,
        *,
        is_json: bool = False,
        out: TextIO | None = None,
        err: TextIO | None = None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.is_json = is_json
        self.out = out or sys.stdout
        self.err = err or sys.stderr
        self._now_s = now_s
        self._began_s = now_s()

    def result(self, value: Printed, text: str) -> None:
        """Print the result: the value as JSON, or else the text."""
        if self.is_json:
            self.json(value)
        elif text:
            print(text, file=self.out)

    def rows(self, rows: PrintedRows, nothing: str = "") -> None:
        """Print rows with equal keys: a list as JSON, else a table, or `nothing` for no rows."""
        self.result(rows, rows_text(rows) or nothing)

    def texts(self, texts: Mapping[str, str]) -> None:
        """Print a text for each name: an object as JSON, else lines."""
        if self.is_json:
            print(_json(texts, indent=2), file=self.out)
        elif texts:
            print("\n".join(f"{name} {text}" for name, text in texts.items()), file=self.out)

    def json(self, value: Printed) -> None:
        """Print a value as JSON, in several lines; what JSON does not have is a text."""
        print(_json(value, indent=2), file=self.out)

    def json_line(self, value: Printed) -> None:
        """Print a value as JSON in one line, at once: a command that goes on prints several."""
        print(_json(value), file=self.out, flush=True)

    def line(self, text: str = "") -> None:
        """Print a line of a result that is text; with `--output json` it goes to stderr."""
        print(text, file=self.err if self.is_json else self.out, flush=True)

    def note(self, text: str) -> None:
        """Print a line on stderr that is not part of the result."""
        print(text, file=self.err, flush=True)

    def progress(self, text: str) -> None:
        """Print how far a command is, on stderr, once it has taken a second."""
        if self._now_s() - self._began_s >= PROGRESS_AFTER_S:
            self.note(text)

    def confirm(self, question: str, *, yes: bool) -> None:
        """Ask before something is destroyed or moved.

        Args:
            question: The consequence, such as `delete topic orders?`.
            yes: The value of `--yes`: do not ask.

        Raises:
            DeclinedError: the answer is not yes, or nobody can answer.
        """
        if yes:
            return
        if not sys.stdin.isatty():
            raise DeclinedError(f"{question} Confirm with --yes")
        print(f"{question} [y/N] ", end="", file=self.err, flush=True)
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            raise DeclinedError("cancelled, nothing was changed")


def _json(value: object, indent: int | None = None) -> str:
    return json.dumps(value, indent=indent, ensure_ascii=False, default=str)


def place(one: TopicPartition) -> Place:
    """Return a partition as JSON has it."""
    return {"topic": one.topic, "partition": one.partition}


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, such as `1 move` or `2 moves`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def rows_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return rows with equal keys as a table with the keys as its head; empty for no rows."""
    heads = [key.upper().replace("_", " ") for key in rows[0]] if rows else []
    return table(heads, [tuple(row.values()) for row in rows]) if rows else ""


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return rows under their columns: numbers to the right, everything else to the left."""
    cells = [[_cell(value) for value in row] for row in rows]
    are_numbers = [
        bool(cells) and all(row[index].lstrip("-").isdecimal() for row in cells)
        for index in range(len(columns))
    ]
    lines = [list(columns), *cells]
    widths = [max(len(line[index]) for line in lines) for index in range(len(columns))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if is_number else cell.ljust(width)
            for cell, width, is_number in zip(line, widths, are_numbers, strict=True)
        ).rstrip()
        for line in lines
    )


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, (list, tuple)):
        return ",".join(str(item) for item in value) or "-"
    return str(value)
