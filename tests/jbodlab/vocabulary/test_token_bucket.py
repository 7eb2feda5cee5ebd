from __future__ import annotations

import math

from jbodlab.vocabulary.token_bucket import TokenBucket


def test_a_bucket_begins_full_fills_steadily_and_keeps_no_more_than_its_size() -> None:
    bucket = TokenBucket.full(rate=2.0, kept_s=5.0, now_s=100.0)
    assert bucket.taken(10, 100.0).debt_s(100.0) == 0
    empty = bucket.taken(10, 100.0)
    assert empty.taken(4, 102.0).debt_s(102.0) == 0
    assert empty.taken(5, 102.0).debt_s(102.0) == 0.5
    assert empty.taken(11, 1_000.0).debt_s(1_000.0) == 0.5


def test_a_debt_is_paid_by_time_alone() -> None:
    bucket = TokenBucket.full(rate=2.0, kept_s=1.0, now_s=0.0).taken(12, 0.0)
    assert [bucket.debt_s(now_s) for now_s in (0.0, 1.0, 4.5, 5.0, 9.0)] == [5.0, 4.0, 0.5, 0, 0]


def test_taking_does_not_change_the_bucket_it_is_taken_from() -> None:
    bucket = TokenBucket.full(rate=1.0, kept_s=1.0, now_s=0.0)
    bucket.taken(5, 0.0)
    assert bucket.debt_s(0.0) == 0


def test_an_empty_bucket_at_a_rate_of_zero_is_waited_for_for_ever() -> None:
    assert TokenBucket.empty(rate=2.0, kept_s=1.0, now_s=3.0).left(3.25) == 0.5
    assert TokenBucket.empty(rate=0, kept_s=1.0, now_s=0.0).debt_s(5.0) == math.inf


def test_what_is_given_back_may_be_taken_again() -> None:
    bucket = TokenBucket.empty(rate=2.0, kept_s=1.0, now_s=0.0).taken(10, 0.0).taken(-6, 0.0)
    assert bucket.debt_s(0.0) == 2.0


def test_a_rounding_error_is_no_debt() -> None:
    assert TokenBucket.empty(rate=1.0, kept_s=1.0, now_s=0.0).taken(1e-9, 0.0).debt_s(0.0) == 0
