"""The commands in this process, and programs in a Python of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import partial
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


def _command(name: str, arguments: Sequence[str]) -> int:
    """Run a command of `jbodlab`; returns its exit code."""
    return main([name, *arguments])


replay_command, why, what_if = (partial(_command, name) for name in ("replay", "why", "what-if"))
