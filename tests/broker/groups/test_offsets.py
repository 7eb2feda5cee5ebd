"""Committed offsets: who may commit, what is fetched, what is deleted."""

from __future__ import annotations

from typing import Any

import pytest

from broker.coordination.core import Ticket
from broker.groups.decision import GroupDecision
from broker.groups.group_core import GroupCore
from broker.groups.requests import (
    DeleteGroups,
    NamedPartitions,
    OffsetDelete,
    OffsetFetch,
    TxnOffsetCommit,
)
from broker.groups.responses import DeleteGroupsResponse, FetchedOffset
from broker.groups.tables import Row
from jbodlab.group_records.keys import OffsetCommitKey
from jbodlab.group_records.records import GroupRecord
from jbodlab.group_records.values import OffsetCommitValue
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.ids import TopicId
from jbodlab.vocabulary.producer import Producer
from tests.broker.groups.bench import (
    START_MS,
    Bench,
    FakeTopics,
    commit,
    fetched,
    joined,
    stable,
)
from tests.builders import named_uuid

T0 = (NamedPartitions("t", (0,)),)


def error_of(answer: Any) -> ErrorCode:
    if isinstance(answer, KafkaError):
        return answer.code
    if isinstance(answer, DeleteGroupsResponse):
        return answer.results[0].error_code
    return ErrorCode(answer.topics[0].partitions[0].error_code)


def fetch(bench: Bench, **fields: Any) -> FetchedOffset:
    (topic,) = bench.answer(OffsetFetch(group_id="g", topics=T0, **fields)).topics
    (partition,) = topic.partitions
    assert isinstance(partition, FetchedOffset)
    return partition


def test_commit_then_fetch(bench: Bench) -> None:
    assert error_of(bench.answer(commit(42, metadata="m"))) is ErrorCode.NONE

    assert fetch(bench) == FetchedOffset(0, 42, 3, "m")
    ((record, _),) = bench.log
    assert record == GroupRecord(
        OffsetCommitKey(group="g", topic="t", partition=0),
        OffsetCommitValue(
            offset=42,
            leader_epoch=3,
            metadata="m",
            commit_timestamp=START_MS,
            topic_id=TopicId(named_uuid("t")),
        ),
    )
    assert record.value is not None
    assert record.value.written_version == 4


def test_retention_time_of_the_client_is_stored_as_its_end(bench: Bench) -> None:
    bench.ask(commit(1, version=3, retention_time_ms=500))

    value = bench.log[0][0].value
    assert isinstance(value, OffsetCommitValue)
    assert (value.expire_timestamp, value.written_version) == (START_MS + 500, 1)


def test_metadata_that_is_too_long_fails_its_partition_alone(bench: Bench) -> None:
    long = bench.answer(commit(1, metadata="x" * 4_097))
    fits = bench.answer(commit(1, partition=1, metadata="x" * 4_096))

    assert error_of(long) is ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert error_of(fits) is ErrorCode.NONE
    assert fetched(bench) == {("t", 1): 1}


def test_what_has_no_offset_is_fetched_without_an_error(bench: Bench) -> None:
    assert fetch(bench) == FetchedOffset(0, -1, -1, "", ErrorCode.NONE)
    assert fetched(bench) == {}

    bench.ask(commit(1, partition=1))

    assert fetch(bench) == FetchedOffset(0, -1, -1, "", ErrorCode.NONE)
    assert fetched(bench) == {("t", 1): 1}


def fetch_now(shard: GroupCore, *, require_stable: bool = True) -> FetchedOffset:
    request = OffsetFetch(group_id="g", topics=T0, require_stable=require_stable)
    decision = shard.decide(request, Ticket(1), START_MS)
    if require_stable:
        decision = shard.committed(decision.event, START_MS)
    partition: FetchedOffset = decision.answers[0].response.topics[0].partitions[0]
    return partition


def test_pending_offset_of_a_transaction_is_unstable() -> None:
    shard = Bench().shard
    key = OffsetCommitKey(group="g", topic="t", partition=0)
    for offset, producer_id in ((0, None), (1, 7)):
        value = OffsetCommitValue(offset=offset, commit_timestamp=START_MS)
        shard.replay(GroupRecord(key, value), offset, offset + 1, producer_id)
    shard.committed_up_to(2)

    assert fetch_now(shard, require_stable=False).committed_offset == 0
    unstable = fetch_now(shard, require_stable=True)
    assert unstable == FetchedOffset(0, -1, -1, "", ErrorCode.UNSTABLE_OFFSET_COMMIT)


@pytest.mark.parametrize(
    ("commit", "plain_behind", "expected"), [(True, False, 1), (True, True, 2), (False, False, 0)]
)
def test_txn_offsets_are_committed_or_dropped_unless_a_later_one_counts(
    commit: bool, plain_behind: bool, expected: int
) -> None:
    shard = Bench().shard
    key = OffsetCommitKey(group="g", topic="t", partition=0)
    other = OffsetCommitKey(group="g", topic="t", partition=1)
    for offset, record_key, producer_id in (
        (0, key, None),
        (1, key, 7),
        (2, key, None),
        (3, other, 8),
    ):
        if offset == 2 and not plain_behind:
            continue
        value = OffsetCommitValue(offset=offset, commit_timestamp=START_MS)
        shard.replay(GroupRecord(record_key, value), offset, offset + 1, producer_id)
    shard.committed_up_to(4)

    shard.end_transaction(Producer(7, 0), commit, 5)

    assert fetch_now(shard).error_code is ErrorCode.UNSTABLE_OFFSET_COMMIT
    shard.committed_up_to(5)
    assert fetch_now(shard).committed_offset == expected
    assert shard.tables.written == shard.tables.committed
    assert [*shard.tables.written.rows(Row.PENDING, "g")] == [("t", 1, 8)]


