"""Errors of classic groups as tables; what happens one after the other is in `scenarios`."""

from __future__ import annotations

from typing import Any

import pytest

from broker.groups.requests import DescribeGroups, LeaveGroup
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from tests.broker.groups.bench import (
    Bench,
    join,
    joined,
    lead,
    stable,
    sync,
)


def state_of(bench: Bench) -> str:
    (group,) = bench.answer(DescribeGroups(groups=("g",))).groups
    return str(group.group_state)


def error_of(answer: Any) -> ErrorCode:
    code = answer.code if isinstance(answer, KafkaError) else answer.error_code
    return ErrorCode(code)


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (join(group=""), ErrorCode.INVALID_GROUP_ID),
        (join(session_timeout_ms=5_999), ErrorCode.INVALID_SESSION_TIMEOUT),
        (join(session_timeout_ms=1_800_001), ErrorCode.INVALID_SESSION_TIMEOUT),
        (join("who"), ErrorCode.UNKNOWN_MEMBER_ID),
        (join(protocol_type=""), ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        (join(protocols=()), ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
    ids=["no group", "short session", "long session", "unknown", "no type", "no protocols"],
)
def test_join_wrong_inputs_to_an_unknown_group_create_nothing(
    bench: Bench, request_: Any, error: ErrorCode
) -> None:
    answer = bench.answer(request_)

    code = answer.code if isinstance(answer, KafkaError) else answer.error_code
    assert code is error
    assert bench.log == []
    assert bench.timers.keys() == {("offsets",)}


def test_sync_of_an_unknown_group() -> None:
    assert error_of(Bench().answer(sync("a", 1))) is ErrorCode.UNKNOWN_MEMBER_ID
    assert error_of(Bench().answer(sync("a", 1, ""))) is ErrorCode.INVALID_GROUP_ID


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"protocol_name": "range"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": "consumer"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"member_id": "who"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"group_instance_id": "other"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": "who", "group_instance_id": "i"}, ErrorCode.FENCED_INSTANCE_ID),
        ({"generation": 2}, ErrorCode.ILLEGAL_GENERATION),
        ({"generation": 0}, ErrorCode.ILLEGAL_GENERATION),
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_name": "roundrobin"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_wrong_sync(bench: Bench, fields: dict[str, Any], error: ErrorCode) -> None:
    (member,) = joined(bench, "a", group_instance_id="i")
    said = {"member_id": member, "generation": 1, "given": {}, "version": 5}
    said |= {"protocol_type": "consumer", "protocol_name": "range"}
    if len(fields) == 1 and fields.keys() & {"protocol_name", "protocol_type"}:
        left_out = {"protocol_name": "protocol_type", "protocol_type": "protocol_name"}
        if fields in ({"protocol_name": "range"}, {"protocol_type": "consumer"}):
            del said[left_out[next(iter(fields))]]

    assert error_of(bench.answer(lead(**(said | fields)))) is error
    assert state_of(bench) == "CompletingRebalance"


def test_resign_answers_parked(bench: Bench) -> None:
    members = stable(bench, *"abcde")
    joins = [bench.ask(join(each)) for each in members[:4]]
    members = stable(bench, *"xyz", group="h")
    second = [bench.ask(join(each, group="h")) for each in members]
    syncs = [bench.ask(sync(each, 2, "h")) for each in members[1:]]

    assert set(bench.shard.parked()) == {*joins, *syncs}
    assert all(each in bench.answers for each in second)


def test_leave_without_a_group() -> None:
    request = LeaveGroup(group_id="", members=())
    assert error_of(Bench().answer(request)) is ErrorCode.INVALID_GROUP_ID
