"""Members with an instance id keep their place while they are away (KIP-345)."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from broker.groups.requests import DescribeGroups, JoinProtocol
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
    stable,
    subscription,
    sync,
)


def state_of(bench: Bench) -> str:
    (group,) = bench.answer(DescribeGroups(groups=("g",))).groups
    return str(group.group_state)


def error_of(answer: Any) -> ErrorCode:
    code = answer.code if isinstance(answer, KafkaError) else answer.error_code
    return ErrorCode(code)


def static_pair(bench: Bench, *, is_stable: bool = True, **fields: Any) -> tuple[str, str]:
    """Return a leader with instance id i, and a follower with j."""
    tickets = [bench.ask(join(group_instance_id=each, **fields)) for each in "ij"]
    bench.advance(6_000)
    i, j = (bench.answers[each].member_id for each in tickets)
    if is_stable:
        bench.ask(sync(j, 1))
        bench.ask(lead(i, 1, {i: b"I", j: b"J"}))
        assert state_of(bench) == "Stable"
    return i, j


def test_static_restart() -> None:
    bench = Bench()
    i, j = static_pair(bench)

    answer = bench.answer(join(group_instance_id="j"))

    assert state_of(bench) == "Stable"
    assert (answer.generation_id, answer.leader, answer.members) == (1, i, ())
    assert not answer.skip_assignment
    assert answer.member_id not in (i, j)
    assert bench.answer(sync(answer.member_id, 1)).assignment == b"J"
    assert error_of(bench.answer(beat(j, 1, "j"))) is ErrorCode.FENCED_INSTANCE_ID


def test_static_leader_that_restarts_skips_the_assignment() -> None:
    bench = Bench()
    i, _ = static_pair(bench)

    answer = bench.answer(join(group_instance_id="i"))

    assert answer.skip_assignment
    assert answer.leader == answer.member_id != i
    assert len(answer.members) == 2


def test_static_leader_of_an_older_version_is_told_of_the_old_leader() -> None:
    bench = Bench()
    i, _ = static_pair(bench)

    answer = bench.answer(join(group_instance_id="i", version=8))

    assert (answer.leader, answer.members, answer.skip_assignment) == (i, (), False)


def test_static_restart_is_answered_when_its_record_is_committed() -> None:
    bench = Bench()
    static_pair(bench)
    bench.replicates = False

    ticket = bench.ask(join(group_instance_id="j"))
    assert ticket not in bench.answers
    bench.replicate()

    assert bench.answers[ticket].generation_id == 1


def test_static_restart_whose_answer_came_too_late_is_done_again() -> None:
    """I6."""
    bench = Bench()
    _, j = static_pair(bench)
    bench.replicates = False
    first = bench.ask(join(group_instance_id="j"))
    bench.commit_in_time_failed()
    assert error_of(bench.answers[first]) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    bench.replicates = True

    answer = bench.answer(join(group_instance_id="j"))

    assert (answer.error_code, answer.generation_id) == (ErrorCode.NONE, 1)
    assert bench.answer(sync(answer.member_id, 1)).assignment == b"J"
    assert error_of(bench.answer(beat(j, 1, "j"))) is ErrorCode.FENCED_INSTANCE_ID


def test_static_restart_that_cannot_be_written_leaves_the_old_member() -> None:
    bench = Bench()
    _, j = static_pair(bench)
    bench.refusal = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    answer = bench.answer(join(group_instance_id="j"))

    assert error_of(answer) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert error_of(bench.answer(beat(j, 1, "j"))) is ErrorCode.NONE


def test_static_restart_failover() -> None:
    bench = Bench()
    _, j = static_pair(bench)
    new = bench.answer(join(group_instance_id="j")).member_id

    after = bench.fail_over()

    assert error_of(after.answer(beat(new, 1, "j"))) is ErrorCode.NONE
    assert error_of(after.answer(beat(j, 1, "j"))) is ErrorCode.FENCED_INSTANCE_ID


def test_static_restart_that_changes_the_protocol_begins_a_rebalance() -> None:
    bench = Bench()
    both = (*RANGE, JoinProtocol("roundrobin", subscription("t")))
    (a,) = stable(bench, "a", group_instance_id="i", protocols=both)
    swapped = tuple(reversed(both))

    ticket = bench.ask(join(group_instance_id="i", protocols=swapped))

    assert bench.answers[ticket].generation_id == 2
    assert bench.answers[ticket].protocol_name == "roundrobin"
    assert error_of(bench.answer(beat(a, 1, "i"))) is ErrorCode.FENCED_INSTANCE_ID


def test_static_restart_in_a_completing_group_begins_a_rebalance() -> None:
    bench = Bench()
    i, j = static_pair(bench, is_stable=False)
    parked = bench.ask(sync(j, 1))

    ticket = bench.ask(join(group_instance_id="j"))

    assert error_of(bench.answers[parked]) is ErrorCode.FENCED_INSTANCE_ID
    assert ticket not in bench.answers
    assert state_of(bench) == "PreparingRebalance"
    assert error_of(bench.answer(beat(i, 1, "i"))) is ErrorCode.REBALANCE_IN_PROGRESS


def test_static_restart_in_a_preparing_group_takes_the_parked_join_over() -> None:
    bench = Bench()
    i, j = static_pair(bench)
    bench.ask(join(version=3))
    old = bench.ask(join(j, group_instance_id="j"))

    new = bench.ask(join(group_instance_id="j"))

    assert error_of(bench.answers[old]) is ErrorCode.FENCED_INSTANCE_ID
    bench.ask(join(i, group_instance_id="i"))
    assert bench.answers[new].generation_id == 2


def test_static_member_that_restarts_while_its_first_join_is_parked_waits_like_any_other() -> None:
    bench = Bench()
    (a,) = stable(bench, "a", session_timeout_ms=60_000, rebalance_timeout_ms=60_000)
    old = bench.ask(join(group_instance_id="i", session_timeout_ms=10_000))
    bench.advance(1_000)

    new = bench.ask(join(group_instance_id="i", session_timeout_ms=10_000))
    assert error_of(bench.answers[old]) is ErrorCode.FENCED_INSTANCE_ID
    bench.advance(30_000)
    assert new not in bench.answers
    rejoin = bench.ask(join(a, session_timeout_ms=60_000))

    assert bench.answers[new].generation_id == bench.answers[rejoin].generation_id == 2


def test_static_duplicate_is_fenced_in_every_api() -> None:
    bench = Bench()
    _, j = static_pair(bench)

    bench.ask(join(group_instance_id="j"))

    requests = (
        beat(j, 1, "j"),
        lead(j, 1, {}, group_instance_id="j"),
        join(j, group_instance_id="j"),
        commit(1, member_id=j, group_instance_id="j", generation_id_or_member_epoch=1),
    )
    assert [error_of(bench.answer(each)) for each in requests] == [ErrorCode.FENCED_INSTANCE_ID] * 4


def test_static_member_that_did_not_rejoin_stays_in_the_generation() -> None:
    bench = Bench()
    i, j = static_pair(bench)
    bench.ask(beat(j, 1, "j"))
    ticket = bench.ask(join(i, group_instance_id="i", rebalance_timeout_ms=8_000))
    bench.ask(beat(j, 1, "j"))

    bench.advance(60_000)

    assert bench.answers[ticket].generation_id == 2


def test_static_leader_that_did_not_rejoin_leads_no_more() -> None:
    bench = Bench()
    i, j = static_pair(bench, session_timeout_ms=90_000)
    ticket = bench.ask(join(j, group_instance_id="j", protocols=RANGE * 2))

    bench.advance(60_000)

    answer = bench.answers[ticket]
    assert (answer.leader, len(answer.members)) == (j, 2)
    assert error_of(bench.answer(beat(i, 1, "i"))) is ErrorCode.ILLEGAL_GENERATION


def test_static_members_of_whom_nobody_rejoined_keep_their_places_until_their_sessions_end() -> (
    None
):
    bench = Bench()
    (member,) = stable(
        bench, "a", group_instance_id="i", session_timeout_ms=90_000, rebalance_timeout_ms=20_000
    )
    new = bench.ask(join(version=3, rebalance_timeout_ms=20_000))
    bench.hang_up(new)

    bench.advance(20_000)
    assert state_of(bench) == "PreparingRebalance"
    assert error_of(bench.answer(beat(member, 1, "i"))) is ErrorCode.REBALANCE_IN_PROGRESS
    bench.advance(90_000)

    assert state_of(bench) == "Empty"


def test_static_member_of_a_full_group_may_come_back() -> None:
    bench = Bench(replace(SETTINGS, max_size=1))
    joined(bench, "a", group_instance_id="i")

    ticket = bench.ask(join(group_instance_id="i"))

    assert bench.answers[ticket].error_code is ErrorCode.NONE


@pytest.mark.parametrize("version", [5, 9])
def test_timeouts_are_updated_when_a_static_member_comes_back(version: int) -> None:
    bench = Bench()
    static_pair(bench)

    answer = bench.answer(join(group_instance_id="j", version=version, session_timeout_ms=30_000))

    key = ("classic session", "g", answer.member_id)
    assert bench.timers[key] == bench.now_ms + 30_000
