from __future__ import annotations

import pytest

from broker.coordination.core import Ticket
from broker.groups.requests import (
    CommitPartition,
    CommitTopic,
    NamedPartitions,
    OffsetCommit,
    OffsetFetch,
    TxnOffsetCommit,
)
from broker.groups.responses import OffsetResults
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.producer import Producer
from tests.broker.groups.consumer.commits import commit
from tests.broker.groups.consumer.rig import GROUP, Rig, classic_join


def fetch(rig: Rig, member_id: str | None, epoch: int) -> ErrorCode:
    response = rig.answer(
        OffsetFetch(
            group_id=GROUP,
            member_id=member_id,
            member_epoch=epoch,
            topics=(NamedPartitions("t", (0,)),),
        )
    )
    return getattr(response, "error_code", response)


@pytest.fixture
def rig() -> Rig:
    """Member `a` had 0-11 in epoch 1 and has six of them in epoch 2; `b` has the others."""
    rig = Rig()
    rig.join("a")
    rig.join("b")
    rig.settle()
    return rig


@pytest.mark.parametrize(
    ("member", "epoch", "version", "error"),
    [
        ("a", 2, 9, ErrorCode.NONE),
        ("a", 3, 9, ErrorCode.STALE_MEMBER_EPOCH),
        ("n", 2, 9, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", -1, 9, ErrorCode.UNKNOWN_MEMBER_ID),
        ("a", 2, 8, ErrorCode.UNSUPPORTED_VERSION),
    ],
)
def test_commit_is_checked(
    rig: Rig, member: str, epoch: int, version: int, error: ErrorCode
) -> None:
    own = min(rig.current("a").assigned).partition

    assert commit(rig, member, epoch, own, version=version) == error


@pytest.mark.parametrize(
    ("member", "epoch", "expected"),
    [
        ("a", 2, ErrorCode.NONE),
        ("a", 3, ErrorCode.ILLEGAL_GENERATION),
        ("n", 2, ErrorCode.UNKNOWN_MEMBER_ID),
        ("n", -1, ErrorCode.UNKNOWN_MEMBER_ID),
        # Clients before KIP-447 do not say who they are.
        ("", -1, ErrorCode.NONE),
    ],
)
def test_commit_in_a_transaction_is_checked(
    rig: Rig, member: str, epoch: int, expected: ErrorCode
) -> None:
    own = min(rig.current("a").assigned).partition

    assert in_transaction(rig, member, epoch, own) == expected


def test_commit_in_a_transaction_with_an_old_epoch_counts_for_partitions_that_were_kept(
    rig: Rig,
) -> None:
    kept = min(rig.current("a").assigned).partition
    lost = min(rig.current("b").assigned).partition

    assert in_transaction(rig, "a", 1, kept, lost) == {
        kept: ErrorCode.NONE,
        lost: ErrorCode.ILLEGAL_GENERATION,
    }


def in_transaction(
    rig: Rig, member_id: str, epoch: int, *partitions: int
) -> ErrorCode | dict[int, ErrorCode]:
    """Return one error for all, or those of the partitions."""
    topic = CommitTopic("t", tuple(CommitPartition(each, 5) for each in partitions))
    asked = OffsetCommit(
        group_id=GROUP, member_id=member_id, generation_id_or_member_epoch=epoch, topics=(topic,)
    )
    request = TxnOffsetCommit(producer=Producer(7, 0), commit=asked)
    response = rig.shard.decide(request, Ticket(1000), 0).answers[0].response
    if not isinstance(response, OffsetResults):
        return ErrorCode(response.code)
    errors = {each.partition_index: each.error_code for each in response.topics[0].partitions}
    return next(iter(errors.values())) if len(set(errors.values())) == 1 else errors


def test_administrators_commit_while_there_are_no_members(rig: Rig) -> None:
    rig.beat("a", -1)
    rig.beat("b", -1)

    assert commit(rig, "", -1) == ErrorCode.NONE


def test_commit_with_an_old_epoch_counts_for_partitions_that_were_kept(rig: Rig) -> None:
    """KIP-1251; the partitions that are not the member's fail alone."""
    kept = min(rig.current("a").assigned).partition
    lost = min(rig.current("b").assigned).partition

    assert commit(rig, "a", 1, kept) == ErrorCode.NONE
    assert commit(rig, "a", 1, kept, lost) == {
        kept: ErrorCode.NONE,
        lost: ErrorCode.STALE_MEMBER_EPOCH,
    }


def test_commit_with_the_epoch_before_a_partition_came_is_stale(rig: Rig) -> None:
    before = rig.current("b").epoch
    rig.beat("a", -1)
    rig.beat("b")
    new = min(p for p, epoch in rig.current("b").assigned.items() if epoch > before)

    assert commit(rig, "b", before, new.partition) == ErrorCode.STALE_MEMBER_EPOCH


def test_partitions_that_are_to_be_given_up_may_be_committed() -> None:
    rig = Rig()
    rig.join("a")
    rig.join("b")
    rig.beat("a")
    pending = min(rig.current("a").pending_revocation).partition

    assert commit(rig, "a", 1, pending) == ErrorCode.NONE


def test_partitions_that_are_to_be_given_up_count_with_their_own_epoch(rig: Rig) -> None:
    rig.join("c")
    rig.beat("a")
    assert rig.current("a").epoch == 2
    pending = min(rig.current("a").pending_revocation).partition

    assert commit(rig, "a", 1, pending) == ErrorCode.NONE


def test_classic_member_hears_of_its_generation() -> None:
    rig = Rig()
    rig.join("a")
    rig.answer(classic_join("k"))
    epoch = rig.current("k").epoch

    assert commit(rig, "k", epoch, version=8) == ErrorCode.NONE
    assert commit(rig, "k", epoch + 1, version=8) == ErrorCode.ILLEGAL_GENERATION


@pytest.mark.parametrize(
    ("member", "epoch", "error"),
    [
        (None, -1, ErrorCode.NONE),
        ("a", 2, ErrorCode.NONE),
        ("a", 1, ErrorCode.STALE_MEMBER_EPOCH),
        ("n", 2, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_fetch_is_checked(rig: Rig, member: str | None, epoch: int, error: ErrorCode) -> None:
    assert fetch(rig, member, epoch) == error
