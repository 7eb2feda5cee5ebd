"""Describe, list and delete."""

from __future__ import annotations

from collections import Counter

import pytest

from broker.groups.requests import DeleteGroups, DescribeGroups, ListGroups
from broker.groups.responses import (
    DeletableGroupResult,
    DescribedGroup,
    DescribedMember,
)
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from tests.broker.groups.bench import (
    RANGE,
    Bench,
    FakeTopics,
    commit,
    fetched,
    join,
    joined,
    stable,
)


def described(bench: Bench, version: int = 6) -> DescribedGroup:
    (group,) = bench.answer(DescribeGroups(groups=("g",), version=version)).groups
    assert isinstance(group, DescribedGroup)
    return group


def test_unknown_group_is_dead() -> None:
    assert described(Bench(), 5) == DescribedGroup(group_id="g", group_state="Dead")
    newest = described(Bench(), 6)
    assert (newest.error_code, newest.group_state) == (ErrorCode.GROUP_ID_NOT_FOUND, "Dead")
    assert newest.error_message == "group g does not exist"


def test_stable_group_is_described_with_metadata_and_assignments(bench: Bench) -> None:
    (a,) = stable(bench, "a")

    assert described(bench) == DescribedGroup(
        group_id="g",
        group_state="Stable",
        protocol_type="consumer",
        protocol_data="range",
        members=(DescribedMember(a, None, "a", "/127.0.0.1", RANGE[0].metadata, b"a"),),
    )


@pytest.mark.parametrize("phase", ["PreparingRebalance", "CompletingRebalance"])
def test_group_in_a_rebalance_is_described_without_them(bench: Bench, phase: str) -> None:
    if phase == "CompletingRebalance":
        members = joined(bench, "a")
    else:
        members = stable(bench, "a", "b")
        bench.ask(join(version=3))

    group = described(bench)

    assert (group.group_state, group.protocol_data) == (phase, "")
    assert [member.member_id for member in group.members][: len(members)] == members
    assert {(member.member_metadata, member.member_assignment) for member in group.members} == {
        (b"", b"")
    }


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A shard whose batches hold two records; groups g and h have five and two offsets."""
    monkeypatch.setattr("broker.groups.administration.EXPIRED_AT_ONCE", 2)
    bench = Bench(topics=FakeTopics(t=5))
    for group, count in (("g", 5), ("h", 2)):
        for partition in range(count):
            bench.ask(commit(1, group=group, partition=partition))
    return bench


DELETE_BOTH = DeleteGroups(groups_names=("g", "unknown", "h"))


def test_group_with_more_offsets_than_a_batch_holds_is_deleted_piece_by_piece(
    small_batches: Bench,
) -> None:
    before = len(small_batches.log)

    results = small_batches.answer(DELETE_BOTH).results

    assert [(each.group_id, each.error_code) for each in results] == [
        ("g", ErrorCode.NONE),
        ("unknown", ErrorCode.GROUP_ID_NOT_FOUND),
        ("h", ErrorCode.NONE),
    ]
    assert [*Counter(end for _, end in small_batches.log[before:]).values()] == [2, 2, 2, 1]
    assert not any(small_batches.answer(ListGroups()))


def test_deletion_of_many_offsets_is_answered_when_the_last_of_them_is_committed(
    small_batches: Bench,
) -> None:
    small_batches.replicates = False
    ticket = small_batches.ask(DELETE_BOTH)

    waited = 0
    while ticket not in small_batches.answers:
        waited += 1
        small_batches.replicate()

    assert waited == 4
    assert not any(small_batches.answer(ListGroups()))


def test_list_that_is_being_told_leaves_out_a_group_that_is_gone_and_tells_each_group_once(
    small_batches: Bench,
) -> None:
    groups = iter(small_batches.answer(ListGroups()))
    assert next(groups).group_id == "g"
    small_batches.ask(join(group="g", version=3))
    small_batches.advance(10_000)

    small_batches.answer(DeleteGroups(groups_names=("h",)))

    assert not any(groups)


def test_group_that_gets_a_member_while_its_offsets_are_deleted_stays(small_batches: Bench) -> None:
    small_batches.replicates = False
    ticket = small_batches.ask(DELETE_BOTH)
    small_batches.ask(join(version=3))

    while ticket not in small_batches.answers:
        small_batches.replicate()

    assert [each.error_code for each in small_batches.answers[ticket].results] == [
        ErrorCode.NON_EMPTY_GROUP,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.NONE,
    ]
    assert len(fetched(small_batches)) == 3


def test_deletion_that_the_log_refuses_in_the_middle_says_why(small_batches: Bench) -> None:
    small_batches.replicates = False
    ticket = small_batches.ask(DELETE_BOTH)
    small_batches.refusal = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    small_batches.replicate()

    assert small_batches.answers[ticket] is small_batches.refusal
    assert len(fetched(small_batches)) == 3


def test_group_whose_other_offsets_expire_while_it_is_deleted_was_deleted(
    small_batches: Bench,
) -> None:
    small_batches.replicates = False
    ticket = small_batches.ask(DELETE_BOTH)
    small_batches.topics.delete("t")
    small_batches.carry_out(small_batches.shard.topics_deleted("t", small_batches.now_ms))

    while ticket not in small_batches.answers:
        small_batches.replicate()

    assert small_batches.answers[ticket].results[0] == DeletableGroupResult("g", ErrorCode.NONE)
