"""ListTransactions with all filters, DescribeTransactions."""

from __future__ import annotations

from typing import Any

from broker.transactions.requests import ListTransactions
from broker.transactions.transaction import TransactionState
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.producer import Producer
from tests.broker.transactions.coordinator import A, B, Coordinator


def listed(coordinator: Coordinator, **filters: Any) -> list[str]:
    listed = coordinator.ask(ListTransactions(**filters))
    return [each.transactional_id for each in listed if each is not None]


def several() -> Coordinator:
    coordinator = Coordinator()
    for name in ("a-1", "a-2", "b-1"):
        coordinator.init(name=name)
    coordinator.set(state=TransactionState.ONGOING, started_ms=coordinator.now_ms - 100)
    return coordinator


def test_without_filters_all_are_listed():
    assert listed(several()) == ["a-1", "a-2", "b-1", "x"]


def test_what_filters_leave_out_takes_its_turn_in_the_list():
    assert [*several().ask(ListTransactions(state_filters=("Nonsense",)))] == [None] * 4


def test_states_producer_ids_patterns_and_durations_are_filters():
    coordinator = several()
    assert listed(coordinator, state_filters=("Ongoing",)) == ["x"]
    assert listed(coordinator, state_filters=("Empty", "Nonsense")) == ["a-1", "a-2", "b-1"]
    assert listed(coordinator, state_filters=("Nonsense",)) == []
    assert listed(coordinator, producer_id_filters=(1001, 7)) == ["a-1", "x"]
    assert listed(coordinator, transactional_id_pattern="a-.*") == ["a-1", "a-2"]
    assert listed(coordinator, transactional_id_pattern="a") == []
    assert "x" not in listed(coordinator, duration_ms=100)
    assert "x" in listed(coordinator, duration_ms=99)


def test_a_pattern_that_is_none_is_refused():
    refused = several().ask(ListTransactions(transactional_id_pattern="("))
    assert refused is ErrorCode.INVALID_REGULAR_EXPRESSION


def test_a_transaction_is_described():
    coordinator = Coordinator()
    producer = coordinator.init()
    assert coordinator.describe().start_time_ms == -1
    coordinator.add(producer, B, A)
    found = coordinator.describe()
    assert found.state is TransactionState.ONGOING
    assert found.state.title == "Ongoing"
    assert Producer(found.producer_id, found.producer_epoch) == producer
    assert (found.timeout_ms, found.start_time_ms) == (60_000, coordinator.now_ms)
    assert list(found.partitions) == [A, B]


def test_readers_are_told_what_is_committed():
    coordinator = Coordinator()
    producer = coordinator.init()
    coordinator.is_committing = False
    coordinator.add(producer)
    committed = coordinator.core.tables.committed("x")
    assert committed is not None
    assert committed.state is TransactionState.EMPTY


def test_an_unknown_and_an_empty_id_are_told_so():
    coordinator = Coordinator()
    assert coordinator.describe().error_code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert coordinator.describe("").error_code is ErrorCode.INVALID_REQUEST
