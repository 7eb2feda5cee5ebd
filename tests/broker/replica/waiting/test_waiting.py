from __future__ import annotations

import asyncio
import weakref

import pytest

from broker.replica.waiting.append_entries import AppendEntry
from broker.replica.waiting.waiting import (
    KEPT_TIMERS,
    AppendRequest,
    FetchQueue,
    TimeLimits,
    WaitingFetch,
)
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import TopicPartition
from tests.waiting import set_forward, turns

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


async def test_fetch_of_many_partitions_is_looked_at_once_for_many_events() -> None:
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


async def test_what_one_fetch_raises_keeps_none_of_the_others_waiting(
    caplog: pytest.LogCaptureFixture,
) -> None:
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
    for waiting in list(queue.waiting):
        waiting.cancel()


async def test_fetch_of_many_partitions_is_answered_at_once_where_it_must() -> None:
    fetch = Fetch()
    fetch.queue.wake()

    fetch.queue.wake(forced=True)
    set_forward(REST_S)
    await turns()

    assert (fetch.asked, fetch.finished) == (0, [True])


def waits(limits: TimeLimits, timeout_ms: int) -> AppendRequest:
    """Return a request that only its time-out will settle."""
    request = AppendRequest(
        asyncio.get_running_loop(), [AppendEntry(TopicPartition("t", 0), b"batch")]
    )
    limits.time_out_after(request, timeout_ms)
    return request


async def test_requests_with_one_time_out_end_each_at_its_own_time() -> None:
    limits = TimeLimits(asyncio.get_running_loop())
    requests = []
    for _ in range(3):
        requests.append(waits(limits, 1000))
        set_forward(0.4)
    requests.append(waits(limits, 100))
    await turns()
    assert [each.future.done() for each in requests] == [True, False, False, False]
    (result,) = requests[0].future.result()
    assert result.error_code is ErrorCode.REQUEST_TIMED_OUT

    set_forward(0.1)
    await turns()
    assert [each.future.done() for each in requests] == [True, False, False, True]
    set_forward(0.3)
    await turns()
    assert [each.future.done() for each in requests] == [True, True, False, True]
    set_forward(0.4)
    await turns()
    assert all(each.future.done() for each in requests)


async def test_a_request_behind_settled_ones_with_its_time_out_ends_at_its_own_time() -> None:
    limits = TimeLimits(asyncio.get_running_loop())
    waits(limits, 1000).refuse(0, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    set_forward(0.6)
    request = waits(limits, 1000)

    set_forward(0.6)
    await turns()
    assert not request.future.done()
    set_forward(0.4)
    await turns()
    assert request.future.done()


async def test_nothing_is_kept_of_requests_that_are_settled() -> None:
    limits = TimeLimits(asyncio.get_running_loop())
    kept = []
    for timeout_ms in (30_000, 30_000, 7, 0, *range(1_000, 1_020)):
        request = waits(limits, timeout_ms)
        kept.append(weakref.ref(request.future))
        request.refuse(0, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        del request
    settled = AppendRequest(asyncio.get_running_loop(), [])
    limits.time_out_after(settled, 30_000)
    await turns()
    assert not any(each() for each in kept)
    assert len(limits) <= KEPT_TIMERS
    set_forward(30)
    await turns()
    assert len(limits) == 0
