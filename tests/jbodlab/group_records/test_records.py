"""Records of `__consumer_offsets` against the bytes and the JSON of Kafka's own classes."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from jbodlab.group_records import keys, values
from jbodlab.group_records.keys import KEY_TYPES
from jbodlab.group_records.records import GroupRecord, decode, decode_value, encode
from jbodlab.group_records.values import VALUE_TYPES, OffsetCommitValue
from jbodlab.kafka_wire.codec import encode_body
from jbodlab.kafka_wire.schema import EncodeError
from jbodlab.metadata.records.json_text import data_text
from jbodlab.vocabulary.errors import DecodeError, UnknownRecordTypeError

GOLDEN = Path(__file__).parents[2] / "golden" / "group_records_4.3.1.tsv"
LINES = [line.split("\t") for line in GOLDEN.read_text().splitlines() if not line.startswith("#")]
KEY = keys.OffsetCommitKey(group="g", topic="t", partition=0)


def as_bytes(text: str) -> bytes | None:
    return None if text == "null" else bytes.fromhex(text)


def version_of(value: bytes) -> int:
    return int(struct.unpack_from(">h", value)[0])


def test_golden_records_cover_every_type_and_version() -> None:
    found = {
        (version_of(bytes.fromhex(key)), None if value == "null" else version_of(as_bytes(value)))  # type: ignore[arg-type]
        for key, value, _, _ in LINES
    }
    expected = {
        (number, version)
        for number, key_type in KEY_TYPES.items()
        # Kafka knows no later version of the oldest type.
        for version in (None, *range(VALUE_TYPES[key_type].HIGHEST_VERSION * (number > 0) + 1))
    }

    assert found | {(0, None)} == expected


@pytest.mark.parametrize("line", LINES, ids=lambda line: f"{line[0][:4]} {line[1][:4]}")
def test_bytes_of_kafka_are_read_printed_and_written_as_kafka_does(line: list[str]) -> None:
    key_text, value_text, key_json, value_json = line
    key, value = bytes.fromhex(key_text), as_bytes(value_text)

    record = decode(key, value)

    assert data_text(record.key, 0) == key_json
    assert encode(record)[0] == key
    if value is None:
        assert record.value is None
        return
    decoded, version = decode_value(type(record.key), value)
    assert decoded == record.value
    assert version == version_of(value)
    assert data_text(decoded, version) == value_json
    assert value[:2] + encode_body(decoded, version) == value
    assert decode(*encode(record)) == record
    if version == decoded.written_version:
        assert encode(record)[1] == value


@pytest.mark.parametrize(
    ("value", "version"),
    [
        (OffsetCommitValue(offset=1, leader_epoch=2), 4),
        (OffsetCommitValue(offset=1, expire_timestamp=9), 1),
        (values.GroupMetadataValue(), 3),
        (values.ConsumerGroupMetadataValue(), 0),
    ],
)
def test_version_that_is_written(value: values.GroupValue, version: int) -> None:
    assert value.written_version == version


def test_member_of_the_new_protocol_is_said_to_be_one() -> None:
    """Kafka takes a member without the field for a classic one, and its session for over."""
    key = keys.ConsumerGroupMemberMetadataKey(group_id="g", member_id="m")
    value = values.ConsumerGroupMemberMetadataValue(
        client_id="c", client_host="/h", subscribed_topic_names=()
    )

    written = encode(GroupRecord(key, value))[1]

    assert written is not None
    assert written.endswith(bytes.fromhex("0001000100"))
    # Logs of this project from before are without it, and mean the same.
    before = written[:-4] + b"\0"
    assert decode(encode(GroupRecord(key, None))[0], before).value == value


def test_struct_that_is_neither_present_nor_null_is_refused() -> None:
    key = keys.ConsumerGroupMemberMetadataKey(group_id="g", member_id="m")
    encoded_key, written = encode(GroupRecord(key, values.ConsumerGroupMemberMetadataValue()))

    assert written is not None
    assert written.endswith(b"\1\0")
    with pytest.raises(DecodeError, match="presence 2"):
        decode(encoded_key, written[:-1] + b"\2")


def test_offset_with_an_end_has_no_room_for_a_leader_epoch() -> None:
    record = GroupRecord(KEY, OffsetCommitValue(leader_epoch=3, expire_timestamp=9))

    with pytest.raises(EncodeError):
        encode(record)


@pytest.mark.parametrize("number", [9, 15, 17, -1])
def test_type_of_another_kind_of_group_is_named(number: int) -> None:
    with pytest.raises(UnknownRecordTypeError) as raised:
        decode(struct.pack(">h", number) + b"whatever", None)

    assert raised.value.record_type == number


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b""),
        (b"", None),
        (b"\0", None),
        (encode(GroupRecord(KEY, None))[0] + b"\0", None),
        (encode(GroupRecord(KEY, None))[0], b"\0"),
        (encode(GroupRecord(KEY, None))[0], b"\0\x05" + bytes(40)),
        (encode(GroupRecord(KEY, None))[0], b"\xff\xff" + bytes(40)),
        (b"\0\2\xff\xff", None),
    ],
    ids=["no key", "empty key", "half a type", "long key", "short value", "version", "-1", "null"],
)
def test_what_is_no_record_is_refused(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(DecodeError):
        decode(key, value)


@pytest.mark.parametrize("line", LINES, ids=lambda line: f"{line[0][:4]} {line[1][:4]}")
def test_record_cut_short_or_changed_gives_a_defined_error_or_another_record(
    line: list[str],
) -> None:
    key, value = bytes.fromhex(line[0]), as_bytes(line[1])
    for size in range(len(key)):
        with pytest.raises(DecodeError):
            decode(key[:size], value)
    for size in range(len(value or b"")):
        with pytest.raises(DecodeError):
            decode(key, value[:size] if value else None)
    for at in range(min(len(value or b""), 120)):
        for flipped in (0x01, 0x80, 0xFF):
            damaged = bytearray(value or b"")
            damaged[at] ^= flipped
            try:
                decode(key, bytes(damaged))
            except DecodeError:
                continue
