"""Tasks that do not end unnoticed."""

from __future__ import annotations

import asyncio

import pytest

from jbodlab.runtime.supervised import RESTART_S_MAX, call_each, supervised
from tests.waiting import AdjustableLoop, runner_on, set_forward, turns


class Work:
    """Fails so many times, then goes on until it is cancelled, or returns."""

    def __init__(self, failures: int, *, returns: bool = False) -> None:
        self.begun = 0
        self._failures = failures
        self._returns = returns

    async def __call__(self) -> None:
        self.begun += 1
        if self.begun <= self._failures:
            raise ZeroDivisionError(f"failure {self.begun}")
        if not self._returns:
            await asyncio.Event().wait()


runner = runner_on(AdjustableLoop)


async def test_work_that_breaks_begins_anew_and_each_end_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    work = Work(3)
    task = supervised(work, name="lane 1")
    for expected in (1, 2, 3, 4):
        await turns()
        assert work.begun == expected
        set_forward(RESTART_S_MAX)
    assert not task.done()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert task.cancelled()
    logged = [record for record in caplog.records if "lane 1 ended unexpectedly" in record.message]
    assert [record.levelname for record in logged] == ["ERROR"] * 3
    assert all(record.exc_info is not None for record in logged)


async def test_work_that_cannot_begin_anew_is_told_of_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    told: list[str] = []

    work = Work(3)
    await supervised(work, name="metadata feed", on_end=told.append)
    assert work.begun == 1
    assert told == ["metadata feed ended unexpectedly: ZeroDivisionError('failure 1')"]
    assert "ZeroDivisionError" in caplog.text


async def test_work_that_returns_is_over() -> None:
    work = Work(1, returns=True)
    task = supervised(work, name="once")
    await turns()
    set_forward(RESTART_S_MAX)
    await task
    assert work.begun == 2


def test_news_reach_everybody(caplog: pytest.LogCaptureFixture) -> None:
    reached: list[int] = []

    def broken() -> None:
        raise ZeroDivisionError

    call_each([lambda: reached.append(1), broken, lambda: reached.append(2)], "an append")
    assert reached == [1, 2]
    assert "a callback for an append failed" in caplog.text
