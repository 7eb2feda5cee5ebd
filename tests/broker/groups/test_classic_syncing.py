"""SyncGroup, and the record that makes a generation Stable."""

from __future__ import annotations

from typing import Any

import pytest

from broker.groups.requests import DescribeGroups
from broker.groups.responses import SyncGroupResponse
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from tests.broker.groups.bench import Bench, beat, commit, fetched, join, joined, lead, stable, sync


def state_of(bench: Bench) -> str:
    (group,) = bench.answer(DescribeGroups(groups=("g",))).groups
    return str(group.group_state)


def error_of(answer: Any) -> ErrorCode:
    code = answer.code if isinstance(answer, KafkaError) else answer.error_code
    return ErrorCode(code)


def test_sync_of_an_unknown_group() -> None:
    assert error_of(Bench().answer(sync("a", 1))) is ErrorCode.UNKNOWN_MEMBER_ID
    assert error_of(Bench().answer(sync("a", 1, ""))) is ErrorCode.INVALID_GROUP_ID


def test_sync_of_a_group_without_members() -> None:
    bench = Bench()
    bench.ask(commit(1))

    assert error_of(bench.answer(sync("a", 1, version=5))) is ErrorCode.UNKNOWN_MEMBER_ID


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
def test_wrong_sync(fields: dict[str, Any], error: ErrorCode) -> None:
    bench = Bench()
    (member,) = joined(bench, "a", group_instance_id="i")
    said = {"member_id": member, "generation": 1, "given": {}, "version": 5}
    said |= {"protocol_type": "consumer", "protocol_name": "range"}
    if len(fields) == 1 and fields.keys() & {"protocol_name", "protocol_type"}:
        left_out = {"protocol_name": "protocol_type", "protocol_type": "protocol_name"}
        if fields in ({"protocol_name": "range"}, {"protocol_type": "consumer"}):
            del said[left_out[next(iter(fields))]]

    assert error_of(bench.answer(lead(**(said | fields)))) is error
    assert state_of(bench) == "CompletingRebalance"


def test_follower_waits_for_the_leader() -> None:
    bench = Bench()
    a, b = joined(bench, "a", "b")

    follower = bench.ask(sync(b, 1))
    assert follower not in bench.answers
    leader = bench.ask(lead(a, 1, {a: b"A", b: b"B"}))

    assert bench.answers[leader] == SyncGroupResponse(
        protocol_type="consumer", protocol_name="range", assignment=b"A"
    )
    assert bench.answers[follower].assignment == b"B"
    assert state_of(bench) == "Stable"


def test_sync_missing_member_gets_nothing_and_invented_one_is_ignored() -> None:
    bench = Bench()
    a, b = joined(bench, "a", "b")
    follower = bench.ask(sync(b, 1))

    bench.ask(lead(a, 1, {a: b"A", "invented": b"X"}))

    assert bench.answers[follower].assignment == b""
    (stored,) = [record.value.members for record, _ in bench.log[1:]]
    assert [member.member_id for member in stored] == [a, b]


def test_assignments_are_given_out_when_their_record_is_committed() -> None:
    bench = Bench()
    a, b = joined(bench, "a", "b")
    follower = bench.ask(sync(b, 1))
    bench.advance(5_000)
    bench.replicates = False

    leader = bench.ask(lead(a, 1, {a: b"A", b: b"B"}))
    assert follower not in bench.answers
    assert state_of(bench) == "CompletingRebalance"
    bench.replicate()

    assert {bench.answers[each].assignment for each in (leader, follower)} == {b"A", b"B"}
    assert bench.timers["classic session", "g", b] == bench.now_ms + 10_000


@pytest.mark.parametrize("when", ["refused", "late"])
def test_assignments_that_are_not_stored_begin_a_rebalance(when: str) -> None:
    bench = Bench()
    a, b = joined(bench, "a", "b")
    follower = bench.ask(sync(b, 1))
    if when == "refused":
        bench.refusal = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    bench.replicates = False
    leader = bench.ask(lead(a, 1, {a: b"A", b: b"B"}))

    bench.commit_in_time_failed()

    errors = {error_of(bench.answers[each]) for each in (leader, follower)}
    assert errors == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert state_of(bench) == "PreparingRebalance"
    assert bench.shard.parked() == ()