P = Producer(7, 2)


def in_transaction(
    shard: GroupCore, *, member: str = "", generation: int = -1, **fields: Any
) -> GroupDecision:
    request = commit(1, member_id=member, generation_id_or_member_epoch=generation, **fields)
    return shard.decide(TxnOffsetCommit(producer=P, commit=request), Ticket(1), START_MS)


def told(decision: GroupDecision) -> ErrorCode:
    return error_of(decision.answers[0].response)


def test_a_commit_in_a_transaction_is_a_batch_of_its_producer(bench: Bench) -> None:
    decision = in_transaction(bench.shard)

    assert told(decision) is ErrorCode.NONE
    assert decision.producer == P
    (record,) = decision.records
    assert record.key == OffsetCommitKey(group="g", topic="t", partition=0)
    bench.shard.apply(decision, 0)
    bench.shard.committed_up_to(1)
    assert fetch_now(bench.shard, require_stable=False).committed_offset == -1
    assert fetch_now(bench.shard).error_code is ErrorCode.UNSTABLE_OFFSET_COMMIT
    bench.shard.end_transaction(P, True, 2)
    bench.shard.committed_up_to(2)
    assert fetch_now(bench.shard).committed_offset == 1


def test_metadata_of_a_commit_in_a_transaction_may_be_too_large(bench: Bench) -> None:
    decision = in_transaction(bench.shard, metadata="m" * 5000)

    assert told(decision) is ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert not decision.records


@pytest.mark.parametrize(
    ("member", "generation", "expected"),
    [
        ("a", 1, ErrorCode.NONE),
        ("a", 0, ErrorCode.ILLEGAL_GENERATION),
        ("a", 2, ErrorCode.ILLEGAL_GENERATION),
        ("a", -1, ErrorCode.ILLEGAL_GENERATION),
        ("nobody", 1, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", 1, ErrorCode.UNKNOWN_MEMBER_ID),
        # Clients before KIP-447 do not say who they are.
        ("", -1, ErrorCode.NONE),
    ],
)
def test_members_are_checked_in_a_transaction(
    bench: Bench, member: str, generation: int, expected: ErrorCode
) -> None:
    (id_of_a,) = stable(bench, "a")
    member = id_of_a if member == "a" else member

    decision = in_transaction(bench.shard, member=member, generation=generation)

    assert told(decision) is expected
    assert bool(decision.records) == (expected is ErrorCode.NONE)


def test_a_static_member_that_was_replaced_is_fenced_in_a_transaction(bench: Bench) -> None:
    stable(bench, "a", group_instance_id="i")

    decision = in_transaction(bench.shard, member="other", generation=1, group_instance_id="i")

    assert told(decision) is ErrorCode.FENCED_INSTANCE_ID


def test_a_rebalance_does_not_stop_a_commit_in_a_transaction(bench: Bench) -> None:
    (member,) = joined(bench, "a")

    assert error_of(bench.answer(commit(1, member_id=member, generation_id_or_member_epoch=1))) is (
        ErrorCode.REBALANCE_IN_PROGRESS
    )
    assert told(in_transaction(bench.shard, member=member, generation=1)) is ErrorCode.NONE


@pytest.mark.parametrize(
    ("generation", "expected"), [(-1, ErrorCode.NONE), (0, ErrorCode.ILLEGAL_GENERATION)]
)
def test_a_group_that_is_unknown_gets_offsets_in_a_transaction(
    bench: Bench, generation: int, expected: ErrorCode
) -> None:
    assert told(in_transaction(bench.shard, member="m", generation=generation)) is expected


def test_a_deleted_group_has_no_pending_offsets(bench: Bench) -> None:
    bench.shard.apply(in_transaction(bench.shard), 0)
    bench.shard.committed_up_to(1)

    deletion = bench.shard.decide(DeleteGroups(groups_names=("g",)), Ticket(2), START_MS)
    assert told(deletion) is ErrorCode.NONE
    bench.shard.apply(deletion, 1)
    bench.shard.end_transaction(P, True, 3)
    bench.shard.committed_up_to(3)

    assert fetch_now(bench.shard).committed_offset == -1


DELETE = OffsetDelete(group_id="g", topics=(NamedPartitions("t", (0, 1, 9)),))


@pytest.mark.parametrize(
    ("request_", "if_it_came_true"),
    [
        (commit(7), ErrorCode.NONE),
        (DELETE, ErrorCode.GROUP_ID_NOT_FOUND),
        (DeleteGroups(groups_names=("g",)), ErrorCode.GROUP_ID_NOT_FOUND),
    ],
    ids=["commit", "offsets", "group"],
)
def test_repetition_of_what_nobody_knows_is_answered_as_usual(
    request_: Any, if_it_came_true: ErrorCode
) -> None:
    """I6, whether the records of the first time are there or went with the replica."""
    for keeps, expected in (("written", if_it_came_true), ("committed", ErrorCode.NONE)):
        bench = Bench()
        bench.ask(commit(1))
        bench.replicates = False
        first = bench.ask(request_)
        bench.commit_in_time_failed()
        assert error_of(bench.answers[first]) is ErrorCode.COORDINATOR_NOT_AVAILABLE

        assert error_of(bench.fail_over(keeps=keeps).answer(request_)) is expected


def test_topics_are_looked_up_when_they_are_needed() -> None:
    bench = Bench(topics=FakeTopics())
    bench.topics.create("t", 1, "t")
    bench.ask(commit(1))

    assert fetch(bench).committed_offset == 1
