"""Fixtures of the broker's tests, whose loop has a clock that they may set forward."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.disk.directory.log_dir import LogDir
from tests.broker.pair import Pair, paired
from tests.broker.stage import Stage
from tests.waiting import AdjustableLoop


@pytest.fixture(autouse=True)
def _threads_end(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Stop the threads of all directories that a test has made."""
    made: list[LogDir] = []
    initialize = LogDir.__init__

    def noted(log_dir: LogDir, *arguments: Any, **options: Any) -> None:
        initialize(log_dir, *arguments, **options)
        made.append(log_dir)

    monkeypatch.setattr(LogDir, "__init__", noted)
    yield
    for log_dir in made:
        log_dir.stop()


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    """Return the loop of a coroutine test and its fixtures."""
    with asyncio.Runner(loop_factory=AdjustableLoop) as made:
        yield made


@pytest.fixture
def options(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The arguments of the test's mark `stage`."""
    mark = request.node.get_closest_marker("stage")
    return dict(mark.kwargs) if mark is not None else {}


@pytest.fixture
async def stage(tmp_path: Path, options: dict[str, Any]) -> AsyncIterator[Stage]:
    """A stage on which nothing has begun."""
    async with Stage(tmp_path, **options) as stage:
        yield stage


@pytest.fixture
async def pair(tmp_path: Path, options: dict[str, Any]) -> AsyncIterator[Pair]:
    async with paired(tmp_path, **options) as pair:
        yield pair
