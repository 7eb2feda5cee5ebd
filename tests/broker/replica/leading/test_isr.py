from __future__ import annotations

from broker.replica.leading import isr
from broker.replica.leading.isr import FollowerState
from jbodlab.vocabulary.ids import BrokerId

TWO, THREE = BrokerId(2), BrokerId(3)


def test_follower_at_the_leaders_end_is_caught_up_now() -> None:
    state = isr.after_fetch(
        FollowerState(), fetch_offset=10, leader_end=10, now_ms=500, broker_epoch=7
    )

    assert state == FollowerState(
        end_offset=10,
        caught_up_ms=500,
        last_fetch_ms=500,
        last_fetch_leader_end=10,
        broker_epoch=7,
    )


def test_follower_of_a_busy_leader_is_caught_up_to_its_previous_fetch() -> None:
    before = FollowerState(end_offset=5, last_fetch_ms=400, last_fetch_leader_end=10)

    state = isr.after_fetch(before, fetch_offset=10, leader_end=20, now_ms=500, broker_epoch=7)

    assert state.caught_up_ms == 400


def test_follower_that_falls_behind_keeps_its_old_time() -> None:
    before = FollowerState(
        end_offset=5, caught_up_ms=100, last_fetch_ms=400, last_fetch_leader_end=10
    )

    state = isr.after_fetch(before, fetch_offset=9, leader_end=20, now_ms=500, broker_epoch=7)

    assert state.caught_up_ms == 100


def test_member_at_the_end_never_lags_however_long_it_was_silent() -> None:
    followers = {TWO: FollowerState(end_offset=10), THREE: FollowerState(end_offset=9)}

    out = isr.lagging(
        (BrokerId(1), TWO, THREE), followers, leader_end=10, now_ms=40_000, lag_time_max_ms=30_000
    )

    assert out == {THREE}


def test_member_behind_the_end_has_the_whole_lag_time() -> None:
    followers = {TWO: FollowerState(end_offset=9, caught_up_ms=10_000)}

    def out(now_ms: int) -> frozenset[BrokerId]:
        return isr.lagging(
            (BrokerId(1), TWO), followers, leader_end=10, now_ms=now_ms, lag_time_max_ms=30_000
        )

    assert out(40_000) == frozenset()
    assert out(40_001) == {TWO}


def test_high_watermark_is_the_smallest_end_of_those_waited_for() -> None:
    followers = {TWO: FollowerState(end_offset=8), THREE: FollowerState(end_offset=3)}

    def reached(*waits_for: BrokerId) -> int:
        return isr.high_watermark(2, leader_end=10, followers=followers, waits_for=waits_for)

    assert reached(TWO, THREE) == 3
    assert reached(TWO) == 8
    assert reached() == 10


def test_high_watermark_never_decreases() -> None:
    followers = {TWO: FollowerState(end_offset=3)}

    assert isr.high_watermark(5, leader_end=10, followers=followers, waits_for=(TWO,)) == 5


def test_high_watermark_stands_for_a_member_that_did_not_fetch_yet() -> None:
    followers = {TWO: FollowerState()}

    assert isr.high_watermark(5, leader_end=10, followers=followers, waits_for=(TWO,)) == 5


def test_follower_joins_at_high_watermark_and_epoch_start_with_its_registered_epoch() -> None:
    def may_join(end_offset: int = 10, broker_epoch: int = 7) -> bool:
        return isr.may_join(
            FollowerState(end_offset=end_offset, broker_epoch=broker_epoch),
            high_watermark=8,
            leader_epoch_start=9,
            registered_epoch=7,
        )

    assert may_join()
    assert may_join(broker_epoch=-1)
    assert not may_join(broker_epoch=6)
    assert not may_join(end_offset=8)
    assert may_join(end_offset=9)


def test_minimum_isr_is_never_more_than_there_are_replicas() -> None:
    assert isr.effective_min_isr(2, 1) == 1
    assert isr.effective_min_isr(2, 3) == 2
