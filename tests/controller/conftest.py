from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.controller.formatted import format_dir
from tests.controller.shell import Shell


@pytest.fixture
def it(runner: asyncio.Runner, tmp_path: Path) -> Iterator[Shell]:
    """An active controller on a directory that was just formatted."""
    shell = Shell(format_dir(tmp_path / "m"))
    runner.run(shell.lead())
    yield shell
    runner.run(shell.stop())
