"""EndTxn: every state, both versions, with the present producer and with a repeated request."""

from __future__ import annotations

import pytest

from broker.transactions.transaction import EPOCH_BUMP_FROM, EPOCH_MAX, EXHAUSTED, TransactionState
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.producer import Producer
from tests.broker.transactions.coordinator import PENDING, A, B, Coordinator

EMPTY, ONGOING = TransactionState.EMPTY, TransactionState.ONGOING
CC, CA = TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT
PC, PA = TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT
NONE, INVALID = ErrorCode.NONE, ErrorCode.INVALID_TXN_STATE
FENCED, BUSY = ErrorCode.PRODUCER_FENCED, ErrorCode.CONCURRENT_TRANSACTIONS
P = Producer(7, 5)
BEFORE = Producer(7, 4)


def in_state(state: TransactionState, level: int = 2, **fields: int) -> Coordinator:
    coordinator = Coordinator(level)
    partitions = (A, B) if state in (ONGOING, PC, PA) else ()
    coordinator.set(
        **{
            "state": state,
            "partitions": partitions,
            "started_ms": -1 if state is EMPTY else 5,
            "last_producer_epoch": 4,
            "transaction_version": 2,
            **fields,
        }
    )
    return coordinator


@pytest.mark.parametrize(("commit", "state"), [(True, PC), (False, PA)])
def test_version_0_prepares_without_a_bump(commit: bool, state: TransactionState):
    coordinator = in_state(ONGOING, 0)
    assert coordinator.end(P, commit=commit) == P
    assert (coordinator.state, coordinator.transaction.producer) == (state, P)


@pytest.mark.parametrize(("commit", "state"), [(True, PC), (False, PA)])
def test_version_2_prepares_with_the_next_epoch(commit: bool, state: TransactionState):
    coordinator = in_state(ONGOING)
    assert coordinator.end(P, commit=commit, version=2) == Producer(7, 6)
    assert (coordinator.state, coordinator.transaction.producer) == (state, Producer(7, 6))
    assert coordinator.transaction.last_producer_epoch == 5


def test_the_answer_waits_until_the_decision_is_committed_and_so_do_markers():
    coordinator = in_state(ONGOING)
    coordinator.is_committing = False
    assert coordinator.end(P) == PENDING
    assert not coordinator.due
    coordinator.commit()
    assert len(coordinator.due) == 1


@pytest.mark.parametrize(
    ("state", "commit", "expected"),
    [
        (CC, True, NONE),
        (CC, False, INVALID),
        (CA, True, INVALID),
        (CA, False, NONE),
        (EMPTY, True, INVALID),
        (EMPTY, False, INVALID),
    ],
)
def test_version_0_after_the_end(state: TransactionState, commit: bool, expected: ErrorCode):
    coordinator = in_state(state)
    answer = coordinator.end(P, commit=commit)
    assert answer == (P if expected is NONE else expected)
    assert coordinator.state is state


NEXT = "the next transaction: it is aborted, with the next epoch"


@pytest.mark.parametrize(
    ("state", "commit", "is_repeated", "expected"),
    [
        (EMPTY, False, True, FENCED),
        (EMPTY, False, False, NEXT),
        (EMPTY, True, True, FENCED),
        (EMPTY, True, False, INVALID),
        (CA, False, True, NONE),
        (CA, False, False, NEXT),
        (CA, True, True, INVALID),
        (CA, True, False, INVALID),
        (CC, False, True, INVALID),
        (CC, False, False, NEXT),
        (CC, True, True, NONE),
        (CC, True, False, INVALID),
    ],
)
def test_version_2_after_the_end(
    state: TransactionState, commit: bool, is_repeated: bool, expected: ErrorCode | str
):
    coordinator = in_state(state)
    answer = coordinator.end(BEFORE if is_repeated else P, commit=commit, version=2)
    if expected == NEXT:
        assert answer == Producer(7, 6)
        assert coordinator.state is CA
        assert coordinator.transaction.producer == Producer(7, 6)
        assert not coordinator.due
    else:
        assert answer == (P if expected is NONE else expected)
        assert coordinator.state is state


@pytest.mark.parametrize("state", [PC, PA])
@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("producer", [P, BEFORE, Producer(8, 0)])
def test_version_2_while_markers_are_written(
    state: TransactionState, commit: bool, producer: Producer
):
    assert in_state(state).end(producer, commit=commit, version=2) is BUSY


