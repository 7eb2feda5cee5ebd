"""What `jbodlab` does with a cluster that stays.

Each module has `add`, which enters its commands, and `run`, which carries one out. `TABLE` names
the module of each command; a module is imported when its command is given.
"""

from __future__ import annotations

import argparse
import importlib
from typing import Any

from lab.interrupts import Interrupts

TABLE = {
    "start": "lifecycle",
    "stop": "lifecycle",
    "kill": "lifecycle",
    "restart": "lifecycle",
    "list": "listing",
    "logs": "logs",
    "inject": "breaking",
    "heal": "breaking",
    "run": "running",
    "replay": "replaying",
    "completion": "completion",
    "ui": "page",
}


def add_commands(commands: Any) -> None:
    """Enter all of them into a parser."""
    from lab.commands import arguments

    arguments.add(commands)


def run(options: argparse.Namespace, interrupts: Interrupts) -> int:
    """Carry out a command of the table; returns the exit code.

    Raises:
        LabError: it cannot be, or failed.
    """
    module = importlib.import_module(f"{__package__}.{TABLE[options.command]}")
    code: int = module.run(options, interrupts)
    return code
