"""Effects of one heartbeat, row by row: records, answer."""

from __future__ import annotations

import pytest

from broker.groups.consumer.group import MemberState
from broker.groups.consumer.responses import ConsumerGroupHeartbeatResponse
from jbodlab.vocabulary.error_code import ErrorCode
from tests.broker.groups.bench import FakeTopics
from tests.broker.groups.consumer.rig import REBALANCE_MS, Rig


def written(rig: Rig) -> list[str]:
    """Return type and member of the records of the last decision, `-` before a tombstone."""
    return [
        ("-" if value is None else "") + str(key.RECORD_TYPE) + getattr(key, "member_id", "")
        for key, value in rig.last.records
    ]


@pytest.fixture
def rig() -> Rig:
    """Two members that have what they shall have, six partitions each."""
    rig = Rig()
    rig.join("a")
    rig.join("b")
    rig.settle()
    assert {len(rig.current(each).assigned) for each in "ab"} == {6}
    return rig


def test_first_member_gets_everything_at_once() -> None:
    rig = Rig()

    answer = rig.join("a")

    assert written(rig) == ["5a", "3", "7a", "6", "8a"]
    assert answer == ConsumerGroupHeartbeatResponse(
        member_id="a",
        member_epoch=1,
        heartbeat_interval_ms=5_000,
        assignment=rig.ids(*range(12)),
    )


def test_second_member_waits_for_what_the_first_holds() -> None:
    rig = Rig()
    rig.join("a")

    answer = rig.join("b")

    assert written(rig) == ["5b", "3", "7a", "7b", "6", "8b"]
    assert (answer.member_epoch, answer.assignment) == (2, frozenset())
    assert rig.current("b").state == MemberState.UNRELEASED


def test_partition_changes_hands_in_three_steps() -> None:
    rig = Rig()
    rig.join("a")
    rig.join("b")

    told = rig.beat("a")
    assert (told.member_epoch, len(told.assignment)) == (1, 6)
    assert rig.current("a").state == MemberState.UNREVOKED
    assert rig.beat("b").assignment is None

    confirmed = rig.beat("a", owned=told.assignment)
    assert (confirmed.member_epoch, confirmed.assignment) == (2, None)

    assert rig.beat("b").assignment == rig.ids(*range(12)) - told.assignment
    assert rig.current("b").state == MemberState.STABLE


def test_heartbeat_without_news_writes_nothing(rig: Rig) -> None:
    answer = rig.beat("a")

    assert written(rig) == []
    assert answer.assignment is None
    assert answer.member_epoch == rig.group().epoch


def test_full_request_is_told_everything(rig: Rig) -> None:
    has = rig.current("a").assigned

    answer = rig.beat(
        "a", owned=has, rebalance_timeout_ms=REBALANCE_MS, subscribed_topic_names=("t",)
    )

    assert written(rig) == []
    assert answer.assignment == has.keys()


def test_known_member_that_joins_again_is_told_what_it_has(rig: Rig) -> None:
    has = rig.current("a").assigned

    answer = rig.join("a")

    assert written(rig) == []
    assert answer.assignment == has.keys()


@pytest.mark.parametrize(
    ("fields", "records"),
    [
        ({"rebalance_timeout_ms": 7}, ["5a"]),
        ({"rack_id": "x"}, ["5a"]),
        ({"server_assignor": "range"}, ["5a"]),
        ({"client_host": "/5.6.7.8"}, ["5a"]),
        ({"subscribed_topic_names": ("t",)}, []),
        ({"subscribed_topic_names": ("t", "unknown")}, ["5a", "3", "6", "8a"]),
    ],
)
def test_what_is_new_about_a_member_is_written(
    rig: Rig, fields: dict[str, object], records: list[str]
) -> None:
    rig.beat("a", **fields)

    assert written(rig) == records
    rig.beat("a", **fields)
    assert written(rig) == []


def test_names_are_kept_sorted_and_once() -> None:
    rig = Rig()
    rig.join("a", "t", "b", "t")

    assert rig.group().members["a"].subscribed_topic_names == ("b", "t")


def test_topic_that_is_no_longer_subscribed_is_given_up_at_once() -> None:
    rig = Rig(FakeTopics(t=2, u=2))
    rig.join("a", "t", "u")

    answer = rig.beat("a", subscribed_topic_names=("t",))

    assert answer.assignment == rig.ids(0, 1)
    assert rig.current("a").pending_revocation.keys() == rig.ids(0, 1, topic="u")


def test_unsubscribed_topic_does_not_wait_for_the_next_target() -> None:
    rig = Rig(FakeTopics(t=2, u=2), consumer_assignment_interval_ms=1_000)
    rig.join("a", "t", "u")

    assert rig.beat("a", subscribed_topic_names=("t",)).assignment == rig.ids(0, 1)
    assert rig.current("a").epoch == rig.group().assignment_epoch


def test_changed_topic_is_found_at_the_next_heartbeat_of_any_member(rig: Rig) -> None:
    rig.topics.grow("t", 14)

    rig.beat("b")

    assert written(rig)[0] == "3"
    rig.settle()
    assert sorted(len(rig.current(each).assigned) for each in "ab") == [7, 7]


