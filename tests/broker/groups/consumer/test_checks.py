"""Wrong input to ConsumerGroupHeartbeat, row by row and in order."""

from __future__ import annotations

from typing import Any

import pytest

from broker.groups.consumer.responses import ConsumerGroupHeartbeatResponse
from jbodlab.vocabulary.error_code import ErrorCode
from tests.broker.groups.bench import FakeTopics
from tests.broker.groups.consumer.rig import Rig

LATER: dict[str, Any] = {"rebalance_timeout_ms": -1, "subscribed_topic_names": None}


@pytest.fixture
def rig() -> Rig:
    rig = Rig(consumer_max_size=3)
    rig.join("a")
    rig.join("s", instance_id="i")
    return rig


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"group_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"group_id": " "}, ErrorCode.INVALID_REQUEST),
        ({"instance_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"rack_id": " "}, ErrorCode.INVALID_REQUEST),
        ({"rebalance_timeout_ms": -1}, ErrorCode.INVALID_REQUEST),
        ({"subscribed_topic_names": None}, ErrorCode.INVALID_REQUEST),
        ({"server_assignor": "sticky"}, ErrorCode.UNSUPPORTED_ASSIGNOR),
        ({"subscribed_topic_regex": "("}, ErrorCode.INVALID_REGULAR_EXPRESSION),
        # A construct that RE2 has not: it could take for ever.
        ({"subscribed_topic_regex": "(?=a)b"}, ErrorCode.INVALID_REGULAR_EXPRESSION),
        ({"instance_id": "i"}, ErrorCode.UNRELEASED_INSTANCE_ID),
        # The first row that applies counts.
        ({"server_assignor": "sticky", "rack_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"server_assignor": "sticky", "instance_id": "i"}, ErrorCode.UNSUPPORTED_ASSIGNOR),
    ],
)
def test_wrong_joins_are_refused(rig: Rig, fields: dict[str, Any], error: ErrorCode) -> None:
    before = len(rig.records)

    assert rig.join("n", **fields) == error
    assert len(rig.records) == before


def test_join_says_that_the_member_owns_nothing(rig: Rig) -> None:
    fields = {"rebalance_timeout_ms": 1000, "subscribed_topic_names": ("t",)}

    assert rig.beat("n", 0, None, **fields) == ErrorCode.INVALID_REQUEST
    assert rig.beat("n", 0, rig.ids(1), **fields) == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("member", "epoch", "fields", "error"),
    [
        ("", 5, {}, ErrorCode.INVALID_REQUEST),
        ("", -1, {"version": 0}, ErrorCode.INVALID_REQUEST),
        ("", 5, {"version": 0}, ErrorCode.INVALID_REQUEST),
        ("a", -2, {}, ErrorCode.INVALID_REQUEST),
        ("a", -3, {"instance_id": "i"}, ErrorCode.INVALID_REQUEST),
        ("a", 1, {"group_id": "other"}, ErrorCode.GROUP_ID_NOT_FOUND),
        ("a", -1, {"group_id": "other"}, ErrorCode.GROUP_ID_NOT_FOUND),
        ("n", 1, {}, ErrorCode.UNKNOWN_MEMBER_ID),
        ("n", -1, {}, ErrorCode.UNKNOWN_MEMBER_ID),
        ("s", 2, {"instance_id": "j"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ("s", -2, {"instance_id": "j"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ("a", 2, {"instance_id": "i"}, ErrorCode.FENCED_INSTANCE_ID),
        ("a", -1, {"instance_id": "i"}, ErrorCode.FENCED_INSTANCE_ID),
        ("a", 99, {}, ErrorCode.FENCED_MEMBER_EPOCH),
    ],
)
def test_wrong_heartbeats_are_refused(
    rig: Rig, member: str, epoch: int, fields: dict[str, Any], error: ErrorCode
) -> None:
    assert rig.beat(member, epoch, **fields) == error


def test_protocol_that_is_not_enabled_is_said_before_anything_else() -> None:
    rig = Rig(rebalance_protocols=("classic",))

    assert rig.join("", group_id="") == ErrorCode.UNSUPPORTED_VERSION


def test_old_version_is_given_a_member_id() -> None:
    rig = Rig()

    answer = rig.join("", version=0)

    assert answer.member_id == "1000000-1"
    assert rig.join("", version=1) == ErrorCode.INVALID_REQUEST


def test_full_group_takes_nobody_but_its_members(rig: Rig) -> None:
    rig.join("b")

    assert rig.join("n") == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert rig.beat("n", 3) == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert isinstance(rig.join("b"), ConsumerGroupHeartbeatResponse)
    rig.beat("s", -2, instance_id="i")
    assert isinstance(rig.join("s2", instance_id="i"), ConsumerGroupHeartbeatResponse)


def test_previous_epoch_counts_with_nothing_but_assigned_partitions() -> None:
    """The answer that brought the epoch may be lost."""
    rig = Rig(FakeTopics(t=4))
    rig.join("a")
    rig.join("b")
    rig.settle()
    epoch = rig.current("a").epoch
    rig.join("c")
    rig.settle()
    now = rig.current("a")
    assert now.previous_epoch == epoch < now.epoch

    assert rig.beat("a", epoch) == ErrorCode.FENCED_MEMBER_EPOCH
    assert rig.beat("a", epoch, rig.ids(0, 1, 2, 3)) == ErrorCode.FENCED_MEMBER_EPOCH
    assert rig.beat("a", epoch - 1, ()) == ErrorCode.FENCED_MEMBER_EPOCH
    answer = rig.beat("a", epoch, now.assigned)
    assert (answer.member_epoch, answer.assignment) == (now.epoch, now.assigned.keys())


def test_join_is_accepted_at_every_epoch(rig: Rig) -> None:
    rig.settle()
    has = rig.current("a")

    answer = rig.join("a")

    assert answer.member_epoch == has.epoch
    assert answer.assignment == has.assigned.keys()


def test_join_of_the_same_static_member_is_no_conflict(rig: Rig) -> None:
    """Whose answer was lost must not be thrown out for that (apache/kafka 23542)."""
    answer = rig.join("s", instance_id="i")

    assert answer.member_epoch == rig.current("s").epoch
