from __future__ import annotations

import pytest

from broker.groups.consumer.group import MemberState
from broker.groups.requests import ConsumerGroupHeartbeat, OwnedPartitions
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from tests.broker.groups.consumer.rig import REBALANCE_MS, Rig


def test_silent_member_is_removed_at_the_end_of_its_session(rig: Rig) -> None:
    rig.join("a")
    rig.join("b")
    rig.advance(44_999)
    rig.beat("b")
    assert "a" in rig.group().members

    rig.advance(1)

    assert rig.group().members.keys() == {"b"}
    assert rig.beat("a", 1) == ErrorCode.UNKNOWN_MEMBER_ID


def test_heartbeats_begin_the_session_anew(rig: Rig) -> None:
    rig.join("a")
    for _ in range(5):
        rig.advance(40_000)
        rig.beat("a")

    assert "a" in rig.group().members


def test_static_member_that_is_away_is_removed_at_the_end_of_its_session(rig: Rig) -> None:
    rig.join("a", instance_id="i")
    rig.beat("a", -2, instance_id="i")

    rig.advance(45_000)

    assert not rig.group().members


def test_member_that_confirms_nothing_is_removed_at_its_rebalance_timeout(rig: Rig) -> None:
    rig.join("a")
    rig.join("b")
    rig.beat("a")
    rig.advance(REBALANCE_MS - 1)
    rig.beat("a")
    rig.beat("b")
    assert rig.current("b").state == MemberState.UNRELEASED

    rig.advance(1)

    assert rig.group().members.keys() == {"b"}
    assert rig.beat("b").assignment == rig.ids(*range(12))


def test_confirmation_ends_the_rebalance_timer(rig: Rig) -> None:
    rig.join("a")
    rig.join("b")
    told = rig.beat("a").assignment
    timer = ("consumer", "rebalance", "g", "a")
    assert timer in rig.timers
    rig.beat("a", owned=told)
    assert timer not in rig.timers
    assert not rig.shard.timer(timer, rig.now_ms).records

    for _ in range(3):
        rig.advance(20_000)
        rig.beat("a")
        rig.beat("b")

    assert rig.group().members.keys() == {"a", "b"}


def test_second_order_to_give_up_begins_the_time_anew(rig: Rig) -> None:
    rig.join("a")
    rig.join("b")
    told = rig.beat("a").assignment
    rig.advance(20_000)
    rig.join("c")
    rig.beat("a", owned=told)
    assert rig.current("a").state == MemberState.UNREVOKED

    rig.advance(20_000)
    assert "a" in rig.group().members
    rig.advance(10_000)
    assert "a" not in rig.group().members


@pytest.fixture
def ordered() -> Rig:
    """Return a group in which `a` is to give partitions up, which is not committed."""
    rig = Rig(consumer_session_timeout_ms=10 * REBALANCE_MS)
    rig.join("a")
    rig.join("b")
    rig.replicates = False
    ask(rig)
    assert rig.current("a").state == MemberState.UNREVOKED
    return rig


def ask(rig: Rig, owned: tuple[OwnedPartitions, ...] | None = None) -> None:
    """Send a heartbeat of `a`, whose answer may have to wait."""
    epoch = rig.current("a").epoch
    who = {"group_id": "g", "member_id": "a", "client_id": "c", "client_host": "/1.2.3.4"}
    rig.ask(ConsumerGroupHeartbeat(**who, member_epoch=epoch, topic_partitions=owned))


@pytest.mark.parametrize("waits_ms", [1, REBALANCE_MS - 1, REBALANCE_MS + 1])
def test_time_to_give_up_begins_when_the_order_is_committed(ordered: Rig, waits_ms: int) -> None:
    ordered.commit_in_time_failed()
    ordered.advance(waits_ms)
    ordered.commit_in_time_failed()
    assert "a" in ordered.group().members

    ordered.replicates = True
    ordered.replicate()

    ordered.advance(REBALANCE_MS - 1)
    assert "a" in ordered.group().members
    ordered.advance(1)
    assert "a" not in ordered.group().members


def test_order_that_is_confirmed_before_it_is_committed_begins_no_time(ordered: Rig) -> None:
    ask(ordered, ())

    ordered.replicates = True
    ordered.replicate()

    assert ("consumer", "rebalance", "g", "a") not in ordered.timers


def test_order_of_a_former_coordinator_that_is_committed_late_gives_the_whole_time(
    ordered: Rig,
) -> None:
    ordered.load()
    ordered.advance(REBALANCE_MS + 1)
    assert "a" in ordered.group().members

    ordered.replicates = True
    ordered.replicate()

    ordered.advance(REBALANCE_MS - 1)
    assert "a" in ordered.group().members
    ordered.advance(1)
    assert "a" not in ordered.group().members


def test_sessions_begin_anew_after_a_load(rig: Rig) -> None:
    rig.join("a")
    rig.advance(40_000)

    rig.load()

    rig.advance(44_999)
    assert "a" in rig.group().members
    rig.advance(1)
    assert not rig.group().members


def test_rebalance_timer_begins_anew_after_a_load(rig: Rig) -> None:
    rig.join("a")
    rig.join("b")
    rig.beat("a")

    rig.load()

    rig.advance(REBALANCE_MS)
    assert rig.group().members.keys() == {"b"}


def test_timer_that_could_not_be_written_is_tried_again(rig: Rig) -> None:
    rig.join("a")
    key = ("consumer", "session", "g", "a")
    decision = rig.shard.timer(key, rig.now_ms)

    again = rig.shard.refused(
        decision.event, KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE), rig.now_ms
    )

    assert [(timer.key, timer.at_ms) for timer in again.timers] == [(key, rig.now_ms + 500)]


def test_session_timeout_and_interval_of_the_group_hold_within_the_bounds(rig: Rig) -> None:
    rig.configs["g"] = {
        "consumer.session.timeout.ms": "50000",
        "consumer.heartbeat.interval.ms": "99000",
    }

    assert rig.join("a").heartbeat_interval_ms == 15_000
    rig.advance(49_999)
    assert rig.group().members
    rig.advance(1)
    assert not rig.group().members


def test_timers_of_groups_that_are_gone_do_nothing(rig: Rig) -> None:
    for kind in ("session", "rebalance", "classic", "regex"):
        assert not rig.shard.timer(("consumer", kind, "g", "a"), 1).records
