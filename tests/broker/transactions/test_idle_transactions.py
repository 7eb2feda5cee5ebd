"""Idle transactional ids that a load leaves as it has read them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from broker.transactions.settings import TransactionSettings
from broker.transactions.tables import TransactionTables
from broker.transactions.transaction import (
    PREPARED,
    Transaction,
    TransactionState,
    from_idle,
    from_value,
    idle_id,
    to_record,
)
from broker.transactions.transaction_core import TransactionCore
from jbodlab.transaction_records.records import decode, encode
from jbodlab.vocabulary.errors import DecodeError
from jbodlab.vocabulary.ids import TopicPartition

INT16, INT32, INT64 = (st.integers(-(1 << bits), (1 << bits) - 1) for bits in (15, 31, 63))
STORED = [each for each in TransactionState if each <= TransactionState.COMPLETE_ABORT]
TRANSACTIONS = st.builds(
    Transaction,
    producer_id=INT64,
    previous_producer_id=INT64,
    next_producer_id=st.just(-1) | INT64,
    producer_epoch=INT16,
    timeout_ms=INT32,
    state=st.sampled_from(STORED),
    partitions=st.just(()) | st.just((TopicPartition("t", 1),)),
    updated_ms=INT64,
    started_ms=INT64,
    transaction_version=st.sampled_from((0, 1, 2)) | INT16,
)
SETTINGS = TransactionSettings()
IDLE = Transaction(
    producer_id=7,
    previous_producer_id=6,
    producer_epoch=3,
    timeout_ms=60_000,
    state=TransactionState.COMPLETE_COMMIT,
    updated_ms=9,
    started_ms=8,
)


@given(TRANSACTIONS, st.text(max_size=40), st.sampled_from((0, 1, 2)))
def test_an_idle_transaction_is_what_its_decoded_record_says(
    transaction: Transaction, name: str, level: int
):
    key, value = encode(to_record(name, transaction, level))
    found = decode(key, value)
    if idle_id(key, value) is None:
        return
    assert value is not None
    assert found.value is not None
    assert idle_id(key, value) == found.key.transactional_id == name
    assert from_idle(value) == from_value(found.value)


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("state", STORED)
def test_only_what_has_ended_or_never_began_is_left_as_it_was_read(
    state: TransactionState, version: int
):
    record = to_record("x", replace(IDLE, state=state, transaction_version=version), 2)
    goes_on = state is TransactionState.ONGOING or state in PREPARED
    assert idle_id(*encode(record)) == (None if goes_on else "x")


@given(st.data())
def test_bytes_that_are_no_record_are_left_to_the_decoder(data: st.DataObject):
    key, value = encode(to_record("x-1", IDLE, 2))
    assert value is not None
    parts = [bytearray(key), bytearray(value)]
    for _ in range(data.draw(st.integers(1, 3))):
        part = data.draw(st.sampled_from(parts))
        place = data.draw(st.integers(0, len(part) - 1))
        way = data.draw(st.sampled_from(("other", "gone", "more")))
        if way == "other":
            part[place] = data.draw(st.integers(0, 255))
        elif way == "more":
            part.insert(place, data.draw(st.integers(0, 255)))
        elif len(part) > 1:
            del part[place]
    changed, changed_value = map(bytes, parts)
    name = idle_id(changed, changed_value)
    try:
        found = decode(changed, changed_value)
        assert found.value is not None
        decoded = from_value(found.value)
    except DecodeError:
        assert name is None
    else:
        assert name in (None, found.key.transactional_id)
        assert name is None or from_idle(changed_value) == decoded


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.none() | TRANSACTIONS, st.sampled_from((0, 1, 2))),
        max_size=12,
    )
)
def test_a_log_read_without_decoding_gives_the_state_that_its_records_give(
    log: list[tuple[str, Transaction | None, int]],
):
    read, decoded = TransactionCore(SETTINGS, lambda: 2), TransactionCore(SETTINGS, lambda: 2)
    for core in (read, decoded):
        core.committed_up_to(len(log))
    for offset, (name, transaction, level) in enumerate(log):
        key, value = encode(to_record(name, transaction, level))
        record = decode(key, value)
        if not read.replay_bytes(key, value):
            read.replay(record, offset, offset + 1)
        decoded.replay(record, offset, offset + 1)
    assert [*read.tables.written.snapshot()] == [*decoded.tables.written.snapshot()]
    assert [*read.tables.all_committed()] == [*decoded.tables.all_committed()]
    assert [*read.tables.ongoing] == [*decoded.tables.ongoing]
    assert [*read.tables.prepared] == [*decoded.tables.prepared]


def test_what_was_left_as_it_was_read_is_found_listed_and_replaced():
    tables = TransactionTables()
    _, value = encode(to_record("x", IDLE, 2))
    assert value is not None
    tables.committed_up_to(10)
    tables.write(5, "x", replace(IDLE, state=TransactionState.ONGOING))
    tables.write_idle("x", value)
    assert not tables.ongoing
    assert [*tables.written.snapshot()] == [*tables.all_committed()] == [("x", IDLE)]
    assert tables.written["x"] is tables.written["x"] is tables.committed("x")
    tables.write(12, "x", None)
    assert "x" not in tables.written
    assert tables.committed("x") == IDLE
    assert [*tables.all_committed()] == [("x", IDLE)]


def test_a_list_of_all_leaves_idle_transactions_as_they_were_read():
    tables = TransactionTables()
    _, value = encode(to_record("x", IDLE, 2))
    assert value is not None
    tables.committed_up_to(10)
    tables.write_idle("x", value)

    ((_, found),) = tables.all_committed()

    assert found == IDLE
    assert tables.written["x"] is not found


def test_a_list_of_all_is_of_the_moment_when_it_was_asked_for():
    tables = TransactionTables()
    tables.committed_up_to(10)
    tables.write(5, "x", IDLE)
    tables.write(5, "y", IDLE)

    listed = tables.all_committed()
    tables.write(12, "x", None)
    tables.write(12, "z", IDLE)
    tables.committed_up_to(20)

    assert [*listed] == [("x", IDLE), ("y", IDLE)]
