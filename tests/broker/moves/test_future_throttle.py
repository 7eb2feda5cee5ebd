"""The rate of moves holds in every second, whatever the threads do."""

from __future__ import annotations

import threading
import time

from broker.moves.future_throttle import CHUNK_BYTES, MoveThrottle


class Simulated:
    """A throttle in simulated time, in which each wait of a thread ends late by so much."""

    def __init__(self, rate: int | None, late_s: float = 0.0) -> None:
        self.now_s = 0.0
        self.late_s = late_s
        self.waited = 0
        self.throttle = MoveThrottle(rate, clock=lambda: self.now_s, lock=threading.Lock())

    def is_set(self) -> bool:
        return False

    def set(self) -> None:
        raise AssertionError

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.now_s += timeout + self.late_s
        self.waited += 1
        return False

    def copied_until(self, end_s: float) -> int:
        total = 0
        while self.now_s < end_s:
            total += self.throttle.next_chunk(self)
        return total


def test_the_rate_holds_within_a_tenth() -> None:
    for rate in (1_000, 1_000_000, 500_000_000):
        for late_s in (0.0, 0.01, 0.04):
            copied = Simulated(rate, late_s).copied_until(10.0)
            assert 0.9 * 10 * rate < copied < 1.1 * 10 * rate, (rate, late_s)


def test_a_pause_is_not_made_up_for() -> None:
    thread = Simulated(1_000_000)
    thread.throttle.next_chunk(thread)
    # Nothing was copied for a minute.
    thread.now_s = 60.0
    copied = 0
    while not thread.waited:
        copied += thread.throttle.next_chunk(thread)

    assert copied <= 0.16 * 1_000_000


def test_without_a_rate_nothing_waits() -> None:
    thread = Simulated(None)
    assert [thread.throttle.next_chunk(thread) for _ in range(3)] == [CHUNK_BYTES] * 3
    assert not thread.waited


def test_a_new_rate_counts_for_a_thread_that_waits() -> None:
    throttle = MoveThrottle(0, clock=time.monotonic, lock=threading.Lock())
    got: list[int] = []
    thread = threading.Thread(target=lambda: got.append(throttle.next_chunk(threading.Event())))
    thread.start()

    throttle.set_rate(None)

    thread.join(5)
    assert got == [CHUNK_BYTES]


def test_a_thread_that_is_told_to_stop_does_not_wait() -> None:
    stop = threading.Event()
    stop.set()

    assert MoveThrottle(0, clock=time.monotonic, lock=threading.Lock()).next_chunk(stop) == 0


def test_what_a_chunk_came_short_of_may_be_copied_by_another() -> None:
    now = [0.0]
    throttle = MoveThrottle(20_000_000, clock=lambda: now[0], lock=threading.Lock())
    stop = threading.Event()
    for _ in range(50):
        chunk = throttle.next_chunk(stop)
        throttle.came_short(chunk - 10)
        now[0] += 0.001

    assert throttle.copied_bytes == 500
