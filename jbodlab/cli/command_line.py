"""Parts of all command lines: refusing a wrong call, and reading a property file."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from jbodlab.vocabulary import properties
from jbodlab.vocabulary.errors import FormatError

INTERRUPTED = 130
"""Exit code of a program that Ctrl-C has ended."""


class ToolParser(argparse.ArgumentParser):
    """A parser that ends with exit code 1, as Kafka's tools do, where Python's own uses 2.

    Attributes:
        wrong_use: The exit code, where a command's 1 means something else.
    """

    wrong_use = 1

    def error(self, message: str) -> NoReturn:
        """Print usage and message on the standard error output and exit."""
        self.print_usage(sys.stderr)
        self.exit(self.wrong_use, f"{self.prog}: error: {message}\n")


def until_closed(program: Callable[[], int]) -> int:
    """Run a program whose reader may leave before its end, as `head` does.

    Returns:
        Its exit code; 1 if nobody reads any more.
    """
    try:
        code = program()
        sys.stdout.flush()
    except BrokenPipeError:
        drop_output()
        return 1
    return code


def drop_output() -> None:
    """Let what is still buffered go nowhere, so that it does not complain at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def read_properties(path: Path) -> dict[str, str]:
    """Read a property file, and what it refers to elsewhere (`config_providers`).

    Raises:
        FormatError: it cannot be read, or is not a property file.
        ConfigError: what it refers to is not there.
    """
    # A help, which needs none of it, is there at once.
    from jbodlab.config.config_providers import Sources, resolved

    sources = Sources(
        read_text=lambda name: Path(name).read_bytes().decode(),
        exists=lambda name: Path(name).exists(),
        variables=os.environ,
    )
    try:
        return resolved(properties.parse(path.read_text(encoding="utf-8")), sources)
    except OSError as error:
        raise FormatError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise FormatError(f"cannot read {path}: {error}") from error
