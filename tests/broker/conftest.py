"""Runs asynchronous tests of the broker and their fixtures, each test on a loop of its own."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.disk.directory.log_dir import LogDir
from tests.broker.following.test_following import Pair, paired
from tests.waiting import AdjustableLoop

DEADLINE_S = 300
"""By the clock of the loop, which tests set forward."""


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "stage(**options): what the test's fixture is made with")


def pytest_itemcollected(item: pytest.Item) -> None:
    """Give an asynchronous test its loop before, and take it after, all other fixtures."""
    if isinstance(item, pytest.Function) and inspect.iscoroutinefunction(item.obj):
        item.fixturenames.insert(0, "runner")


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
    """The loop of an asynchronous test and its fixtures."""
    with asyncio.Runner(loop_factory=AdjustableLoop) as made:
        yield made


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
) -> Generator[None, object, object]:
    """Run a fixture that is an asynchronous generator."""
    function = fixturedef.func
    if not inspect.isasyncgenfunction(function):
        return (yield)
    runner = request.getfixturevalue("runner")

    def on_loop(**arguments: object) -> Iterator[object]:
        generator = function(**arguments)
        yield runner.run(_bounded(anext(generator)))
        runner.run(_bounded(anext(generator, None)))

    fixturedef.func = on_loop  # type: ignore[misc]
    try:
        return (yield)
    finally:
        fixturedef.func = function  # type: ignore[misc]


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an asynchronous test."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    test = pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names})
    pyfuncitem.funcargs["runner"].run(_bounded(test))
    return True


async def _bounded(work: Awaitable[object]) -> object:
    async with asyncio.timeout(DEADLINE_S):
        return await work


@pytest.fixture
def options(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The arguments of the test's mark `stage`."""
    mark = request.node.get_closest_marker("stage")
    return dict(mark.kwargs) if mark is not None else {}


@pytest.fixture
async def pair(tmp_path: Path, options: dict[str, Any]) -> AsyncIterator[Pair]:
    async with paired(tmp_path, **options) as pair:
        yield pair
