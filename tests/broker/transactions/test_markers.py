"""From the decision to the end: markers, loads, timeouts, refused records, expiry."""

from __future__ import annotations

import pytest

from broker.transactions.transaction import TransactionState
from jbodlab.transaction_records.records import decode
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.producer import Producer
from tests.broker.transactions.coordinator import A, B, Coordinator

P = Producer(7, 5)
PC, PA = TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT
CC, CA = TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT
DAY_MS = 86_400_000


def open_one(level: int = 2, **settings: int) -> tuple[Coordinator, Producer]:
    coordinator = Coordinator(level, **settings)
    producer = coordinator.init()
    coordinator.add(producer, A, B, version=level)
    return coordinator, producer


@pytest.mark.parametrize(("commit", "state"), [(True, CC), (False, CA)])
def test_it_is_complete_when_all_markers_are_written(commit: bool, state: TransactionState):
    coordinator, producer = open_one()
    coordinator.end(producer, commit=commit, version=2)
    coordinator.mark(A)
    assert coordinator.state in (PC, PA)
    assert list(coordinator.describe().partitions) == [B]
    coordinator.mark(B)
    assert coordinator.state is state
    assert coordinator.transaction.partitions == ()
    assert coordinator.describe().partitions == ()


def test_markers_of_version_2_have_the_epoch_after_the_transaction():
    for level, epoch in ((0, 0), (2, 1)):
        coordinator, producer = open_one(level)
        coordinator.end(producer, version=level)
        (due,) = coordinator.due
        assert (due.producer_epoch, due.transaction_version) == (epoch, level)
        assert due.committed
        assert due.partitions == (A, B)


def test_a_marker_that_is_reported_twice_or_late_changes_nothing():
    coordinator, producer = open_one()
    after = coordinator.end(producer, version=2)
    coordinator.mark()
    end = len(coordinator.log)
    coordinator.mark()
    assert len(coordinator.log) == end
    coordinator.add(after, A, version=2)
    coordinator.end(after, version=2)
    old, new = coordinator.due
    coordinator.mark(A, due=old)
    assert coordinator.state is PC
    coordinator.mark(A, due=new)
    assert coordinator.state is CC


@pytest.mark.parametrize("commit", [True, False])
def test_after_a_load_all_markers_are_written_again(commit: bool):
    coordinator, producer = open_one()
    coordinator.end(producer, commit=commit, version=2)
    coordinator.mark(A)
    coordinator.load()
    (due,) = coordinator.due
    assert due.partitions == (A, B)
    assert due.committed is commit
    coordinator.mark()
    assert coordinator.state in (CC, CA)


def test_a_decision_above_the_high_watermark_has_no_markers_after_a_load_until_it_is_committed():
    coordinator, producer = open_one()
    coordinator.end(producer, version=2)
    high_watermark = len(coordinator.log) - 1
    fresh = Coordinator()
    fresh.log, fresh.is_committing = coordinator.log, False
    for offset, (key, value) in enumerate(fresh.log):
        fresh.core.replay(decode(key, value), offset, offset + 1)
    fresh.core.committed_up_to(high_watermark)
    fresh.carry_out(fresh.core.loaded(fresh.now_ms))
    assert not fresh.due
    fresh.commit()
    assert len(fresh.due) == 1


def test_a_decision_that_is_committed_too_late_for_its_answer_has_its_markers():
    coordinator, producer = open_one()
    coordinator.is_committing = False
    coordinator.end(producer, version=2)
    coordinator.give_up_waiting()
    coordinator.wait(5_000)
    assert not coordinator.due
    coordinator.is_committing = True
    coordinator.commit()
    coordinator.wait(1_000)
    assert len(coordinator.due) == 1
    coordinator.mark()
    assert coordinator.state is CC


