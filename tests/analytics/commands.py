"""The commands in this process."""

from __future__ import annotations

from collections.abc import Sequence

from jbodlab.cli.program import main


def replay_command(arguments: Sequence[str]) -> int:
    """Run `jbodlab replay`; returns its exit code."""
    return main(["replay", *arguments])


def why(arguments: Sequence[str]) -> int:
    """Run `jbodlab why`; returns its exit code."""
    return main(["why", *arguments])


def what_if(arguments: Sequence[str]) -> int:
    """Run `jbodlab what-if`; returns its exit code."""
    return main(["what-if", *arguments])
