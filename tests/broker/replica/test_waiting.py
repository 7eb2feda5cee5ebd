from __future__ import annotations

import asyncio

import pytest

from broker.replica.waiting import FetchQueue, WaitingFetch
from tests.waiting import run_adjustable, set_forward, turns

REST_S = 0.01


class Fetch:
    """A fetch of many partitions, in one of them."""

    def __init__(self) -> None:
        self.asked = 0
        self.enough = False
        self.finished: list[bool] = []
        self.queue = FetchQueue()
        self.waiting = WaitingFetch(
            asyncio.get_running_loop(),
            60_000,
            is_enough=self._is_enough,
            finish=lambda: self.finished.append(True),
            rest_s=REST_S,
        )
        self.waiting.stand_in(self.queue)

    def _is_enough(self) -> bool:
        self.asked += 1
        return self.enough


def test_fetch_of_many_partitions_is_looked_at_once_for_many_events() -> None:
    async def test() -> None:
        fetch = Fetch()
        for _ in range(100):
            fetch.queue.wake()
        assert fetch.asked == 0

        set_forward(REST_S)
        await turns()
        assert (fetch.asked, fetch.finished) == (1, [])

        fetch.enough = True
        fetch.queue.wake()
        set_forward(REST_S)
        await turns()
        assert (fetch.asked, fetch.finished) == (2, [True])

    run_adjustable(test())


def test_what_one_fetch_raises_keeps_none_of_the_others_waiting(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test() -> None:
        finished: list[bool] = []

        def broken() -> bool:
            raise RuntimeError("fault of this program")

        queue = FetchQueue()
        for is_enough in (broken, lambda: True):
            WaitingFetch(
                asyncio.get_running_loop(),
                60_000,
                is_enough=is_enough,
                finish=lambda: finished.append(True),
            ).stand_in(queue)
        queue.wake()

        assert finished == [True]
        assert "fault of this program" in caplog.text
        for waiting in queue:
            waiting.cancel()

    run_adjustable(test())


def test_fetch_of_many_partitions_is_answered_at_once_where_it_must() -> None:
    async def test() -> None:
        fetch = Fetch()
        fetch.queue.wake()

        fetch.queue.wake(forced=True)
        set_forward(REST_S)
        await turns()

        assert (fetch.asked, fetch.finished) == (0, [True])

    run_adjustable(test())
