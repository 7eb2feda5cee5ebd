"""Errors of classic groups as tables; what happens one after the other is in `scenarios`."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from broker.groups.requests import DescribeGroups, JoinProtocol, LeaveGroup
from broker.groups.responses import JoinGroupResponse
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from tests.broker.groups.bench import (
    SETTINGS,
    Bench,
    beat,
    join,
    joined,
    lead,
    stable,
    subscription,
    sync,
)

ROUND = JoinProtocol("roundrobin", subscription("t"))


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


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": (ROUND,)}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"member_id": "who"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": "who", "group_instance_id": "i"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
    ids=["type", "protocols", "member", "instance"],
)
@pytest.mark.parametrize("phase", ["Stable", "CompletingRebalance", "PreparingRebalance"])
def test_join_wrong_inputs_to_a_group_with_members(
    bench: Bench, fields: dict[str, Any], error: ErrorCode, phase: str
) -> None:
    if phase == "CompletingRebalance":
        joined(bench, "a")
    else:
        stable(bench, "a", "b")
        if phase == "PreparingRebalance":
            bench.ask(join(version=3))
    assert state_of(bench) == phase

    assert bench.answer(join(**fields)).error_code is error
    assert state_of(bench) == phase


@pytest.mark.parametrize("phase", ["Preparing", "Completing", "Stable"])
def test_group_max_size(phase: str) -> None:
    bench = Bench(replace(SETTINGS, max_size=2))
    if phase == "Preparing":
        bench.ask(join(version=3))
        bench.ask(join(version=3))
    elif phase == "Completing":
        joined(bench, "a", "b")
    else:
        stable(bench, "a", "b")

    answer = bench.answer(join(version=3))

    assert answer == JoinGroupResponse(error_code=ErrorCode.GROUP_MAX_SIZE_REACHED)


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


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (lambda a: beat("who", 1), ErrorCode.UNKNOWN_MEMBER_ID),
        (lambda a: beat(a, 1, "j"), ErrorCode.UNKNOWN_MEMBER_ID),
        (lambda a: beat("who", 1, "i"), ErrorCode.FENCED_INSTANCE_ID),
        (lambda a: beat(a, 0), ErrorCode.ILLEGAL_GENERATION),
        (lambda a: beat(a, 2, "i"), ErrorCode.ILLEGAL_GENERATION),
        (lambda a: beat(a, 1, "i"), ErrorCode.NONE),
    ],
    ids=["member", "instance", "fenced", "older", "newer", "right"],
)
def test_heartbeat_of_a_member(bench: Bench, request_: Any, error: ErrorCode) -> None:
    (a,) = stable(bench, "a", group_instance_id="i")

    assert error_of(bench.answer(request_(a))) is error


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
