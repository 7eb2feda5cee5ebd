"""Record batch v2: header, records, stamping, and what damaged bytes do."""

from __future__ import annotations

import errno
import gzip
import os
import struct
from pathlib import Path

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jbodlab.record_batch import compression
from jbodlab.record_batch.crc32c import crc32c
from jbodlab.record_batch.record_batch import (
    CRC_START,
    HEADER,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    BatchRecord,
    build_batch,
    crc_is_valid,
    iterate_headers,
    iterate_records,
    read_header,
)
from jbodlab.vocabulary.errors import BufferUnderflowError, DecodeError

GOLDEN = Path(__file__).parents[2] / "golden" / "metadata_batches.txt"
TIME_MS = 1_700_000_000_000

Pairs = list[tuple[bytes | None, bytes | None]]
pairs = st.lists(
    st.tuples(st.none() | st.binary(max_size=200), st.none() | st.binary(max_size=200)),
    min_size=1,
    max_size=5,
)


def golden_batches() -> dict[str, bytes]:
    lines = [line for line in GOLDEN.read_text().splitlines() if line and line[0] != "#"]
    return {name: bytes.fromhex(text) for name, text in (line.split(":") for line in lines)}


def with_records(body: bytes, *, count: int, attributes: int = 0) -> bytes:
    """Build a batch around given bytes, with a valid CRC."""
    header = (0, HEADER_SIZE - 12 + len(body), 0, 2, 0, attributes, count - 1)
    batch = bytearray(HEADER.pack(*header, TIME_MS, TIME_MS + 5, -1, -1, -1, count) + body)
    struct.pack_into(">I", batch, 17, crc32c(batch[CRC_START:]))
    return bytes(batch)


@pytest.mark.parametrize("name", golden_batches())
def test_kafkas_batches_have_valid_checksums(name: str) -> None:
    data = golden_batches()[name]

    header = read_header(data)

    assert header.size == len(data)
    assert crc_is_valid(data, 0, header)
    assert header.base_timestamp == header.max_timestamp == TIME_MS


def test_kafkas_data_batch_is_built_byte_for_byte() -> None:
    data = golden_batches()["data"]
    values = [record.value for record in iterate_records(data)]

    built = build_batch(
        [(None, value) for value in values], base_offset=1, leader_epoch=1, timestamp_ms=TIME_MS
    )

    assert built == data
    assert read_header(data).next_offset == 3
    assert not read_header(data).is_control


@given(pairs, st.integers(0, 2**62), st.integers(-1, 2**31 - 1))
def test_records_come_back_as_they_went_in(records: Pairs, offset: int, epoch: int) -> None:
    data = build_batch(records, base_offset=offset, leader_epoch=epoch, timestamp_ms=TIME_MS)

    header = read_header(data)

    assert (header.base_offset, header.partition_leader_epoch) == (offset, epoch)
    assert header.last_offset == offset + len(records) - 1
    assert list(iterate_records(data)) == [
        BatchRecord(offset + index, TIME_MS, key, value)
        for index, (key, value) in enumerate(records)
    ]


def test_stamping_offset_and_epoch_keeps_the_checksum_valid() -> None:
    data = build_batch([(b"k", b"v")], timestamp_ms=TIME_MS)

    _, head = read_header(data).stamped(base_offset=77, leader_epoch=4)
    stamped = head + data[len(head) :]

    header = read_header(stamped)
    assert (header.base_offset, header.partition_leader_epoch) == (77, 4)
    assert crc_is_valid(stamped, 0, header)


def test_sequence_begins_again_after_the_largest() -> None:
    data = build_batch(
        [(None, b"a"), (None, b"b"), (None, b"c")],
        timestamp_ms=TIME_MS,
        attributes=TRANSACTIONAL,
        producer_id=5,
        producer_epoch=0,
        base_sequence=2**31 - 2,
    )
    header = read_header(data)

    assert header.last_sequence == 0
    assert header.is_transactional
    assert read_header(build_batch([(None, b"")], timestamp_ms=0)).last_sequence == -1


def test_batches_are_iterated_until_the_incomplete_one() -> None:
    one = build_batch([(None, b"a")], timestamp_ms=TIME_MS)
    two = build_batch([(None, b"b")], base_offset=1, timestamp_ms=TIME_MS)
    data = memoryview(one + two + one[:-1])

    found = [(position, header.base_offset) for position, header in iterate_headers(data)]

    assert found == [(0, 0), (len(one), 1)]


def test_log_append_time_is_the_time_of_every_record() -> None:
    record = bytes.fromhex("0e 00 06 00 02 6b 01 00")  # timestamp delta 3

    by_create = list(iterate_records(with_records(record, count=1)))
    by_append = list(iterate_records(with_records(record, count=1, attributes=LOG_APPEND_TIME)))

    assert by_create == [BatchRecord(0, TIME_MS + 3, b"k", None)]
    assert by_append == [BatchRecord(0, TIME_MS + 5, b"k", None)]


