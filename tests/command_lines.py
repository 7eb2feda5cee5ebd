"""What a user sees of a command line: exit code and both streams, without times and places."""

from __future__ import annotations

import io
import re
import sys

import pytest

from jbodlab.cli.program import main

FILTERS = (
    (re.compile(r"(127\.0\.0\.1:\d+,?)+"), "ADDRESS"),
    (re.compile(r"\b1[6-9]\d{11}\b"), "TIME"),
    (re.compile(r"rdkafka-[0-9a-f-]{36}"), "MEMBER"),
    (re.compile(r"coordinator broker \d+"), "coordinator broker N"),
    (re.compile(r'"coordinator": \d+'), '"coordinator": N'),
)


class CommandLines:
    """Runs commands in this process."""

    def __init__(
        self,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
        bootstrap: str | None = None,
    ) -> None:
        self._capsys = capsys
        self._monkeypatch = monkeypatch
        self._servers = () if bootstrap is None else ("--bootstrap-server", bootstrap)

    def run(self, line: str, *more: str, text: str = "") -> tuple[int, str, str]:
        """Run a command with a text as its stdin; returns its exit code and both streams."""
        self._monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        code = main([*line.split(), *more, *self._servers])
        said = self._capsys.readouterr()
        return code, said.out, said.err

    def seen(self, line: str, *more: str, text: str = "") -> str:
        """Return what a user sees: stdout, stderr behind `! `, and an exit code that is not 0."""
        code, out, err = self.run(line, *more, text=text)
        found = out + "".join(f"! {line}\n" for line in err.splitlines())
        for pattern, replacement in FILTERS:
            found = pattern.sub(replacement, found)
        return found + (f"exit {code}\n" if code else "")
