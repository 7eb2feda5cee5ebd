"""The account that holds throttled replicas to a rate."""

from __future__ import annotations

import pytest

from broker.following.quota import ByteQuota


class Clock:
    def __init__(self) -> None:
        self.ms = 0

    def __call__(self) -> int:
        return self.ms


@pytest.mark.parametrize("rate", [10_000, 100_000, 1_000_000, 50_000_000])
@pytest.mark.parametrize("answer", [1_000, 60_000, 1_048_576])
def test_the_rate_holds_whatever_the_size_of_the_answers(rate: int, answer: int) -> None:
    clock = Clock()
    quota = ByteQuota(clock, rate)
    duration_ms = max(30_000, answer * 100_000 // rate)
    sent = 0
    while clock.ms < duration_ms:
        if quota.is_exceeded:
            clock.ms += quota.wait_ms
        else:
            quota.record(answer)
            sent += answer
    assert sent == pytest.approx(rate * duration_ms / 1000, rel=0.1)


def test_what_was_not_used_for_long_makes_no_burst() -> None:
    clock = Clock()
    quota = ByteQuota(clock, 1_000)
    clock.ms = 3_600_000
    sent = 0
    while not quota.is_exceeded:
        quota.record(10)
        sent += 10
    assert sent <= 500


def test_a_rate_of_zero_stops_everything_and_no_rate_nothing() -> None:
    clock = Clock()
    quota = ByteQuota(clock, 0)
    clock.ms = 1_000_000
    assert quota.is_exceeded
    assert quota.wait_ms > 0
    quota.set_rate(2**63 - 1)
    quota.record(1 << 40)
    assert (quota.is_exceeded, quota.wait_ms) == (False, 0)


def test_a_new_rate_forgets_the_debts_of_the_old_one() -> None:
    clock = Clock()
    quota = ByteQuota(clock, 1)
    quota.record(1_000_000)
    quota.set_rate(1_000)
    clock.ms += 10
    assert not quota.is_exceeded
