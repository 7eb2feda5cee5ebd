"""The entry points beside `jbodlab`, by names that are the same in a clone and in a wheel."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from jbodlab.cli.command_line import INTERRUPTED
from jbodlab.cli.program_names import name_of

Main = Callable[[], int | None]

COMMANDS = {
    "broker": "broker.__main__:main",
    "controller": "controller.__main__:main",
    "storage": "storage_tool.__main__:main",
}


def __getattr__(name: str) -> Main:
    """Return the function behind a command; only its own modules are imported."""
    if name not in COMMANDS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, function = COMMANDS[name].partition(":")
    try:
        found: Main = getattr(import_module(name_of(module)), function)
    except KeyboardInterrupt:
        print(f"{Path(sys.argv[0]).name}: interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)
    return found
