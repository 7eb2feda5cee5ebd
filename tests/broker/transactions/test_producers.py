"""InitProducerId: how a transactional producer begins, goes on and fences another one."""

from __future__ import annotations

import pytest

from broker.transactions.requests import InitProducerId
from broker.transactions.transaction import EPOCH_MAX, EXHAUSTED, TransactionState
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.producer import Producer
from tests.broker.transactions.coordinator import PENDING, A, Coordinator

IDLE = (TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)


def test_an_unknown_id_gets_a_new_producer_id_and_epoch_0():
    coordinator = Coordinator()
    producer = coordinator.init()
    assert producer == Producer(1001, 0)
    assert coordinator.state is TransactionState.EMPTY
    assert coordinator.transaction.previous_producer_id == 1001


def test_only_one_of_producer_id_and_epoch_is_an_invalid_request():
    coordinator = Coordinator()
    assert coordinator.init(Producer(7, -1)) is ErrorCode.INVALID_REQUEST
    assert coordinator.init(Producer(-1, 0)) is ErrorCode.INVALID_REQUEST


def test_an_empty_transactional_id_is_an_invalid_request():
    assert Coordinator().init(name="") is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_a_timeout_out_of_range_is_refused(timeout_ms: int):
    refused = Coordinator().init(timeout_ms=timeout_ms)
    assert refused is ErrorCode.INVALID_TRANSACTION_TIMEOUT


@pytest.mark.parametrize("state", IDLE)
def test_a_new_producer_of_a_known_id_has_the_next_epoch(state: TransactionState):
    coordinator = Coordinator()
    coordinator.set(state=state)
    assert coordinator.init() == Producer(7, 6)
    assert coordinator.state is TransactionState.EMPTY
    assert coordinator.transaction.last_producer_epoch == -1


@pytest.mark.parametrize("state", IDLE)
def test_a_producer_that_goes_on_has_the_next_epoch(state: TransactionState):
    coordinator = Coordinator()
    coordinator.set(state=state)
    assert coordinator.init(Producer(7, 5)) == Producer(7, 6)
    assert coordinator.transaction.last_producer_epoch == 5


def test_a_request_whose_answer_was_lost_is_answered_again_without_a_bump():
    coordinator = Coordinator()
    coordinator.set()
    assert coordinator.init(Producer(7, 5)) == Producer(7, 6)
    assert coordinator.init(Producer(7, 5)) == Producer(7, 6)


def test_a_producer_whose_transaction_took_too_long_begins_with_the_epoch_of_the_abort():
    coordinator = Coordinator(2)
    producer = coordinator.init(timeout_ms=1000)
    coordinator.add(producer, version=2)
    coordinator.load()
    coordinator.wait(20_000)
    coordinator.mark()
    assert coordinator.init(producer) == Producer(producer.producer_id, 1)
    assert coordinator.init(producer) == Producer(producer.producer_id, 1)
    # Another instance has the next one, and the former is fenced.
    assert coordinator.init() == Producer(producer.producer_id, 2)
    assert coordinator.init(producer) is ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("asks", [Producer(7, 4), Producer(7, 6), Producer(8, 5)])
def test_another_producer_is_fenced(asks: Producer):
    coordinator = Coordinator()
    coordinator.set()
    assert coordinator.init(asks) is ErrorCode.PRODUCER_FENCED


def test_after_a_new_producer_the_one_before_is_fenced():
    coordinator = Coordinator()
    first = coordinator.init()
    second = coordinator.init()
    assert second.producer_epoch == first.producer_epoch + 1
    assert coordinator.init(first) is ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("state", IDLE)
@pytest.mark.parametrize("asks", [Producer(-1, -1), Producer(7, EXHAUSTED)])
def test_when_epochs_are_exhausted_there_is_a_new_producer_id(
    state: TransactionState, asks: Producer
):
    coordinator = Coordinator()
    coordinator.set(state=state, producer_epoch=EXHAUSTED)
    assert coordinator.init(asks) == Producer(1001, 0)
    assert coordinator.transaction.previous_producer_id == 7


def test_a_lost_answer_with_a_new_producer_id_is_answered_again():
    coordinator = Coordinator()
    coordinator.set(producer_epoch=EXHAUSTED)
    assert coordinator.init(Producer(7, EXHAUSTED)) == Producer(1001, 0)
    assert coordinator.init(Producer(7, EXHAUSTED)) == Producer(1001, 0)


@pytest.mark.parametrize("level", [0, 1, 2])
def test_an_open_transaction_is_aborted_first_and_the_repetition_has_a_second_bump(level: int):
    coordinator = Coordinator(level)
    coordinator.set(state=TransactionState.ONGOING, partitions=(A,), started_ms=5)
    assert coordinator.init() is ErrorCode.CONCURRENT_TRANSACTIONS
    assert coordinator.state is TransactionState.PREPARE_ABORT
    assert coordinator.transaction.producer == Producer(7, 6)
    assert coordinator.init() is ErrorCode.CONCURRENT_TRANSACTIONS
    coordinator.mark()
    assert coordinator.state is TransactionState.COMPLETE_ABORT
    assert coordinator.init() == Producer(7, 7)


def test_a_fence_is_answered_only_when_it_is_committed():
    coordinator = Coordinator()
    coordinator.set(state=TransactionState.ONGOING, partitions=(A,), started_ms=5)
    coordinator.is_committing = False
    assert coordinator.init() == PENDING
    assert not coordinator.due


def test_the_last_epoch_is_kept_for_fences_and_never_exceeded():
    coordinator = Coordinator()
    coordinator.set(
        state=TransactionState.ONGOING, partitions=(A,), started_ms=5, producer_epoch=EXHAUSTED
    )
    coordinator.init()
    assert coordinator.transaction.producer_epoch == EPOCH_MAX
    coordinator.mark()
    assert coordinator.init() == Producer(1001, 0)
    coordinator.set(
        state=TransactionState.ONGOING, partitions=(A,), started_ms=5, producer_epoch=EPOCH_MAX
    )
    coordinator.init()
    assert coordinator.transaction.producer_epoch == EPOCH_MAX


def test_a_fence_that_was_refused_does_not_bump_twice():
    coordinator = Coordinator()
    coordinator.set(state=TransactionState.ONGOING, partitions=(A,), started_ms=5)
    coordinator.refuses = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert coordinator.init() is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert coordinator.state is TransactionState.ONGOING
    coordinator.refuses = None
    assert coordinator.init() is ErrorCode.CONCURRENT_TRANSACTIONS
    assert coordinator.transaction.producer_epoch == 6


@pytest.mark.parametrize("state", [TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT])
def test_while_markers_are_written_nobody_begins(state: TransactionState):
    coordinator = Coordinator()
    coordinator.set(state=state, partitions=(A,))
    assert coordinator.init() is ErrorCode.CONCURRENT_TRANSACTIONS


def test_while_a_transition_is_pending_nobody_begins():
    coordinator = Coordinator()
    coordinator.is_committing = False
    request = InitProducerId(transactional_id="x", transaction_timeout_ms=1000, fresh_producer_id=5)
    assert coordinator.ask(request) == PENDING
    assert coordinator.ask(request) == PENDING
    coordinator.commit()
    assert coordinator.ask(request) == PENDING
    assert len(coordinator.log) == 2
