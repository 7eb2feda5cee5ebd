"""Batches of the metadata log: built as Kafka builds them, read as strictly as Kafka reads them."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jbodlab.metadata.log.batches import MetadataBatch, control_batch, read_batches
from jbodlab.metadata.records import frame
from jbodlab.metadata.records.config_records import NoOpRecord
from jbodlab.metadata.records.control_records import KRaftVersionRecord, LeaderChangeMessage, Voter
from jbodlab.metadata.records.frame import VersionedRecord
from jbodlab.metadata.records.topic_records import TopicRecord
from jbodlab.record_batch.crc32c import crc32c
from jbodlab.record_batch.record_batch import CONTROL, build_batch, read_header
from jbodlab.vocabulary import kafka_uuid
from jbodlab.vocabulary.errors import DecodeError
from jbodlab.vocabulary.ids import TopicId
from tests.metadata_batches import data_batch

GOLDEN = Path(__file__).parents[3] / "golden" / "metadata_batches.txt"
LINES = [line for line in GOLDEN.read_text().splitlines() if line and line[0] != "#"]
BATCHES = {name: bytes.fromhex(text) for name, text in (line.split(":") for line in LINES)}
TIME_MS = 1_700_000_000_000

FOO = TopicRecord(name="foo", topic_id=TopicId(kafka_uuid.parse("5JPuABiJTPu2pQjpZWM6_A")))
DATA = (VersionedRecord(FOO, 0), VersionedRecord(NoOpRecord(), 0))
NO_OP = frame.encode(NoOpRecord(), 0)


def test_data_batch_is_kafkas() -> None:
    built = data_batch(DATA, base_offset=1, epoch=1, timestamp_ms=TIME_MS)

    assert built == BATCHES["data"]
    assert list(read_batches(built)) == [
        MetadataBatch(
            base_offset=1,
            last_offset=2,
            epoch=1,
            timestamp_ms=TIME_MS,
            is_control=False,
            records=((1, DATA[0]), (2, DATA[1])),
            size=len(built),
            crc=read_header(built).crc,
        )
    ]


def test_leader_change_batch_is_kafkas() -> None:
    voters = (Voter(voter_id=1),)
    record = LeaderChangeMessage(leader_id=1, voters=voters, granting_voters=voters)

    built = control_batch(record, base_offset=0, epoch=1, timestamp_ms=TIME_MS)

    assert built == BATCHES["leader_change"]
    (batch,) = read_batches(memoryview(built))
    assert batch.is_control
    assert batch.records == ((0, record),)
    assert batch.data_records == ()


def test_control_records_can_share_a_batch() -> None:
    records = (LeaderChangeMessage(leader_id=1), KRaftVersionRecord(k_raft_version=1))

    (batch,) = read_batches(control_batch(*records, base_offset=5, epoch=2, timestamp_ms=9))

    assert batch.records == ((5, records[0]), (6, records[1]))


def test_incomplete_last_batch_is_the_end() -> None:
    one, two = BATCHES["leader_change"], BATCHES["data"]

    assert len(list(read_batches(one + two))) == 2
    assert len(list(read_batches(one + two[:-1]))) == 1
    assert list(read_batches(b"")) == []


def with_body(body: str, *, attributes: int = 0, count: int = 1) -> bytes:
    batch = bytearray(build_batch([(None, NO_OP)] * count, timestamp_ms=TIME_MS))
    del batch[61:]
    batch += bytes.fromhex(body)
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    struct.pack_into(">h", batch, 21, attributes)
    struct.pack_into(">I", batch, 17, crc32c(batch[21:]))
    return bytes(batch)


def test_body_that_is_right_is_accepted() -> None:
    assert len(list(read_batches(with_body("14 00 00 00 01 08 01140000 00")))) == 1


@pytest.mark.parametrize(
    "data",
    [
        with_body("14 00 02 00 01 08 01140000 00"),  # timestamp delta
        with_body("14 00 00 02 01 08 01140000 00"),  # offset delta that leaves a gap
        with_body("16 00 00 00 02 6b 08 01140000 00"),  # key
        with_body("1a 00 00 00 01 08 01140000 02 02 6b 01"),  # headers
        with_body("0c 00 00 00 01 01 00"),  # null value
        with_body("0c 00 00 00 01 00 00"),  # empty value
        with_body("14 00 00 00 01 08 01140000 00", attributes=CONTROL),  # no key
        with_body("", count=1),
        build_batch([(b"\x00\x00\x00\x01", b"\x00\x00")], timestamp_ms=0, attributes=CONTROL),
        BATCHES["data"][:17] + b"\x00" + BATCHES["data"][18:],  # checksum
        bytes(200),
    ],
    ids=range(11),
)
def test_batches_that_the_metadata_log_never_has_are_refused(data: bytes) -> None:
    with pytest.raises(DecodeError):
        list(read_batches(data))


@settings(max_examples=200)
@given(st.sampled_from(sorted(BATCHES)), st.integers(0, 1000), st.integers(1, 255), st.booleans())
def test_damage_is_noticed(name: str, position: int, flip: int, mend_checksum: bool) -> None:
    data = bytearray(BATCHES[name])
    position %= len(data)
    data[position] ^= flip
    if mend_checksum:
        struct.pack_into(">I", data, 17, crc32c(data[21:]))

    try:
        batches = list(read_batches(bytes(data)))
    except DecodeError:
        return
    # Offset, length and epoch lie outside the checksum; a longer length is a torn tail.
    assert mend_checksum or position < 16
    assert len(batches) <= 1


def test_every_truncation_is_a_torn_tail() -> None:
    data = BATCHES["kraft_voters"]

    for size in range(len(data)):
        assert list(read_batches(data[:size])) == []
