"""Targets of large groups: computed beside the event loop while the group goes on."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from broker.groups.requests import DeleteGroups
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from tests.broker.groups.bench import FakeTopics
from tests.broker.groups.consumer.rig import GROUP, Rig


@pytest.fixture(autouse=True)
def _every_group_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.groups.consumer.target.LARGE_FROM", 1)


@pytest.fixture
def rig() -> Rig:
    """Member a has all partitions, and b has joined: a target for both is in work."""
    rig = Rig()
    assert rig.join("a").assignment == rig.ids(*range(12))
    assert rig.join("b").assignment == frozenset()
    assert len(rig.works) == 1
    return rig


def sizes(rig: Rig) -> dict[str, int]:
    """How many partitions each member is to have."""
    return {member_id: len(target) for member_id, target in rig.group().targets.items()}


def test_members_go_on_with_what_they_have_until_the_target_is_there(rig: Rig) -> None:
    assert rig.beat("a").member_epoch == 1
    assert rig.beat("b").member_epoch == 1
    assert len(rig.works) == 1
    assert sizes(rig) == {"a": 12}

    rig.work()

    assert sizes(rig) == {"a": 6, "b": 6}
    rig.settle()
    assert {rig.current(each).epoch for each in "ab"} == {2}
    assert not rig.works


def test_small_group_has_its_target_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.groups.consumer.target.LARGE_FROM", 15)
    rig = Rig()
    rig.join("a")

    rig.join("b")
    assert sizes(rig) == {"a": 6, "b": 6}
    rig.join("c")
    assert len(rig.works) == 1


def test_target_is_made_of_members_and_topics_as_they_were_when_the_work_began(rig: Rig) -> None:
    rig.join("c")
    rig.topics.grow("t", 30)
    assert len(rig.works) == 1

    rig.work()

    assert sizes(rig) == {"a": 6, "b": 6}
    assert rig.group().assignment_epoch == 2 < rig.group().epoch
    rig.beat("a")
    rig.work()
    assert sizes(rig) == {"a": 10, "b": 10, "c": 10}


def test_member_that_left_meanwhile_gets_nothing(rig: Rig) -> None:
    rig.beat("b", -1)

    rig.work()

    assert sizes(rig) == {"a": 6}
    rig.beat("a")
    rig.work()
    assert sizes(rig) == {"a": 12}


def test_static_member_that_came_back_meanwhile_under_another_id_keeps_its_place() -> None:
    rig = Rig()
    rig.join("a")
    rig.join("b", instance_id="i")
    rig.beat("b", -2, instance_id="i")
    rig.join("c", instance_id="i")

    rig.work()
    assert sizes(rig) == {"a": 12, "c": 0}

    rig.beat("a")
    rig.work()
    assert sizes(rig) == {"a": 6, "c": 6}


@pytest.mark.parametrize("is_there_again", [False, True])
def test_target_of_a_group_that_was_deleted_meanwhile_is_thrown_away(
    rig: Rig, is_there_again: bool
) -> None:
    for member_id in "ab":
        rig.beat(member_id, -1)
    (deleted,) = rig.answer(DeleteGroups(groups_names=(GROUP,))).results
    assert deleted.error_code is ErrorCode.NONE
    if is_there_again:
        rig.join("a")

    rig.work()

    if not is_there_again:
        rig.join("a")
    rig.beat("a", 0, (), subscribed_topic_names=("t",), rebalance_timeout_ms=30_000)
    assert sizes(rig) == {"a": 12}
    rig.join("b")
    rig.work()
    assert sizes(rig) == {"a": 6, "b": 6}


def _refuses(rig: Rig) -> None:
    rig.refusal = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    rig.work()
    rig.refusal = None


def _fails(rig: Rig) -> None:
    ((event, _),) = rig.works
    rig.works.clear()
    rig.carry_out(rig.shard.worked(event, None, rig.now_ms))


@pytest.mark.parametrize("what_happens", [_refuses, _fails])
def test_target_that_was_not_written_is_computed_again(
    rig: Rig, what_happens: Callable[[Rig], None]
) -> None:
    what_happens(rig)
    assert sizes(rig) == {"a": 12}

    rig.beat("a")
    rig.work()
    assert sizes(rig) == {"a": 6, "b": 6}


def test_next_leader_computes_anew(rig: Rig) -> None:
    rig.works.clear()

    rig.load()
    rig.beat("a")
    rig.work()

    assert sizes(rig) == {"a": 6, "b": 6}


def test_classic_member_is_not_told_to_join_before_there_is_something_new() -> None:
    rig = Rig()
    rig.join("a")
    member = rig.classic_join(rig.classic_join().member_id)
    rig.classic_sync(member.member_id, member.generation_id)

    assert rig.classic_beat(member.member_id, member.generation_id) is ErrorCode.NONE
    rig.work()
    told = rig.classic_beat(member.member_id, member.generation_id)
    assert told is ErrorCode.REBALANCE_IN_PROGRESS


def test_interval_between_two_targets_counts_from_the_result() -> None:
    rig = Rig(FakeTopics(t=12), consumer_assignment_interval_ms=1_000)
    rig.join("a")
    rig.advance(1_000)
    rig.join("b")
    rig.advance(700)
    rig.work()
    rig.join("c")

    rig.advance(700)
    rig.beat("c")
    assert not rig.works
    rig.advance(700)
    rig.beat("c")
    assert len(rig.works) == 1


def test_result_that_nobody_waits_for_changes_nothing(rig: Rig) -> None:
    ((event, run),) = rig.works
    rig.work()
    rig.join("c")

    rig.carry_out(rig.shard.worked(event, run(), rig.now_ms))

    rig.beat("a")
    assert len(rig.works) == 1
    assert sizes(rig) == {"a": 6, "b": 6}
