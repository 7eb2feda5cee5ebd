"""JoinGroup: the checks before the state machine, and its rows."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from broker.groups.requests import DescribeGroups, JoinProtocol
from broker.groups.responses import JoinGroupResponse
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from tests.broker.groups.bench import (
    RANGE,
    SETTINGS,
    Bench,
    beat,
    commit,
    join,
    joined,
    lead,
    leave,
    stable,
    subscription,
    sync,
)

ROUND = JoinProtocol("roundrobin", subscription("t"))
OTHER = (JoinProtocol("range", subscription("t", "u")),)


def state_of(bench: Bench) -> str:
    (group,) = bench.answer(DescribeGroups(groups=("g",))).groups
    return str(group.group_state)


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
    request_: Any, error: ErrorCode
) -> None:
    bench = Bench()

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
    fields: dict[str, Any], error: ErrorCode, phase: str
) -> None:
    bench = Bench()
    if phase == "CompletingRebalance":
        joined(bench, "a")
    else:
        stable(bench, "a", "b")
        if phase == "PreparingRebalance":
            bench.ask(join(version=3))
    assert state_of(bench) == phase

    assert bench.answer(join(**fields)).error_code is error
    assert state_of(bench) == phase


def test_join_creates_the_group_with_a_record() -> None:
    bench = Bench()

    bench.ask(join(version=3))

    assert [(record.key.group_id, end) for record, end in bench.log] == [("g", 1)]


def test_join_whose_group_cannot_be_created_hears_why_and_leaves_nothing() -> None:
    bench = Bench()
    bench.refusal = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    parked = bench.ask(join(version=3))
    pending = bench.ask(join())

    assert bench.answers[parked].error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert bench.answers[pending].code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert bench.shard.parked() == ()
    assert state_of(bench) == "Dead"


def test_join_member_id_required() -> None:
    bench = Bench()

    first = bench.answer(join())

    assert first.error_code is ErrorCode.MEMBER_ID_REQUIRED
    assert first.member_id.startswith("c-")
    assert state_of(bench) == "Empty"
    ticket = bench.ask(join(first.member_id))
    bench.advance(3_000)
    assert bench.answers[ticket].member_id == first.member_id
    assert bench.answers[ticket].generation_id == 1


def test_pending_joiner_is_forgotten_after_its_session() -> None:
    bench = Bench()
    member = bench.answer(join()).member_id

    bench.advance(10_000)

    assert bench.answer(join(member)).error_code is ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.timers.keys() == {("offsets",)}


def test_static_member_needs_no_id_first() -> None:
    bench = Bench()

    ticket = bench.ask(join(group_instance_id="i"))
    bench.advance(3_000)

    assert bench.answers[ticket].member_id.startswith("i-")


def test_join_initial_delay_lets_those_in_that_come_within_it() -> None:
    bench = Bench()
    first = bench.ask(join(version=3))
    bench.advance(1_000)
    second = bench.ask(join(version=3))
    bench.advance(1_000)
    third = bench.ask(join(version=3))

    bench.advance(3_999)
    assert bench.answers == {}
    bench.advance(1)

    assert {bench.answers[each].generation_id for each in (first, second, third)} == {1}
    assert len(bench.answers[first].members) == 3
    assert bench.answers[second].members == bench.answers[third].members == ()


def test_initial_delay_ends_at_the_rebalance_timeout() -> None:
    bench = Bench()
    tickets = []

    for _ in range(8):
        tickets.append(bench.ask(join(version=3, rebalance_timeout_ms=10_000)))
        bench.advance(1_500)

    answered = [each for each in tickets if each in bench.answers]
    assert len(answered) == 7
    assert bench.answers[tickets[0]].generation_id == 1


def test_without_initial_delay_the_first_member_is_alone_in_the_first_generation() -> None:
    bench = Bench(replace(SETTINGS, initial_rebalance_delay_ms=0))

    first = bench.ask(join(version=3))
    bench.advance(0)
    second = bench.ask(join(version=3))
    bench.advance(0)

    assert bench.answers[first].generation_id == 1
    assert second not in bench.answers


def test_version_0_has_the_session_timeout_for_a_rebalance() -> None:
    bench = Bench()
    stable(bench, "a", session_timeout_ms=20_000, rebalance_timeout_ms=-1)

    bench.ask(join(version=0, rebalance_timeout_ms=-1))

    assert bench.timers["classic join", "g"] == bench.now_ms + 20_000


def test_protocol_vote() -> None:
    bench = Bench()
    range_, round_ = RANGE[0], ROUND
    wanted = [(range_, round_), (round_, range_), (round_,)]

    tickets = [bench.ask(join(version=3, protocols=each)) for each in wanted]
    bench.advance(6_000)

    answers = [bench.answers[each] for each in tickets]
    assert {each.protocol_name for each in answers} == {"roundrobin"}
    assert [len(each.members) for each in answers] == [3, 0, 0]
    assert {each.leader for each in answers} == {answers[0].member_id}
    stranger = bench.answer(join(version=3, protocols=(JoinProtocol("sticky", b""),)))
    assert stranger.error_code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_tied_vote_goes_to_the_choice_of_who_joined_first() -> None:
    bench = Bench()
    tickets = [
        bench.ask(join(version=3, protocols=each))
        for each in ((ROUND, RANGE[0]), (RANGE[0], ROUND))
    ]

    bench.advance(6_000)

    assert bench.answers[tickets[0]].protocol_name == "roundrobin"


def test_member_that_joins_a_stable_group_begins_a_rebalance() -> None:
    bench = Bench()
    a, b = stable(bench, "a", "b")

    new = bench.ask(join(version=3))

    assert state_of(bench) == "PreparingRebalance"
    assert bench.answer(beat(a, 1)).error_code is ErrorCode.REBALANCE_IN_PROGRESS
    tickets = [bench.ask(join(each)) for each in (b, a)]
    answers = [bench.answers[each] for each in (new, *tickets)]
    assert {each.generation_id for each in answers} == {2}
    assert {each.leader for each in answers} == {a}


def test_member_that_joins_a_completing_group_begins_anew_and_syncs_hear_it() -> None:
    bench = Bench()
    a, b = joined(bench, "a", "b")
    parked = bench.ask(sync(b, 1))

    bench.ask(join(version=3))

    assert bench.answers[parked].error_code is ErrorCode.REBALANCE_IN_PROGRESS
    assert bench.answer(lead(a, 1, {})).code is ErrorCode.REBALANCE_IN_PROGRESS


def test_completing_member_that_joins_unchanged_hears_its_generation_again() -> None:
    bench = Bench()
    a, b = joined(bench, "a", "b")

    leader, follower = bench.answer(join(a)), bench.answer(join(b))

    assert (leader.generation_id, len(leader.members)) == (1, 2)
    assert (follower.generation_id, len(follower.members)) == (1, 0)
    assert state_of(bench) == "CompletingRebalance"


def test_completing_member_that_joins_changed_begins_a_rebalance() -> None:
    bench = Bench()
    _, b = joined(bench, "a", "b")

    assert bench.ask(join(b, protocols=OTHER)) not in bench.answers
    assert state_of(bench) == "PreparingRebalance"


def test_leader_that_joins_a_stable_group_begins_a_rebalance() -> None:
    bench = Bench()
    a, _ = stable(bench, "a", "b")

    assert bench.ask(join(a)) not in bench.answers
    assert state_of(bench) == "PreparingRebalance"


def test_follower_that_joins_unchanged_hears_the_stable_generation() -> None:
    bench = Bench()
    a, b = stable(bench, "a", "b")

    answer = bench.answer(join(b))

    assert answer == JoinGroupResponse(
        generation_id=1,
        protocol_type="consumer",
        protocol_name="range",
        leader=a,
        member_id=b,
    )
    assert state_of(bench) == "Stable"


def test_follower_that_joins_changed_begins_a_rebalance() -> None:
    bench = Bench()
    _, b = stable(bench, "a", "b")

    assert bench.ask(join(b, protocols=OTHER)) not in bench.answers
    assert state_of(bench) == "PreparingRebalance"


def test_older_parked_join_of_a_member_is_told_to_try_again() -> None:
    bench = Bench()
    a, _ = stable(bench, "a", "b")
    old = bench.ask(join(a))

    new = bench.ask(join(a))

    assert bench.answers[old].error_code is ErrorCode.REBALANCE_IN_PROGRESS
    assert new not in bench.answers


def test_timeouts_are_updated_by_each_join() -> None:
    bench = Bench()
    a, b = stable(bench, "a", "b")

    bench.ask(join(b, session_timeout_ms=30_000, rebalance_timeout_ms=90_000))
    bench.ask(join(a))

    assert bench.timers["classic join", "g"] == bench.now_ms + 90_000
    assert bench.timers["classic session", "g", b] == bench.now_ms + 30_000


def test_join_timeout_takes_away_who_did_not_come() -> None:
    bench = Bench()
    a, b = stable(bench, "a", "b", session_timeout_ms=100_000)
    ticket = bench.ask(join(b, protocols=OTHER))

    bench.advance(59_999)
    assert ticket not in bench.answers
    bench.advance(1)

    answer = bench.answers[ticket]
    assert (answer.generation_id, answer.leader, len(answer.members)) == (2, b, 1)
    assert bench.answer(beat(a, 1)).code is ErrorCode.UNKNOWN_MEMBER_ID


def test_pending_joiner_is_waited_for() -> None:
    bench = Bench()
    a, *_ = stable(bench, "a")
    pending = bench.answer(join()).member_id

    ticket = bench.ask(join(a))
    assert ticket not in bench.answers

    bench.ask(join(pending))
    assert len(bench.answers[ticket].members) == 2


def test_pending_joiner_that_leaves_is_not_waited_for() -> None:
    bench = Bench()
    a, *_ = stable(bench, "a")
    pending = bench.answer(join()).member_id
    ticket = bench.ask(join(a))

    assert bench.answer(leave(pending)).members[0].error_code is ErrorCode.NONE
    assert len(bench.answers[ticket].members) == 1


def test_session_of_a_new_member_ends_after_five_minutes_though_its_join_is_parked() -> None:
    bench = Bench()
    a, *_ = stable(bench, "a", session_timeout_ms=400_000, rebalance_timeout_ms=500_000)
    new = bench.ask(join(version=3))

    bench.advance(299_999)
    assert new not in bench.answers
    bench.advance(1)

    assert bench.answers[new].error_code is ErrorCode.UNKNOWN_MEMBER_ID
    assert len(bench.answers[bench.ask(join(a))].members) == 1


def test_new_member_whose_connection_closes_is_not_waited_for() -> None:
    bench = Bench()
    a, *_ = stable(bench, "a")
    new = bench.ask(join(version=3))
    ticket = bench.ask(join(a))
    assert len(bench.answers[ticket].members) == 2
    assert bench.answers[new].generation_id == 2

    ghost = bench.ask(join(version=3))
    bench.hang_up(ghost)

    assert bench.answers[ghost].error_code is ErrorCode.UNKNOWN_MEMBER_ID
    assert ghost not in bench.shard.parked()


def test_known_member_whose_connection_closes_keeps_its_place() -> None:
    bench = Bench()
    a, _ = stable(bench, "a", "b")
    ticket = bench.ask(join(a))

    bench.hang_up(ticket)

    assert ticket in bench.shard.parked()


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


def test_full_group_lets_its_members_join_again() -> None:
    bench = Bench(replace(SETTINGS, max_size=2))
    a, b = stable(bench, "a", "b")

    tickets = [bench.ask(join(each)) for each in (a, b)]

    assert {bench.answers[each].generation_id for each in tickets} == {2}


def test_pending_joiner_of_a_full_group_is_forgotten() -> None:
    bench = Bench(replace(SETTINGS, max_size=1))
    pending = bench.answer(join()).member_id
    stable(bench, "a")

    assert bench.answer(join(pending)).error_code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert ("classic session", "g", pending) not in bench.timers


def test_join_to_a_group_of_offsets_alone() -> None:
    bench = Bench()
    bench.ask(commit(5))

    members = stable(bench, "a")

    assert len(members) == 1
    assert state_of(bench) == "Stable"