@pytest.mark.parametrize("at_once", [True, False])
def test_an_end_whose_record_was_refused_is_written_later(at_once: bool):
    coordinator, producer = open_one()
    coordinator.end(producer, version=2)
    if not at_once:
        coordinator.mark(A)
    coordinator.refuses = ErrorCode.COORDINATOR_NOT_AVAILABLE
    coordinator.mark()
    coordinator.wait(5_000)
    assert coordinator.state is PC
    coordinator.refuses = None
    coordinator.wait(1_000)
    assert coordinator.state is CC


def test_an_abort_of_nothing_whose_end_was_refused_is_written_later():
    coordinator = Coordinator()
    producer = coordinator.init()
    coordinator.is_committing = False
    coordinator.end(producer, commit=False, version=2)
    coordinator.refuses = ErrorCode.COORDINATOR_NOT_AVAILABLE
    coordinator.commit()
    assert coordinator.state is PA
    coordinator.is_committing, coordinator.refuses = True, None
    coordinator.wait(1_000)
    assert coordinator.state is CA


@pytest.mark.parametrize("level", [0, 2])
def test_a_transaction_that_takes_too_long_is_aborted_with_one_bump(level: int):
    coordinator, producer = open_one(level)
    coordinator.load()
    coordinator.wait(60_000)
    assert coordinator.state is TransactionState.ONGOING
    coordinator.wait(10_000)
    assert coordinator.state is PA
    assert coordinator.transaction.producer_epoch == producer.producer_epoch + 1
    coordinator.mark()
    assert coordinator.state is CA
    coordinator.wait(100_000)
    assert coordinator.transaction.producer_epoch == producer.producer_epoch + 1


def test_a_timeout_whose_record_was_refused_is_tried_again():
    coordinator, _ = open_one()
    coordinator.load()
    coordinator.refuses = ErrorCode.COORDINATOR_NOT_AVAILABLE
    coordinator.wait(100_000)
    assert coordinator.state is TransactionState.ONGOING
    coordinator.refuses = None
    coordinator.wait(1_000)
    assert coordinator.state is PA
    assert len(coordinator.due) == 1


@pytest.mark.parametrize("ahead_ms", [0, 3_000_000])
@pytest.mark.parametrize("is_open", [False, True])
def test_a_transaction_times_out_where_the_former_coordinators_clock_was_ahead(
    is_open: bool, ahead_ms: int
) -> None:
    coordinator = Coordinator()
    coordinator.now_ms += ahead_ms
    producer = coordinator.init()
    if is_open:
        coordinator.add(producer)
    coordinator.now_ms -= ahead_ms
    coordinator.load()
    if not is_open:
        coordinator.add(producer)
    coordinator.wait(50_000)
    assert coordinator.state is TransactionState.ONGOING
    coordinator.wait(20_001)
    assert coordinator.state is PA


def test_the_clock_of_the_timeout_is_the_stored_start():
    coordinator, _ = open_one()
    coordinator.now_ms += 70_000
    coordinator.load()
    coordinator.wait(0)
    assert coordinator.state is PA


def test_an_unused_id_is_forgotten_and_begins_anew():
    coordinator = Coordinator()
    producer = coordinator.init()
    coordinator.load()
    coordinator.wait(6 * DAY_MS)
    assert "x" in coordinator.core.tables.written
    coordinator.wait(2 * DAY_MS)
    assert "x" not in coordinator.core.tables.written
    assert coordinator.log[-1][1] is None
    assert coordinator.add(producer) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert coordinator.describe().error_code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert coordinator.init() == Producer(1002, 0)


def test_many_unused_ids_are_forgotten_in_several_batches():
    coordinator = Coordinator()
    for number in range(1_200):
        coordinator.init(name=f"id-{number}")
    coordinator.load()
    coordinator.wait(8 * DAY_MS)
    assert not coordinator.core.tables.written


@pytest.mark.parametrize("state", [PC, PA])
def test_an_id_in_use_is_not_forgotten(state: TransactionState):
    coordinator = Coordinator()
    coordinator.set(state=state, partitions=(A,))
    coordinator.carry_out(coordinator.core.loaded(coordinator.now_ms))
    coordinator.wait(8 * DAY_MS)
    assert coordinator.state is state
