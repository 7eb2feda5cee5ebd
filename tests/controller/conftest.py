from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.controller.formatted import format_dir
from tests.controller.shell import Shell


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A metadata directory that was just formatted."""
    return format_dir(tmp_path / "m")


@pytest.fixture
def it(runner: asyncio.Runner, directory: Path) -> Iterator[Shell]:
    """An active controller on a directory that was just formatted."""
    shell = Shell(directory)
    runner.run(shell.lead())
    yield shell
    runner.run(shell.stop())
