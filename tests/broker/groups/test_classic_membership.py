"""Heartbeats, sessions and leaving; failover in the middle of a rebalance."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from broker.groups.requests import DescribeGroups, LeaveGroup, LeavingMember
from broker.groups.responses import LeaveGroupResponse
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from tests.broker.groups.bench import (
    SETTINGS,
    Bench,
    beat,
    commit,
    join,
    joined,
    lead,
    leave,
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
        (lambda a: beat("who", 1), ErrorCode.UNKNOWN_MEMBER_ID),
        (lambda a: beat(a, 1, "j"), ErrorCode.UNKNOWN_MEMBER_ID),
        (lambda a: beat("who", 1, "i"), ErrorCode.FENCED_INSTANCE_ID),
        (lambda a: beat(a, 0), ErrorCode.ILLEGAL_GENERATION),
        (lambda a: beat(a, 2, "i"), ErrorCode.ILLEGAL_GENERATION),
        (lambda a: beat(a, 1, "i"), ErrorCode.NONE),
    ],
    ids=["member", "instance", "fenced", "older", "newer", "right"],
)
def test_heartbeat_of_a_member(request_: Any, error: ErrorCode) -> None:
    bench = Bench()
    (a,) = stable(bench, "a", group_instance_id="i")

    assert error_of(bench.answer(request_(a))) is error


def test_heartbeat_of_an_unknown_or_empty_group() -> None:
    bench = Bench()
    assert error_of(bench.answer(beat("a", 1))) is ErrorCode.UNKNOWN_MEMBER_ID
    bench.ask(commit(1))
    assert error_of(bench.answer(beat("a", 0))) is ErrorCode.UNKNOWN_MEMBER_ID


def test_session_that_heartbeats_never_ends_and_one_that_does_not_ends_in_time() -> None:
    """I18."""
    bench = Bench()
    a, b = stable(bench, "a", "b")

    for _ in range(5):
        bench.advance(9_999)
        assert error_of(bench.answer(beat(a, 1))) in (
            ErrorCode.NONE,
            ErrorCode.REBALANCE_IN_PROGRESS,
        )
        bench.ask(beat(b, 1))
    assert state_of(bench) == "Stable"
    for _ in range(2):
        bench.advance(5_000)
        bench.ask(beat(a, 1))

    assert error_of(bench.answer(beat(a, 1))) is ErrorCode.REBALANCE_IN_PROGRESS
    assert error_of(bench.answer(beat(b, 1))) is ErrorCode.UNKNOWN_MEMBER_ID


def test_heartbeat_of_a_completing_group_is_fine() -> None:
    bench = Bench()
    a, *_ = joined(bench, "a", "b")

    bench.advance(5_000)

    assert error_of(bench.answer(beat(a, 1))) is ErrorCode.NONE
    assert bench.timers["classic session", "g", a] == bench.now_ms + 10_000


def test_heartbeat_waits_for_what_is_pending() -> None:
    bench = Bench()
    (a,) = stable(bench, "a")
    bench.replicates = False
    bench.ask(commit(1, member_id=a, generation_id_or_member_epoch=1))

    ticket = bench.ask(beat(a, 1))
    assert ticket not in bench.answers
    bench.replicate()

    assert ticket in bench.answers


@pytest.mark.parametrize("request_", ["join", "sync"])
def test_session_of_a_member_whose_request_is_parked_does_not_end(request_: str) -> None:
    bench = Bench()
    if request_ == "join":
        a, b = stable(bench, "a", "b", session_timeout_ms=20_000)
        ticket = bench.ask(join(b, protocols=(*join().protocols, *join().protocols)))
        bench.advance(19_999)
        bench.ask(beat(a, 1))
        bench.advance(10_000)
    else:
        a, b = joined(bench, "a", "b", session_timeout_ms=20_000)
        ticket = bench.ask(sync(b, 1))
        bench.advance(19_999)
        bench.ask(beat(a, 1))
        bench.advance(10_000)
    assert ticket not in bench.answers
    assert ticket in bench.shard.parked()


def test_leave_of_an_unknown_group() -> None:
    assert [each.error_code for each in Bench().answer(leave("a", "b")).members] == [
        ErrorCode.UNKNOWN_MEMBER_ID
    ] * 2
    old = Bench().answer(leave("a", version=2))
    assert old == LeaveGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
    empty = LeaveGroup(group_id="", members=())
    assert error_of(Bench().answer(empty)) is ErrorCode.INVALID_GROUP_ID


def test_leave_of_many_members_at_once() -> None:
    bench = Bench()
    a, b, c = stable(bench, "a", "b", "c")

    answer = bench.answer(leave(a, "who", b))

    assert [each.error_code for each in answer.members] == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.NONE,
    ]
    assert answer.error_code is ErrorCode.NONE
    ticket = bench.ask(join(c))
    assert (bench.answers[ticket].leader, len(bench.answers[ticket].members)) == (c, 1)


def test_last_member_that_leaves_empties_the_group_with_a_record() -> None:
    bench = Bench()
    (a,) = stable(bench, "a")

    assert bench.answer(leave(a, version=2)).error_code is ErrorCode.NONE

    value = bench.log[-1][0].value
    assert (value.generation, value.members, value.protocol, value.leader) == (2, (), None, None)
    assert value.protocol_type == "consumer"
    assert state_of(bench) == "Empty"
    assert bench.timers.keys() == {("offsets",)}


@pytest.mark.parametrize("request_", ["join", "sync"])
def test_parked_request_of_a_member_that_leaves_hears_it(request_: str) -> None:
    bench = Bench()
    if request_ == "join":
        a, _ = stable(bench, "a", "b")
        ticket = bench.ask(join(a))
    else:
        _, a = joined(bench, "a", "b")
        ticket = bench.ask(sync(a, 1))

    bench.ask(leave(a))

    assert error_of(bench.answers[ticket]) is ErrorCode.UNKNOWN_MEMBER_ID


def test_member_that_leaves_a_preparing_group_may_complete_it() -> None:
    bench = Bench()
    a, b = stable(bench, "a", "b")
    ticket = bench.ask(join(a))

    bench.ask(leave(b))

    assert bench.answers[ticket].generation_id == 2


def test_administrator_removes_a_static_member_by_its_instance_id() -> None:
    bench = Bench()
    stable(bench, "a", group_instance_id="i")

    answer = bench.answer(leave("", group_instance_id="i"))
    again = bench.answer(leave("", group_instance_id="i"))

    assert answer.members[0].error_code is ErrorCode.NONE
    assert again.members[0].error_code is ErrorCode.UNKNOWN_MEMBER_ID
    assert state_of(bench) == "Empty"


def test_leaving_static_member_with_the_id_of_another() -> None:
    bench = Bench()
    stable(bench, "a", group_instance_id="i")
    request = LeaveGroup(group_id="g", members=(LeavingMember("who", "i"),))

    assert bench.answer(request).members[0].error_code is ErrorCode.FENCED_INSTANCE_ID


def test_end_of_the_last_session_is_written_again_when_the_log_takes_nothing() -> None:
    bench = Bench()
    stable(bench, "a")
    bench.refusal = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    bench.advance(10_000)
    assert state_of(bench) == "Stable"
    bench.refusal = None
    bench.advance(500)

    assert state_of(bench) == "Empty"


def test_member_that_cannot_leave_stays() -> None:
    bench = Bench()
    (a,) = stable(bench, "a")
    bench.refusal = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    assert error_of(bench.answer(leave(a))) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert error_of(bench.answer(beat(a, 1))) is ErrorCode.NONE


def test_failover_keeps_a_stable_generation() -> None:
    bench = Bench()
    a, b = stable(bench, "a", "b")

    after = bench.fail_over()

    assert error_of(after.answer(beat(b, 1))) is ErrorCode.NONE
    assert after.answer(sync(a, 1)).assignment == b"a"
    after.advance(9_999)
    assert state_of(after) == "Stable"
    after.advance(1)
    assert error_of(after.answer(beat(a, 1))) is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("when", ["preparing", "completing", "written"])
def test_failover_in_rebalance(when: str) -> None:
    bench = Bench()
    a, b = stable(bench, "a", "b")
    bench.replicates = False
    new = bench.ask(join(version=3))
    if when != "preparing":
        for each in (a, b):
            bench.ask(join(each))
        bench.replicate()
        bench.replicates = False
        member = bench.answers[new].member_id
    if when == "written":
        bench.ask(lead(a, 2, {a: b"x", b: b"y", member: b"z"}))

    lost, kept = bench.fail_over(keeps="committed"), bench.fail_over()

    assert error_of(lost.answer(beat(a, 1))) is ErrorCode.NONE
    assert lost.answer(sync(a, 1)).assignment == b"a"
    if when == "written":
        assert kept.answer(sync(member, 2)).assignment == b"z"
    else:
        assert error_of(kept.answer(beat(a, 2))) is ErrorCode.ILLEGAL_GENERATION
        assert kept.answer(sync(b, 1)).assignment == b"b"


def test_group_over_the_limit_rebalances_when_it_is_loaded() -> None:
    bench = Bench()
    a, b, c = stable(bench, "a", "b", "c")

    small = Bench(replace(SETTINGS, max_size=2), log=bench.log)

    assert state_of(small) == "PreparingRebalance"
    tickets = [small.ask(join(each)) for each in (a, b)]
    third = small.answer(join(c))
    small.advance(60_000)
    assert third.error_code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert {small.answers[each].generation_id for each in tickets} == {2}


def test_resign_answers_parked() -> None:
    bench = Bench()
    members = stable(bench, *"abcde")
    joins = [bench.ask(join(each)) for each in members[:4]]
    members = stable(bench, *"xyz", group="h")
    second = [bench.ask(join(each, group="h")) for each in members]
    syncs = [bench.ask(sync(each, 2, "h")) for each in members[1:]]

    assert set(bench.shard.parked()) == {*joins, *syncs}
    assert all(each in bench.answers for each in second)