def test_change_of_other_topics_concerns_nobody(rig: Rig) -> None:
    rig.topics.create("other", 3)

    rig.beat("a")

    assert written(rig) == []


def test_deleted_topic_is_taken_from_its_members(rig: Rig) -> None:
    rig.topics.delete("t")

    rig.settle()

    assert not rig.current("a").assigned


def test_targets_are_not_computed_more_often_than_the_interval() -> None:
    rig = Rig(consumer_assignment_interval_ms=1_000)
    rig.join("a")
    rig.join("b")
    assert "6" not in written(rig)
    assert rig.current("b").epoch == 1

    rig.advance(999)
    rig.beat("a")
    assert written(rig) == []

    rig.advance(1)
    rig.beat("a")
    assert written(rig) == ["7a", "7b", "6", "8a"]


def test_clock_that_was_set_back_does_not_stop_a_group() -> None:
    rig = Rig(consumer_assignment_interval_ms=1_000)
    rig.join("a")
    rig.now_ms -= 500_000
    rig.join("b")

    assert "6" in written(rig)


def test_most_wanted_assignor_is_used() -> None:
    rig = Rig(FakeTopics(t=3, u=3))
    rig.join("a", "t", "u", server_assignor="range")
    rig.join("b", "t", "u", server_assignor="uniform")
    rig.join("c", "other", server_assignor="range")
    rig.settle()

    assert rig.current("a").assigned.keys() == rig.ids(0, 1) | rig.ids(0, 1, topic="u")


def test_member_that_leaves_is_forgotten_with_its_timers(rig: Rig) -> None:
    epoch = rig.group().epoch

    answer = rig.beat("a", -1)

    assert written(rig) == ["-8a", "-7a", "-5a", "3"]
    assert (answer.member_epoch, answer.heartbeat_interval_ms) == (-1, 0)
    assert rig.group().epoch == epoch + 1
    assert not [key for key in rig.timers if "a" in key]
    assert rig.beat("b").assignment == rig.ids(*range(12))


def test_last_member_leaves_an_empty_group_that_stays(rig: Rig) -> None:
    rig.beat("a", -1)
    rig.beat("b", -1)

    assert not rig.group().members
    assert rig.join("c").assignment == rig.ids(*range(12))


def test_nothing_is_remembered_of_a_group_without_members() -> None:
    """Tools make a group each time they are called: nobody would ever forget these."""
    rig = Rig()
    rig.join("a", subscribed_topic_regex="t.*")
    rig.advance(1)
    rig.beat("a")

    rig.beat("a", -1)

    assert rig.shard._state.soft == {}
    assert rig.timers.keys() == {("offsets",)}


def test_static_member_that_leaves_for_a_while_keeps_its_place() -> None:
    rig = Rig()
    rig.join("a", instance_id="i")
    rig.join("b")
    rig.settle()
    had, epoch = rig.current("a").assigned, rig.group().epoch

    answer = rig.beat("a", -2, instance_id="i")

    assert written(rig) == ["8a"]
    assert answer.member_epoch == -2
    assert rig.current("a").epoch == -2
    assert rig.current("a").assigned == had
    assert rig.group().epoch == epoch
    assert rig.beat("b").assignment is None
    # Once more: the answer was lost.
    assert rig.beat("a", -2, instance_id="i").member_epoch == -2
    assert written(rig) == []
    assert rig.join("a", instance_id="i").assignment == had.keys()
    assert written(rig) == ["8a"]


def test_static_member_comes_back_under_another_id() -> None:
    rig = Rig()
    rig.join("a", instance_id="i")
    rig.join("b")
    rig.settle()
    had, epoch = rig.current("a").assigned, rig.group().epoch
    rig.beat("a", -2, instance_id="i")

    answer = rig.join("a2", instance_id="i")

    assert written(rig) == ["-8a", "-7a", "-5a", "5a2", "7a2", "8a2", "8a2"]
    assert answer.assignment == had.keys()
    assert rig.group().epoch == epoch
    assert rig.beat("a", -1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert rig.beat("a", epoch, instance_id="i") == ErrorCode.FENCED_INSTANCE_ID


def test_static_member_that_leaves_gives_up_what_it_was_to_give_up() -> None:
    rig = Rig()
    rig.join("a", instance_id="i")
    rig.join("b")
    rig.beat("a")
    assert rig.current("a").state == MemberState.UNREVOKED

    rig.beat("a", -2, instance_id="i")

    assert len(rig.beat("b").assignment) == 6


def test_null_is_no_confirmation() -> None:
    rig = Rig()
    rig.join("a")
    rig.join("b")
    rig.beat("a")

    rig.beat("a", owned=None)

    assert rig.current("a").state == MemberState.UNREVOKED


def test_unknown_topics_give_nothing_until_they_exist() -> None:
    rig = Rig(FakeTopics())
    assert rig.join("a", "later").assignment == frozenset()

    rig.topics.create("later", 2)

    assert rig.beat("a").assignment == rig.ids(0, 1, topic="later")
