"""AddPartitionsToTxn and the question of leaders whether a partition takes part."""

from __future__ import annotations

import pytest

from broker.coordination.core import Producer
from broker.transactions.transaction import TransactionState
from jbodlab.vocabulary.error_code import ErrorCode
from tests.broker.transactions.coordinator import PENDING, A, B, C, Coordinator

P = Producer(7, 5)


@pytest.mark.parametrize(
    "state",
    [TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT],
)
def test_the_first_partition_begins_a_transaction(state: TransactionState):
    coordinator = Coordinator()
    coordinator.set(state=state)
    coordinator.now_ms += 10
    assert coordinator.add(P, B, A, version=2) is None
    assert coordinator.state is TransactionState.ONGOING
    assert coordinator.transaction.partitions == (A, B)
    assert coordinator.transaction.started_ms == coordinator.now_ms
    assert coordinator.transaction.transaction_version == 2


def test_more_partitions_do_not_change_when_it_began():
    coordinator = Coordinator()
    coordinator.set()
    coordinator.add(P, A)
    began_ms = coordinator.transaction.started_ms
    coordinator.now_ms += 10
    coordinator.add(P, B)
    assert coordinator.transaction.partitions == (A, B)
    assert coordinator.transaction.started_ms == began_ms


def test_partitions_that_take_part_already_are_answered_without_a_record():
    coordinator = Coordinator()
    coordinator.set()
    coordinator.add(P, A, B)
    end = len(coordinator.log)
    assert coordinator.add(P, B) is None
    assert len(coordinator.log) == end


def test_the_answer_waits_for_the_commit_and_others_are_told_to_wait():
    coordinator = Coordinator()
    coordinator.set()
    coordinator.is_committing = False
    assert coordinator.add(P, A) == PENDING
    end = len(coordinator.log)
    coordinator.add(P, B)
    assert len(coordinator.log) == end
    coordinator.commit()
    coordinator.is_committing = True
    assert coordinator.add(P, B) is None


@pytest.mark.parametrize("state", [TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT])
def test_nothing_is_added_while_markers_are_written(state: TransactionState):
    coordinator = Coordinator()
    coordinator.set(state=state, partitions=(A,))
    assert coordinator.add(P, B) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert coordinator.verify(P, A) is ErrorCode.CONCURRENT_TRANSACTIONS


def test_who_is_not_the_producer_is_refused():
    coordinator = Coordinator()
    assert coordinator.add(P) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert coordinator.verify(P) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    coordinator.set(state=TransactionState.ONGOING, partitions=(A,))
    for other, code in (
        (Producer(8, 5), ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (Producer(7, 4), ErrorCode.PRODUCER_FENCED),
        (Producer(7, 6), ErrorCode.PRODUCER_FENCED),
    ):
        assert coordinator.add(other) is code
        assert coordinator.verify(other) is code


def test_a_leader_is_told_which_partitions_take_part():
    coordinator = Coordinator()
    coordinator.set(state=TransactionState.ONGOING, partitions=(A, B))
    assert coordinator.verify(P, A, C) == {
        A: ErrorCode.NONE,
        C: ErrorCode.TRANSACTION_ABORTABLE,
    }


def test_a_leader_is_told_what_is_committed():
    coordinator = Coordinator()
    coordinator.set(state=TransactionState.ONGOING, partitions=(A,))
    coordinator.is_committing = False
    coordinator.add(P, B)
    # The answer commits in this test; so the question is put to the core alone.
    assert coordinator.core.tables.committed["x"].partitions == (A,)
    assert coordinator.core.tables.is_pending("x")


def test_a_record_that_was_refused_changes_nothing():
    coordinator = Coordinator()
    coordinator.set()
    coordinator.refuses = ErrorCode.NOT_COORDINATOR
    assert coordinator.add(P) is ErrorCode.NOT_COORDINATOR
    assert coordinator.state is TransactionState.EMPTY
    coordinator.refuses = None
    assert coordinator.add(P) is None
