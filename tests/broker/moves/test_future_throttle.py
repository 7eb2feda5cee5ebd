"""The rate of moves holds in every second, whatever the threads do."""

from __future__ import annotations

import threading
import time

from broker.moves.future_throttle import MoveThrottle
from jbodlab.runtime.pace import CHUNK_BYTES, Pace


def copied_in(pace: Pace, seconds: float, *, late_s: float = 0.0) -> int:
    """Copy at this pace in simulated time; each wait ends late by so much."""
    now = total = 0.0
    while True:
        wait = pace.wait_s(now)
        if wait > 0:
            now += wait + late_s
        if now >= seconds:
            return int(total)
        size = pace.chunk_bytes
        pace.took(size, now)
        total += size


def test_the_rate_holds_within_a_tenth() -> None:
    for rate in (1_000, 1_000_000, 500_000_000):
        for late_s in (0.0, 0.01, 0.04):
            copied = copied_in(Pace(rate), 10.0, late_s=late_s)
            assert 0.9 * 10 * rate < copied < 1.1 * 10 * rate, (rate, late_s)


def test_a_pause_is_not_made_up_for() -> None:
    pace = Pace(1_000_000)
    pace.took(pace.chunk_bytes, 0.0)
    # Nothing was copied for a minute.
    now, copied = 60.0, 0
    while pace.wait_s(now) <= 0:
        pace.took(pace.chunk_bytes, now)
        copied += pace.chunk_bytes

    assert copied <= 0.11 * 1_000_000


def test_without_a_rate_nothing_waits_and_at_zero_everything() -> None:
    assert Pace(None).wait_s(0.0) == 0.0
    assert Pace(None).chunk_bytes == CHUNK_BYTES
    assert Pace(0).wait_s(5.0) == float("inf")


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
