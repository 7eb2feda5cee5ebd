"""AddPartitionsToTxn and the question of leaders whether a partition takes part."""

from __future__ import annotations

import pytest

from broker.transactions.transaction import TransactionState
from broker.transactions.transaction_core import COMPLETION_WAIT_MS
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.producer import Producer
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
    assert coordinator.add(P, B, version=2) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert coordinator.verify(P, A) is ErrorCode.CONCURRENT_TRANSACTIONS


@pytest.mark.parametrize("commit", [True, False])
def test_a_client_waits_for_the_end_of_its_transaction_before(commit: bool):
    coordinator = Coordinator()
    coordinator.set(state=TransactionState.ONGOING, partitions=(A,))
    coordinator.end(P, commit=commit)
    added = coordinator.later(P, B)
    assert added() == PENDING
    coordinator.is_committing = False
    coordinator.mark()
    assert added() == PENDING, "the end is written, and not committed"
    coordinator.commit()
    assert added() == PENDING, "and now the next transaction"
    coordinator.commit()
    assert added() is None
    assert coordinator.state is TransactionState.ONGOING
    assert coordinator.transaction.partitions == (B,)
    coordinator.wait(2 * COMPLETION_WAIT_MS)
    assert added() is None


def test_a_client_that_comes_when_the_end_is_written_waits_as_well():
    coordinator = Coordinator()
    coordinator.set(state=TransactionState.ONGOING, partitions=(A,))
    coordinator.end(P)
    coordinator.is_committing = False
    coordinator.mark()
    added = coordinator.later(P, B)
    coordinator.is_committing = True
    coordinator.commit()
    assert added() is None


def test_a_client_does_not_wait_for_ever():
    coordinator = Coordinator()
    coordinator.set(state=TransactionState.ONGOING, partitions=(A,))
    coordinator.end(P)
    added = coordinator.later(P, B)
    coordinator.wait(COMPLETION_WAIT_MS - 1)
    assert added() == PENDING
    coordinator.wait(1)
    assert added() is ErrorCode.CONCURRENT_TRANSACTIONS
    coordinator.mark()
    assert coordinator.state is TransactionState.COMPLETE_COMMIT, "nobody waits any more"


def test_of_two_requests_of_a_client_the_last_one_waits():
    coordinator = Coordinator()
    coordinator.set(state=TransactionState.ONGOING, partitions=(A,))
    coordinator.end(P)
    first, second = coordinator.later(P, B), coordinator.later(P, C)
    assert first() is ErrorCode.CONCURRENT_TRANSACTIONS
    coordinator.mark()
    assert second() is None
    assert coordinator.transaction.partitions == (C,)


def test_who_was_fenced_meanwhile_has_waited_in_vain():
    coordinator = Coordinator()
    coordinator.set(state=TransactionState.ONGOING, partitions=(A,))
    coordinator.end(P)
    zombie = coordinator.later(Producer(7, 4), B)
    coordinator.mark()
    assert zombie() is ErrorCode.PRODUCER_FENCED
    assert coordinator.state is TransactionState.COMPLETE_COMMIT


def test_who_waits_is_told_when_the_log_takes_nothing_more():
    coordinator = Coordinator()
    coordinator.set(state=TransactionState.ONGOING, partitions=(A,))
    coordinator.end(P)
    added = coordinator.later(P, B)
    coordinator.is_committing = False
    coordinator.mark()
    coordinator.refuses = ErrorCode.COORDINATOR_NOT_AVAILABLE
    coordinator.commit()
    assert added() is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert coordinator.state is TransactionState.COMPLETE_COMMIT


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
    committed = coordinator.core.tables.committed("x")
    assert committed is not None
    assert committed.partitions == (A,)
    assert coordinator.core.tables.is_pending("x")


@pytest.mark.parametrize("producer", [P, Producer(P.producer_id, P.producer_epoch + 1)])
def test_a_leader_waits_for_what_the_coordinator_before_may_have_acknowledged(producer: Producer):
    coordinator = Coordinator()
    coordinator.set(state=TransactionState.COMPLETE_COMMIT)
    coordinator.is_committing = False
    ongoing = {"state": TransactionState.ONGOING, "partitions": (A,)}
    coordinator.set(**ongoing, producer_epoch=producer.producer_epoch)
    verified = coordinator.verified_later(producer, A, C)
    assert verified() == PENDING
    coordinator.commit()
    assert verified() is ErrorCode.CONCURRENT_TRANSACTIONS
    assert coordinator.verify(producer, A, C) == {
        A: ErrorCode.NONE,
        C: ErrorCode.TRANSACTION_ABORTABLE,
    }


def test_a_record_that_was_refused_changes_nothing():
    coordinator = Coordinator()
    coordinator.set()
    coordinator.refuses = ErrorCode.NOT_COORDINATOR
    assert coordinator.add(P) is ErrorCode.NOT_COORDINATOR
    assert coordinator.state is TransactionState.EMPTY
    coordinator.refuses = None
    assert coordinator.add(P) is None