def test_record_headers_are_read() -> None:
    body = bytes.fromhex("00 00 00 01 01 04 02 61 02 78 04 c3a4 01")  # a=x, ä=null
    record = bytes([len(body) << 1]) + body

    (read,) = iterate_records(with_records(record, count=1))

    assert read.headers == (("a", b"x"), ("ä", None))


@pytest.mark.parametrize(
    ("codec", "compressed"),
    [
        (compression.GZIP, gzip.compress),
        (compression.SNAPPY, lambda data: bytes(cramjam.snappy.compress_raw(data))),
        (compression.LZ4, lambda data: bytes(cramjam.lz4.compress(data))),
        (compression.ZSTD, lambda data: bytes(cramjam.zstd.compress(data))),
    ],
)
def test_compressed_batches_are_decompressed(codec, compressed) -> None:  # type: ignore[no-untyped-def]
    plain = build_batch([(b"k", b"v" * 100), (None, b"w")], timestamp_ms=TIME_MS)
    body = compressed(plain[HEADER_SIZE:])
    data = with_records(body, count=2, attributes=codec)

    records = list(iterate_records(data))

    assert [record.value for record in records] == [b"v" * 100, b"w"]
    with pytest.raises(DecodeError, match="damaged"):
        list(iterate_records(with_records(b"\x01\x02\x03garbage", count=2, attributes=codec)))


def test_snappy_blocks_of_the_java_library_are_joined() -> None:
    plain = build_batch([(None, b"x" * 50)], timestamp_ms=TIME_MS)[HEADER_SIZE:]
    blocks = [bytes(cramjam.snappy.compress_raw(part)) for part in (plain[:20], plain[20:])]
    framed = compression.XERIAL_MAGIC + struct.pack(">ii", 1, 1)
    framed += b"".join(struct.pack(">i", len(block)) + block for block in blocks)

    assert compression.decompress(compression.SNAPPY, framed) == plain
    with pytest.raises(DecodeError):
        compression.decompress(compression.SNAPPY, framed[:-1])


def test_unknown_codec_is_refused() -> None:
    with pytest.raises(DecodeError, match="codec 7"):
        list(iterate_records(with_records(b"x", count=1, attributes=7)))


def test_header_that_cannot_be_one_is_refused() -> None:
    data = build_batch([(None, b"a")], timestamp_ms=TIME_MS)

    with pytest.raises(BufferUnderflowError):
        read_header(data[:60])
    with pytest.raises(DecodeError, match="magic 1"):
        read_header(data[:16] + b"\x01" + data[17:])
    with pytest.raises(DecodeError, match="length 48"):
        read_header(data[:8] + struct.pack(">i", 48) + data[12:])
    with pytest.raises(DecodeError):
        list(iterate_headers(bytes(100)))


@pytest.mark.parametrize(
    ("body", "count"),
    [
        ("", 1),  # fewer records than counted
        ("0c 00 00 00 01 01 00", 2),
        ("0c 00 00 00 01 01 00 00", 1),  # bytes behind the last record
        ("0e 00 00 00 01 01 00 00", 1),  # a record longer than its fields
        ("0a 00 00 00 01 01 00", 1),  # and one shorter
        ("00", 1),  # an empty record
        ("0c 00 00 00 03 01 00", 1),  # a negative key size that is not null
        ("0c 00 00 00 01 01 02", 1),  # a header that is not there
        ("0e 00 00 00 01 01 02 01", 1),  # a header without a key
        ("ff ff ff ff ff ff", 1),  # a varint without an end
    ],
)
def test_malformed_records_are_refused(body: str, count: int) -> None:
    with pytest.raises(DecodeError):
        list(iterate_records(with_records(bytes.fromhex(body), count=count)))


@settings(max_examples=50)
@given(pairs, st.data())
def test_damaged_batch_gives_a_defined_error_or_records(
    records: Pairs, draw: st.DataObject
) -> None:
    data = build_batch(records, timestamp_ms=TIME_MS)
    position = draw.draw(st.integers(0, len(data) - 1))
    changed = bytearray(data)
    changed[position] ^= draw.draw(st.integers(1, 255))

    for damaged in (bytes(changed), data[:position]):
        try:
            for at, header in iterate_headers(damaged):
                # Only what lies outside the checksum may change without notice.
                assert not crc_is_valid(damaged, at, header) or position < CRC_START
                list(iterate_records(damaged, at, header))
        except DecodeError:
            pass


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_a_lack_of_memory_is_not_damaged_data(monkeypatch, codec):
    data = compression.compress(codec, b"v" * 100)

    def no_memory(*_arguments):
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    monkeypatch.setattr(compression, "_decompress_within", no_memory)
    with pytest.raises(MemoryError):
        compression.decompress(codec, data, 1000)


@pytest.mark.parametrize("codec", [1, 3, 4])
def test_a_codec_without_memory_says_nothing_of_the_data(monkeypatch, codec):
    data = compression.compress(codec, b"v" * 100)

    class NoMemory:
        @staticmethod
        def decompress(_data):
            raise MemoryError

    monkeypatch.setattr(cramjam, compression.CODEC_NAMES[codec], NoMemory)
    with pytest.raises(MemoryError):
        compression.decompress(codec, data)
