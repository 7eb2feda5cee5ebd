"""The envelope, tagged fields, and what bytes that are no record do."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jbodlab.kafka_wire.schema import EncodeError
from jbodlab.metadata.records import frame
from jbodlab.metadata.records.cluster_records import (
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
    UnregisterControllerRecord,
)
from jbodlab.metadata.records.config_records import BeginTransactionRecord, ConfigRecord, NoOpRecord
from jbodlab.metadata.records.registry import RECORD_TYPES
from jbodlab.metadata.records.schema import RawRecord, Record
from jbodlab.metadata.records.topic_records import (
    ClearElrRecord,
    PartitionChangeRecord,
    PartitionRecord,
    TopicRecord,
)
from jbodlab.record_batch.varint import uvarint
from jbodlab.vocabulary.directory_id import MIGRATING
from jbodlab.vocabulary.errors import BufferUnderflowError, DecodeError
from jbodlab.vocabulary.ids import BrokerEpoch, BrokerId, TopicId
from jbodlab.vocabulary.kafka_uuid import ONE_UUID
from tests.jbodlab.metadata.records.strategies import versioned_records

TOPIC = TopicId(ONE_UUID)


@settings(max_examples=150)
@given(versioned_records())
def test_every_record_comes_back_as_it_was(versioned: tuple[Record, int]) -> None:
    record, version = versioned

    data = frame.encode(record, version)

    assert frame.decode(data) == (record, version)
    assert frame.encode(*frame.decode(memoryview(data))) == data


@settings(max_examples=150)
@given(versioned_records(), st.data())
def test_damaged_record_gives_a_defined_error_or_another_record(
    versioned: tuple[Record, int], draw: st.DataObject
) -> None:
    data = frame.encode(*versioned)
    position = draw.draw(st.integers(0, len(data) - 1))
    changed = bytearray(data)
    changed[position] ^= draw.draw(st.integers(1, 255))

    with pytest.raises(DecodeError):
        frame.decode(data[:position])
    try:
        record, _ = frame.decode(bytes(changed))
    except DecodeError:
        return
    assert isinstance(record, Record)


def test_every_type_of_the_catalogue_is_known() -> None:
    assert sorted(RECORD_TYPES) == [*range(6), *range(7, 13), 14, 15, *range(17, 30)]
    highest = {key: cls.HIGHEST_VERSION for key, cls in RECORD_TYPES.items() if cls.HIGHEST_VERSION}
    assert highest == {0: 4, 3: 2, 5: 2, 17: 3}
    assert all(cls.NAME.endswith("_RECORD") for cls in RECORD_TYPES.values())


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "has no value"),
        ("00140000", "frame version 0"),
        ("02140000", "frame version 2"),
        ("0114000000", "1 unexpected bytes"),
        ("01", "cut short"),
        ("01808080808000", "varint"),
        ("01ffff030000", "type 65535"),
        ("0114ffff0300", "version 65535"),
        ("010200 00 00000000000000000000000000000001 00", "null"),
        ("010200 02ff 00000000000000000000000000000001 00", "UTF-8"),
        ("010500 00000000 00000000000000000000000000000001 01 00 05 ff 00000009", "length"),
    ],
)
def test_bytes_that_are_no_record_are_refused(text: str, error: str) -> None:
    with pytest.raises(DecodeError, match=error):
        frame.decode(bytes.fromhex(text))


def test_missing_value_is_refused() -> None:
    with pytest.raises(DecodeError):
        frame.decode(None)
    with pytest.raises(BufferUnderflowError):
        frame.decode(bytes.fromhex("0114 00"))


def test_record_of_unknown_type_is_kept_as_it_is() -> None:
    data = bytes.fromhex("01 7f 03 0102030405")

    record, version = frame.decode(data)

    assert record == RawRecord(api_key=127, version=3, body=b"\x01\x02\x03\x04\x05")
    assert version == 3
    assert frame.encode(record, version) == data


def test_version_above_the_highest_is_read_with_the_highest_layout() -> None:
    assert frame.decode(bytes.fromhex("01140900")) == (NoOpRecord(), 9)
    with pytest.raises(EncodeError, match="versions 0-0, got 9"):
        frame.encode(NoOpRecord(), 9)


def test_unknown_tags_are_kept_in_place() -> None:
    data = bytes.fromhex("011700 02 00 02 0161 05 03 aabbcc".replace("0161", "0261"))

    record, version = frame.decode(data)

    assert record == BeginTransactionRecord(name="a", unknown_tags=((5, b"\xaa\xbb\xcc"),))
    assert frame.encode(record, version) == data


def test_unknown_tag_beyond_the_end_is_refused() -> None:
    with pytest.raises(DecodeError):
        frame.decode(bytes.fromhex("011400 01 05 04 aabbcc"))


def test_tag_of_a_later_version_is_refused() -> None:
    in_version_2 = BrokerRegistrationChangeRecord(log_dirs=(MIGRATING,))
    data = bytearray(frame.encode(in_version_2, 2))
    data[2] = 1

    with pytest.raises(DecodeError, match="v1 has no tag 2"):
        frame.decode(bytes(data))


def test_tags_are_accepted_in_any_order() -> None:
    head = "010501 00000000 00000000000000000000000000000001"
    swapped = bytes.fromhex(head + "02 01 04 00000009 00 05 02 00000009")

    record, _ = frame.decode(swapped)

    assert record == PartitionChangeRecord(
        partition_id=0, topic_id=TOPIC, isr=(BrokerId(9),), leader=BrokerId(9)
    )


def test_field_that_the_version_lacks_is_not_dropped_silently() -> None:
    with pytest.raises(EncodeError, match="v0 has no directories"):
        frame.encode(PartitionChangeRecord(directories=()), 0)
    with pytest.raises(EncodeError, match="v3 has no cordoned_log_dirs"):
        frame.encode(RegisterBrokerRecord(cordoned_log_dirs=()), 3)


def test_value_that_does_not_fit_is_refused() -> None:
    with pytest.raises(EncodeError):
        frame.encode(PartitionRecord(partition_id=2**31), 0)
    with pytest.raises(EncodeError, match="32768 bytes"):
        frame.encode(ConfigRecord(name="x" * 32_768), 0)
    with pytest.raises(EncodeError):
        frame.encode(ConfigRecord(name=None), 0)  # type: ignore[arg-type]


def test_string_that_is_longer_than_kafka_allows_is_refused() -> None:
    def topic(size: int) -> bytes:
        return b"\1\2\0" + uvarint(size + 1) + b"x" * size + TOPIC.bytes + b"\0"

    assert frame.decode(topic(32_767)).record == TopicRecord(name="x" * 32_767, topic_id=TOPIC)
    with pytest.raises(DecodeError, match="32768 bytes"):
        frame.decode(topic(32_768))


def test_empty_list_is_written_where_null_means_no_change() -> None:
    no_change = frame.encode(PartitionChangeRecord(topic_id=TOPIC), 1)
    emptied = frame.encode(PartitionChangeRecord(topic_id=TOPIC, removing_replicas=()), 1)

    assert no_change.endswith(bytes.fromhex("00"))
    assert emptied.endswith(bytes.fromhex("01 03 01 01"))


def test_records_of_later_releases_have_their_bytes() -> None:
    broker = bytes(12) + b"\x07"
    cordoned = BrokerRegistrationChangeRecord(
        broker_id=BrokerId(0), broker_epoch=BrokerEpoch(7), cordoned_log_dirs=()
    )

    assert frame.encode(cordoned, 3) == bytes.fromhex("011103") + broker[1:] + bytes.fromhex(
        "01 03 01 01"
    )
    assert frame.encode(ClearElrRecord(topic_name=""), 0) == bytes.fromhex("011c00 01 00")
    assert frame.encode(UnregisterControllerRecord(controller_id=3), 0) == bytes.fromhex(
        "011d00 00000003 00"
    )


def test_ids_that_are_read_again_are_the_same_objects() -> None:
    data = frame.encode(TopicRecord(name="foo", topic_id=TopicId(UUID(int=77))), 0)

    first, second = (frame.decode(data).record for _ in range(2))

    assert isinstance(first, TopicRecord)
    assert isinstance(second, TopicRecord)
    assert first.topic_id is second.topic_id