def test_assignments_of_a_generation_that_is_over_change_nothing() -> None:
    bench = Bench()
    a, b = joined(bench, "a", "b")
    follower = bench.ask(sync(b, 1))
    bench.replicates = False
    leader = bench.ask(lead(a, 1, {a: b"A", b: b"B"}))
    bench.ask(join(version=3))

    bench.replicate()

    errors = {error_of(bench.answers[each]) for each in (leader, follower)}
    assert errors == {ErrorCode.REBALANCE_IN_PROGRESS}
    assert state_of(bench) == "PreparingRebalance"


def test_assignments_that_are_late_in_the_next_generation_change_nothing() -> None:
    bench = Bench()
    a, b = joined(bench, "a", "b")
    bench.replicates = False
    leader = bench.ask(lead(a, 1, {a: b"A", b: b"B"}))
    for each in (b, a):
        bench.ask(join(each, protocols=(*join().protocols, *join().protocols)))

    bench.replicate()

    assert error_of(bench.answers[leader]) is ErrorCode.REBALANCE_IN_PROGRESS
    assert state_of(bench) == "CompletingRebalance"


def test_stable_member_that_syncs_gets_its_assignment_at_once() -> None:
    bench = Bench()
    _, b = stable(bench, "a", "b")

    assert bench.answer(sync(b, 1)).assignment == b"b"


def test_sync_in_a_preparing_group() -> None:
    bench = Bench()
    a, *_ = stable(bench, "a")
    bench.ask(join(version=3))

    assert error_of(bench.answer(sync(a, 1))) is ErrorCode.REBALANCE_IN_PROGRESS


@pytest.mark.parametrize("phase", ["CompletingRebalance", "Stable"])
def test_sync_never(phase: str) -> None:
    bench = Bench()
    a, b, c = joined(bench, "a", "b", "c", session_timeout_ms=200_000)
    others = [bench.ask(sync(b, 1))]
    if phase == "Stable":
        bench.ask(lead(a, 1, {a: b"A"}))
        silent, kept = c, (a, b)
    else:
        silent, kept = a, (b,)
    assert state_of(bench) == phase

    bench.advance(60_000)

    assert state_of(bench) == "PreparingRebalance"
    assert error_of(bench.answer(beat(silent, 1))) is ErrorCode.UNKNOWN_MEMBER_ID
    for each in kept:
        assert error_of(bench.answer(beat(each, 1))) is ErrorCode.REBALANCE_IN_PROGRESS
    assert all(each in bench.answers for each in others)


def test_sync_timer_ends_when_all_have_asked() -> None:
    bench = Bench()
    stable(bench, "a", "b")

    assert ("classic sync", "g") not in bench.timers


def test_second_sync_of_a_member_replaces_the_first() -> None:
    bench = Bench()
    _, b = joined(bench, "a", "b")
    old = bench.ask(sync(b, 1))

    new = bench.ask(sync(b, 1))

    assert error_of(bench.answers[old]) is ErrorCode.REBALANCE_IN_PROGRESS
    assert new not in bench.answers


@pytest.mark.parametrize(
    ("phase", "expected"),
    [
        ("PreparingRebalance", ErrorCode.NONE),
        ("CompletingRebalance", ErrorCode.REBALANCE_IN_PROGRESS),
        ("Stable", ErrorCode.NONE),
    ],
)
def test_commit_in_rebalance(phase: str, expected: ErrorCode) -> None:
    bench = Bench()
    if phase == "CompletingRebalance":
        (a,) = joined(bench, "a")
    else:
        (a,) = stable(bench, "a")
    if phase == "PreparingRebalance":
        bench.ask(join(version=3))
    assert state_of(bench) == phase

    bench.advance(4_000)
    answer = bench.answer(commit(7, member_id=a, generation_id_or_member_epoch=1))

    if expected is ErrorCode.NONE:
        assert answer.topics[0].partitions[0].error_code is ErrorCode.NONE
        assert fetched(bench) == {("t", 0): 7}
        assert bench.timers["classic session", "g", a] == bench.now_ms + 10_000
    else:
        assert error_of(answer) is expected
    old = bench.answer(commit(7, member_id=a, generation_id_or_member_epoch=0))
    assert error_of(old) is ErrorCode.ILLEGAL_GENERATION
