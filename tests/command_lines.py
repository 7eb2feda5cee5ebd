"""Output of a command line: exit code and both streams, without times and places."""

from __future__ import annotations

import io
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import NamedTuple

from jbodlab.cli.program import main

FILTERS = (
    (re.compile(r"(127\.0\.0\.1:\d+,?)+"), "ADDRESS"),
    (re.compile(r"\b1[6-9]\d{11}\b"), "TIME"),
    (re.compile(r"rdkafka-[0-9a-f-]{36}"), "MEMBER"),
    (re.compile(r"coordinator broker \d+"), "coordinator broker N"),
)


class Done(NamedTuple):
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def seen(self) -> str:
        """Output that a user sees: stdout, stderr behind `! `, and an exit code that is not 0."""
        found = self.out + "".join(f"! {line}\n" for line in self.err.splitlines())
        for pattern, replacement in FILTERS:
            found = pattern.sub(replacement, found)
        return found + (f"exit {self.code}\n" if self.code else "")


class CommandLines:
    """Runs commands in this process.

    Attributes:
        servers: The address that all of them are about.
    """

    def __init__(self, servers: str) -> None:
        self.servers = servers

    def run(self, line: str, *more: str, text: str = "") -> Done:
        """Run a command with a text as its stdin.

        Args:
            line: Its words.
            more: Words with spaces in them.
            text: Text that it reads.
        """
        return run([*line.split(), *more, "--bootstrap-server", self.servers], text)

    def seen(self, line: str, *more: str, text: str = "") -> str:
        """Return what a user sees of a command."""
        return self.run(line, *more, text=text).seen


def run(words: list[str], text: str = "") -> Done:
    """Run `jbodlab` in this process with a text as its stdin."""
    out = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True)
    err = io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), _stdin(text):
        code = main(words)
    assert "Traceback" not in err.getvalue()
    return Done(code, out.buffer.getvalue().decode(), err.getvalue())


@contextmanager
def started(*words: str) -> Iterator[subprocess.Popen[str]]:
    """Run `jbodlab` as a process of its own, which Ctrl-C ends however the tests were started."""
    program = "import sys; from jbodlab.cli.program import main; sys.exit(main())"
    with subprocess.Popen(
        [sys.executable, "-c", program, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A test run that was put in the background ignores it, and children would inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def _stdin(text: str) -> Iterator[None]:
    before = sys.stdin
    sys.stdin = io.TextIOWrapper(io.BytesIO(text.encode()))
    try:
        yield
    finally:
        sys.stdin = before