@pytest.mark.parametrize("state", [PC, PA])
@pytest.mark.parametrize("commit", [True, False])
def test_version_0_while_markers_are_written(state: TransactionState, commit: bool):
    coordinator = in_state(state)
    assert coordinator.end(P, commit=commit) is BUSY
    assert coordinator.end(BEFORE, commit=commit) is FENCED
    assert coordinator.end(Producer(8, 5)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_an_unknown_id_and_an_empty_one():
    assert Coordinator().end(P) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    coordinator = in_state(ONGOING)
    assert coordinator.end(Producer(8, 5)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert coordinator.end(Producer(7, 4)) is FENCED
    assert coordinator.end(Producer(7, 6), version=2) is FENCED


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("version", [0, 2])
def test_txn_end_lost_answer_is_repeated_also_after_a_load(version: int, commit: bool):
    coordinator = Coordinator()
    producer = coordinator.init()
    coordinator.add(producer, version=version)
    after = coordinator.end(producer, commit=commit, version=version)
    assert after == Producer(producer.producer_id, 1 if version else 0)
    coordinator.mark()
    for _ in range(2):
        assert coordinator.end(producer, commit=commit, version=version) == after
        coordinator.load()
        assert coordinator.end(producer, commit=commit, version=version) == after


def test_txn_end_lost_answer_with_a_new_producer_id_is_repeated_at_the_last_epoch_of_clients():
    coordinator = in_state(ONGOING, producer_epoch=EXHAUSTED)
    last = Producer(7, EXHAUSTED)
    after = Producer(1001, 0)
    assert coordinator.end(last, version=2) == after
    assert coordinator.transaction.producer == Producer(7, EPOCH_MAX)
    assert (coordinator.due[-1].producer_id, coordinator.due[-1].producer_epoch) == (7, EPOCH_MAX)
    coordinator.mark()
    assert coordinator.transaction.producer == after
    assert coordinator.end(last, version=2) == after
    coordinator.log[0] = (b"", None)
    coordinator.load()
    assert coordinator.end(last, version=2) == after


def test_at_the_epoch_of_fences_an_abort_goes_through_without_a_bump():
    coordinator = in_state(ONGOING, producer_epoch=EPOCH_MAX)
    coordinator.end(Producer(7, EPOCH_MAX), commit=False, version=2)
    assert coordinator.transaction.producer == Producer(7, EPOCH_MAX)
    assert coordinator.state is PA
    # A leader takes a marker of version 2 only in a later epoch than the transaction.
    assert coordinator.due[-1].transaction_version < EPOCH_BUMP_FROM


def test_a_fence_at_the_epoch_of_fences_has_markers_that_leaders_take():
    coordinator = in_state(ONGOING, producer_epoch=EPOCH_MAX)
    coordinator.init()
    assert coordinator.state is PA
    assert coordinator.due[-1].transaction_version < EPOCH_BUMP_FROM


@pytest.mark.parametrize("is_loaded", [False, True])
@pytest.mark.parametrize("version", [0, 2])
def test_a_producer_whose_transaction_took_too_long_cannot_commit_and_aborts_as_with_kafka(
    version: int, is_loaded: bool
):
    coordinator = Coordinator(version)
    producer = coordinator.init(timeout_ms=1000)
    coordinator.add(producer, version=version)
    coordinator.load()
    coordinator.wait(20_000)
    coordinator.mark()
    if is_loaded:
        coordinator.load()
    else:
        late = coordinator.end(producer, commit=True, version=version)
        assert late is (INVALID if version else FENCED)
    answer = coordinator.end(producer, commit=False, version=version)
    # With version 2 it learns its next epoch, which nobody else was given, and goes on.
    assert answer == (Producer(producer.producer_id, 1) if version else FENCED)


def test_the_epoch_of_fences_is_told_to_nobody_who_aborts():
    coordinator = in_state(ONGOING, producer_epoch=EXHAUSTED)
    coordinator.init()
    coordinator.mark()
    assert coordinator.transaction.producer == Producer(7, EPOCH_MAX)
    assert coordinator.end(Producer(7, EXHAUSTED), commit=False, version=2) is FENCED
    coordinator.load()
    assert coordinator.end(Producer(7, EXHAUSTED), commit=False, version=2) is FENCED


def test_who_was_fenced_by_another_producer_is_not_given_its_epoch():
    coordinator = Coordinator()
    first = coordinator.init()
    second = coordinator.init()
    coordinator.add(second, version=0)
    coordinator.end(second, commit=False, version=0)
    coordinator.mark()
    assert coordinator.end(first, commit=False, version=2) is FENCED
