"""Tests that are coroutine functions run on a loop whose clock they may set forward."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from tests.broker.async_tests import run_async_test
from tests.broker.following.test_following import Pair, paired
from tests.waiting import AdjustableLoop


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "stage(**options): what the test's fixture is made with")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    return run_async_test(pyfuncitem, AdjustableLoop)


@pytest.fixture
def options(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Return the arguments of the test's mark `stage`."""
    mark = request.node.get_closest_marker("stage")
    return dict(mark.kwargs) if mark is not None else {}


@pytest.fixture
def pair(tmp_path: Path, options: dict[str, Any]) -> AbstractAsyncContextManager[Pair]:
    return paired(tmp_path, **options)
