"""How every tool starts and ends: what it prints for whom, and its exit code.

0 done; 1 wrong usage or failed, with one line that says why; 130 after Ctrl-C.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import metadata
from typing import TextIO

from admin_tool.errors import AdminError, UsageError
from admin_tool.options import Option, Parsed, parse, usage
from jbodlab import lab_state
from jbodlab.command_line import INTERRUPTED, until_closed
from jbodlab.errors import ConfigError, DecodeError, FormatError


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A program.

    Attributes:
        summary: First line of its help.
        options: What it understands, `--help` and `--version` included.
        run: Carries a command out; returns the exit code.
        failure: Makes the line for a failure.
        failures_to_stdout: Whether that line goes to the standard output, as some of Kafka's do.
        notes: What its help says below the options.
        asks_cluster: Whether a command line is about a cluster at all.
    """

    summary: str
    options: tuple[Option, ...]
    run: Callable[[Parsed], int]
    failure: Callable[[AdminError], str] = str
    failures_to_stdout: bool = False
    notes: str = ""
    asks_cluster: Callable[[Parsed], bool] = lambda _: True


def run(tool: Tool, argv: Sequence[str] | None) -> int:
    """Run a program on its command line; returns the exit code."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    try:
        return until_closed(partial(_run, tool, arguments))
    except KeyboardInterrupt:
        return INTERRUPTED


def _run(tool: Tool, arguments: list[str]) -> int:
    if not arguments or "--help" in arguments:
        return _refuse(tool, tool.summary)
    if "--version" in arguments:
        print(metadata.version("jbodlab"))
        return 0
    try:
        options = parse(arguments, tool.options)
        if tool.asks_cluster(options):
            options = _with_the_only_cluster(options)
        return tool.run(options)
    except UsageError as error:
        return _refuse(tool, str(error))
    except AdminError as error:
        return _fail(tool, error)
    except (ConfigError, FormatError) as error:
        return _fail(tool, AdminError(str(error)))


def _with_the_only_cluster(options: Parsed) -> Parsed:
    """Fill in the address where none is given and a single cluster runs on this machine; say which.

    Raises:
        AdminError: several run, or one may run of which nothing can be read.
    """
    if options.has("bootstrap-server") or options.has("bootstrap-controller"):
        return options
    try:
        found = lab_state.running_clusters(os.environ, os.geteuid())
    except DecodeError as error:
        raise AdminError(f"{error}; give the address by --bootstrap-server") from error
    named = [f"{state.name} at {state.bootstrap}" for state in found]
    if len(found) > 1:
        raise AdminError(
            f"several clusters run on this machine, give an address by --bootstrap-server: "
            f"{'; '.join(named)}"
        )
    if not found:
        return options
    _say(f"cluster {named[0]}", sys.stderr)
    return replace(options, values={**options.values, "bootstrap-server": (found[0].bootstrap,)})


def _refuse(tool: Tool, message: str) -> int:
    _say(message, sys.stderr)
    _say(usage(tool.options), sys.stderr)
    if tool.notes:
        _say(f"\n{tool.notes}", sys.stderr)
    return 1


def _fail(tool: Tool, error: AdminError) -> int:
    sys.stdout.flush()
    _say(tool.failure(error), sys.stdout if tool.failures_to_stdout else sys.stderr)
    return 1


def _say(text: str, stream: TextIO) -> None:
    print(text, file=stream, flush=True)
