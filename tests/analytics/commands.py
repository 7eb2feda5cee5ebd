"""The commands in this process, and programs in a Python of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from jbodlab.cli.program import main

ROOT = Path(__file__).resolve().parents[2]
"""Of the sources."""
DEADLINE_S = 120


def python(
    *arguments: str,
    folder: Path = ROOT,
    variables: Mapping[str, str] = os.environ,
    deadline_s: float = DEADLINE_S,
    behind: Sequence[str] = (),
) -> subprocess.CompletedProcess[str]:
    """Run Python with arguments, behind another command that starts it."""
    return subprocess.run(
        [*behind, sys.executable, *arguments],
        cwd=folder,
        env=dict(variables),
        capture_output=True,
        text=True,
        timeout=deadline_s,
        check=False,
    )


def replay_command(arguments: Sequence[str]) -> int:
    """Run `jbodlab replay`; returns its exit code."""
    return main(["replay", *arguments])


def why(arguments: Sequence[str]) -> int:
    """Run `jbodlab why`; returns its exit code."""
    return main(["why", *arguments])


def what_if(arguments: Sequence[str]) -> int:
    """Run `jbodlab what-if`; returns its exit code."""
    return main(["what-if", *arguments])
