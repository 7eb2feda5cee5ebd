"""Records of `__transaction_state`, byte for byte."""

from __future__ import annotations

import pytest

from jbodlab.transaction_records.records import (
    TransactionLogKey,
    TransactionLogValue,
    TransactionPartitions,
    TransactionRecord,
    decode,
    encode,
)
from jbodlab.vocabulary.errors import DecodeError, UnknownRecordTypeError

KEY = bytes.fromhex("0000 0002 7478")
VALUE = TransactionLogValue(
    producer_id=7,
    producer_epoch=1,
    transaction_timeout_ms=60_000,
    transaction_status=1,
    transaction_partitions=(TransactionPartitions(topic="t", partition_ids=(0, 1)),),
    transaction_last_update_timestamp_ms=5,
    transaction_start_timestamp_ms=4,
)
HEAD = "0000000000000007 0001 0000ea60 01"
TIMES = "0000000000000005 0000000000000004"


def record(version: int, **fields: int) -> TransactionRecord:
    values = {name: getattr(VALUE, name) for name in VALUE.__slots__ if name != "unknown_tags"}
    value = TransactionLogValue(**{**values, **fields})
    return TransactionRecord(TransactionLogKey(transactional_id="tx"), value, version)


def test_version_0_has_lengths_of_fixed_width():
    expected = f"0000 {HEAD} 00000001 0001 74 00000002 00000000 00000001 {TIMES}"
    assert encode(record(0)) == (KEY, bytes.fromhex(expected))


def test_version_1_has_tags_for_what_is_not_at_its_default():
    expected = (
        f"0001 {HEAD} 02 02 74 03 00000000 00000001 00 {TIMES}"
        "03 00 08 0000000000000006 01 08 0000000000000009 02 02 0002"
    )
    tagged = record(1, previous_producer_id=6, next_producer_id=9, client_transaction_version=2)
    assert encode(tagged) == (KEY, bytes.fromhex(expected))


def test_in_state_empty_there_are_no_partitions():
    found = record(1, transaction_status=0)
    empty = found._replace(
        value=TransactionLogValue(
            producer_id=7,
            producer_epoch=1,
            transaction_timeout_ms=60_000,
            transaction_status=0,
            transaction_partitions=None,
            transaction_last_update_timestamp_ms=5,
            transaction_start_timestamp_ms=-1,
        )
    )
    _, value = encode(empty)
    expected = "0001 0000000000000007 0001 0000ea60 00 00 0000000000000005 ffffffffffffffff 00"
    assert value == bytes.fromhex(expected)
    assert decode(KEY, value) == empty


@pytest.mark.parametrize("version", [0, 1])
def test_what_is_written_is_read(version: int):
    assert decode(*encode(record(version))) == record(version)


def test_a_null_value_is_a_tombstone():
    tombstone = TransactionRecord(TransactionLogKey(transactional_id="tx"), None)
    assert encode(tombstone) == (KEY, None)
    assert decode(KEY, None) == tombstone


def test_another_record_type_is_unknown():
    with pytest.raises(UnknownRecordTypeError):
        decode(bytes.fromhex("0001 0002 7478"), None)


@pytest.mark.parametrize(
    ("key", "value"),
    [(None, b""), (b"\0", b""), (KEY, b""), (KEY, b"\0\2"), (KEY, b"\0\1"), (KEY + b"\0", None)],
)
def test_anything_else_is_damage(key: bytes | None, value: bytes | None):
    with pytest.raises(DecodeError):
        decode(key, value)
