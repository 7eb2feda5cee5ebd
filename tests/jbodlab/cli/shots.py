"""Snapshots of what a user sees: command, both streams, exit code.

A test compares what commands print with a file in `snapshots/`. `UPDATE_SNAPSHOTS=1` writes the
files, so that a change is reviewed as a difference.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable
from pathlib import Path

import pytest

from jbodlab.cli.program import main

FOLDER = Path(__file__).parent / "snapshots"
FILTERS = (
    (re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+(\+00:00|Z)"), "TIME"),
    (re.compile(r"\d{8}-\d{6}"), "STAMP"),
    (re.compile(r"^jbodlab \d+\.\d+\.\d+$", re.MULTILINE), "jbodlab VERSION"),
)


class Shots:
    """Runs commands in this process, without a cluster, and keeps what they print."""

    def __init__(self, capsys: pytest.CaptureFixture[str], hidden: dict[str, str]) -> None:
        self._capsys = capsys
        self._hidden = hidden
        self._text = ""

    def take(self, *lines: str) -> None:
        """Run command lines, each without the program's name."""
        for line in lines:
            self._capsys.readouterr()
            code = main(shlex.split(line))
            said = self._capsys.readouterr()
            self._text += f"$ {self._filtered(f'jbodlab {line}'.rstrip())}\n"
            self._text += self._filtered(said.out)
            self._text += "".join(
                f"2> {each}".rstrip() + "\n" for each in self._filtered(said.err).splitlines()
            )
            self._text += f"[exit {code}]\n\n"

    def compare(self, name: str) -> None:
        """Compare with the snapshot of this name."""
        file = FOLDER / f"{name}.txt"
        if "UPDATE_SNAPSHOTS" in os.environ:
            FOLDER.mkdir(exist_ok=True)
            file.write_text(self._text, "utf-8")
        assert self._text == file.read_text("utf-8")

    def _filtered(self, text: str) -> str:
        for path, name in self._hidden.items():
            text = text.replace(path, name)
        for pattern, name in FILTERS:
            text = pattern.sub(name, text)
        return text


def wide_lines(text: str, width: int) -> Iterable[str]:
    """Return the lines of a text that are wider than allowed."""
    return [line for line in text.splitlines() if len(line) > width]
