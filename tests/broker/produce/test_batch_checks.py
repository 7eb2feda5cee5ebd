from __future__ import annotations

import gzip
import struct

import cramjam
import pytest

from broker.bounds.limits import BYTES_AT_ONCE, RECORDS_AT_ONCE, RECORDS_BYTES_MAX, RECORDS_RATIO
from broker.produce.batch_checks import CheckedBatch, check_body, check_header, takes_long
from broker.replica.partition.topic_settings import BatchLimits
from jbodlab.record_batch import record_batch
from jbodlab.record_batch.compression import LZ4, SNAPPY, compress
from jbodlab.record_batch.crc32c import crc32c
from jbodlab.record_batch.record_batch import build_batch
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError

LIMITS = BatchLimits(max_message_bytes=1000, segment_bytes=2000)
NOW_MS = 10_000


def accept_batch(records: bytes | None, limits: BatchLimits, now_ms: int) -> CheckedBatch:
    header = check_header(records, limits)
    assert records is not None
    return check_body(records, header, limits, now_ms)


def with_field(data: bytes, position: int, format_: str, value: int) -> bytes:
    """Change a field that the CRC covers, and make the CRC right again."""
    changed = bytearray(data)
    struct.pack_into(format_, changed, position, value)
    struct.pack_into(">I", changed, 17, crc32c(memoryview(changed)[21:]))
    return bytes(changed)


def batch(**arguments: int) -> bytes:
    return build_batch([(b"k", b"v"), (None, b"w")], timestamp_ms=9_000, **arguments)  # type: ignore[arg-type]


def refusal(records: bytes | None, limits: BatchLimits = LIMITS) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        accept_batch(records, limits, NOW_MS)
    return caught.value.code


def test_good_batch_is_kept_as_it_came() -> None:
    data = batch(producer_id=5, producer_epoch=0, base_sequence=7)

    accepted = accept_batch(data, LIMITS, NOW_MS)

    assert accepted.data is data
    assert (accepted.header.records_count, accepted.header.base_sequence) == (2, 7)


@pytest.mark.parametrize(
    ("records", "code"),
    [
        (None, ErrorCode.INVALID_RECORD),
        (b"", ErrorCode.INVALID_RECORD),
        (batch() + batch(), ErrorCode.INVALID_RECORD),
        (batch()[:40], ErrorCode.CORRUPT_MESSAGE),
        (batch()[:-1], ErrorCode.CORRUPT_MESSAGE),
        (batch()[:-1] + b"?", ErrorCode.CORRUPT_MESSAGE),
        (batch()[:16] + b"\x01" + batch()[17:], ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT),
        (batch(base_offset=1), ErrorCode.INVALID_RECORD),
        (with_field(batch(), 57, ">i", 3), ErrorCode.INVALID_RECORD),
        (with_field(batch(), 57, ">i", 0), ErrorCode.INVALID_RECORD),
        (with_field(batch(), 23, ">i", -1), ErrorCode.INVALID_RECORD),
        (batch(attributes=record_batch.CONTROL), ErrorCode.INVALID_RECORD),
        (batch(attributes=record_batch.TRANSACTIONAL), ErrorCode.INVALID_RECORD),
        (with_field(batch(), 21, ">h", 5), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (with_field(batch(), 21, ">h", 8), ErrorCode.INVALID_TIMESTAMP),
        (batch(producer_id=5, producer_epoch=0), ErrorCode.INVALID_RECORD),
    ],
)
def test_bad_batch_is_refused(records: bytes | None, code: ErrorCode) -> None:
    assert refusal(records) is code


def test_sizes_are_limited_by_message_and_by_segment() -> None:
    size = len(batch())

    assert accept_batch(batch(), BatchLimits(max_message_bytes=size, segment_bytes=size), NOW_MS)
    small = BatchLimits(max_message_bytes=size - 1, segment_bytes=size)
    assert refusal(batch(), small) is ErrorCode.MESSAGE_TOO_LARGE
    short = BatchLimits(max_message_bytes=size, segment_bytes=size - 1)
    assert refusal(batch(), short) is ErrorCode.RECORD_LIST_TOO_LARGE


def test_compacted_topic_wants_a_key_in_every_record() -> None:
    limits = BatchLimits(max_message_bytes=1000, segment_bytes=2000, compacted=True)

    assert refusal(batch(), limits) is ErrorCode.INVALID_RECORD
    assert accept_batch(build_batch([(b"k", b"v")], timestamp_ms=1), limits, NOW_MS)


def test_timestamps_outside_the_window_are_refused() -> None:
    def limits(before_ms: int, after_ms: int) -> BatchLimits:
        return BatchLimits(
            max_message_bytes=1000,
            segment_bytes=2000,
            timestamp_before_max_ms=before_ms,
            timestamp_after_max_ms=after_ms,
        )

    assert accept_batch(batch(), limits(1000, 0), NOW_MS)
    assert refusal(batch(), limits(999, 0)) is ErrorCode.INVALID_TIMESTAMP
    future = build_batch([(None, b"v")], timestamp_ms=NOW_MS + 5)
    assert accept_batch(future, limits(0, 5), NOW_MS)
    assert refusal(future, limits(0, 4)) is ErrorCode.INVALID_TIMESTAMP


def test_append_time_is_written_with_a_valid_crc() -> None:
    limits = BatchLimits(max_message_bytes=1000, segment_bytes=2000, log_append_time=True)

    accepted = accept_batch(batch(), limits, NOW_MS)

    assert accepted.header.max_timestamp == NOW_MS
    assert accepted.header.attributes & record_batch.LOG_APPEND_TIME
    assert record_batch.crc_is_valid(accepted.data, 0, accepted.header)
    records = list(record_batch.iterate_records(accepted.data))
    assert [record.timestamp for record in records] == [NOW_MS, NOW_MS]


def sealed(data: bytes) -> bytes:
    """Give a batch that was changed a right CRC."""
    crc = crc32c(data[record_batch.CRC_START :])
    return data[: record_batch.CRC_OFFSET] + struct.pack(">I", crc) + data[record_batch.CRC_START :]


def test_body_that_is_no_records_is_refused_though_its_crc_is_right() -> None:
    good = build_batch([(b"key", b"value")] * 3, timestamp_ms=1000)
    body = len(good) - record_batch.HEADER_SIZE
    for garbage in (b"\xff" * body, b"\x00" * body, b"\x02" * body, good[61:62] + b"\x7f" * 99):
        assert refusal(
            sealed(good[:8] + struct.pack(">i", 49 + len(garbage)) + good[12:61] + garbage)
        ) is (ErrorCode.INVALID_RECORD)


@pytest.mark.parametrize("codec", [0, 4])
def test_count_that_no_batch_of_its_size_can_have_is_refused(codec: int) -> None:
    good = bytearray(build_batch([(None, b"value")], timestamp_ms=1000))
    good[21:23] = codec.to_bytes(2, "big")
    good[23:27] = struct.pack(">i", 2**31 - 2)
    good[57:61] = struct.pack(">i", 2**31 - 1)
    assert refusal(sealed(bytes(good))) is ErrorCode.INVALID_RECORD


def lz4_frame(data: bytes, *, content_checksum: bool = False, block_linked: bool = False) -> bytes:
    compressor = cramjam.lz4.Compressor(
        content_checksum=content_checksum, block_linked=block_linked
    )
    compressor.compress(data)
    return bytes(compressor.finish())


COMPRESS = {
    1: gzip.compress,
    2: lambda data: bytes(cramjam.snappy.compress_raw(data)),
    LZ4: lambda data: lz4_frame(data),
    4: lambda data: bytes(cramjam.zstd.compress(data)),
}
"""By number of the codec."""


def with_body(data: bytes, body: bytes, codec: int = 0) -> bytes:
    """Give a batch other records."""
    head = bytearray(data[: record_batch.HEADER_SIZE])
    head[8:12] = struct.pack(">i", record_batch.HEADER_SIZE - 12 + len(body))
    head[21:23] = codec.to_bytes(2, "big")
    return sealed(bytes(head) + body)


def compressed(data: bytes, codec: int) -> bytes:
    return with_body(data, COMPRESS[codec](data[record_batch.HEADER_SIZE :]), codec)


@pytest.mark.parametrize(
    ("data", "is_long"),
    [
        (batch(), False),
        (build_batch([(None, b"")] * RECORDS_AT_ONCE, timestamp_ms=1), False),
        (build_batch([(None, b"")] * (RECORDS_AT_ONCE + 1), timestamp_ms=1), True),
        (build_batch([(None, bytes(BYTES_AT_ONCE))], timestamp_ms=1), True),
        (compressed(batch(), 1), True),
    ],
    ids=["small", "many records", "too many records", "large", "compressed"],
)
def test_what_takes_long_is_told_by_the_header(data: bytes, is_long: bool) -> None:
    limits = BatchLimits(max_message_bytes=1 << 20, segment_bytes=1 << 20)

    assert takes_long(check_header(data, limits)) is is_long


@pytest.mark.parametrize("codec", COMPRESS)
def test_compressed_batch_is_kept_as_it_came(codec: int) -> None:
    data = compressed(batch(), codec)

    accepted = accept_batch(data, LIMITS, NOW_MS)

    assert accepted.data is data
    assert takes_long(accepted.header)


@pytest.mark.parametrize("codec", COMPRESS)
@pytest.mark.parametrize("position", [0, 3, 5, 11])
def test_records_of_a_compressed_batch_are_checked_as_uncompressed_ones(
    codec: int, position: int
) -> None:
    """Size, offset delta, size of the value and number of headers of the second of three."""
    good = build_batch([(None, b"value")] * 3, timestamp_ms=9_000)
    size = (len(good) - record_batch.HEADER_SIZE) // 3
    broken = bytearray(good)
    broken[record_batch.HEADER_SIZE + size + position] ^= 0x7E

    assert refusal(sealed(bytes(broken))) is ErrorCode.INVALID_RECORD
    assert refusal(compressed(bytes(broken), codec)) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", COMPRESS)
def test_what_cannot_be_decompressed_is_refused(codec: int) -> None:
    good = COMPRESS[codec](batch()[record_batch.HEADER_SIZE :])

    for body in (good[:-1], b"", b"\x00" * 20, good + b"\x01"):
        assert refusal(with_body(batch(), body, codec)) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("checksums", [False, True])
@pytest.mark.parametrize("independent", [False, True])
def test_lz4_frames_are_refused_unless_javas_clients_can_read_them(
    independent: bool, checksums: bool
) -> None:
    records = batch()[record_batch.HEADER_SIZE :]
    frame = lz4_frame(records, content_checksum=checksums, block_linked=not independent)
    skipped = bytes.fromhex("502a4d1801000000ff")

    if not independent:
        assert refusal(with_body(batch(), frame, LZ4)) is ErrorCode.INVALID_RECORD
        return
    accept_batch(with_body(batch(), frame, LZ4), LIMITS, NOW_MS)
    # They read the first frame and no other, and know none that is to be skipped.
    for body in (frame + frame, skipped + frame, frame + skipped, frame[:9], frame[:4]):
        assert refusal(with_body(batch(), body, LZ4)) is ErrorCode.INVALID_RECORD
    half = len(records) // 2
    both = COMPRESS[LZ4](records[:half]) + COMPRESS[LZ4](records[half:])
    assert refusal(with_body(batch(), both, LZ4)) is ErrorCode.INVALID_RECORD


def test_snappy_data_of_an_incompatible_version_is_refused() -> None:
    body = compress(SNAPPY, batch()[record_batch.HEADER_SIZE :])
    accept_batch(with_body(batch(), body, SNAPPY), LIMITS, NOW_MS)

    for size, version in ((16, bytes(4)), (16, b"\xff" * 4), (12, b"")):
        broken = body[: size - 4] + version + body[16:]
        assert refusal(with_body(batch(), broken, SNAPPY)) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", COMPRESS)
def test_batch_that_decompresses_to_too_much_is_refused_without_taking_the_memory(
    codec: int,
) -> None:
    bomb = with_body(batch(), COMPRESS[codec](bytes(RECORDS_BYTES_MAX + 1)), codec)
    roomy = BatchLimits(max_message_bytes=1 << 30, segment_bytes=1 << 30)
    assert RECORDS_RATIO * len(bomb) < RECORDS_BYTES_MAX

    with pytest.raises(KafkaError, match="larger than 67108864 bytes uncompressed") as caught:
        accept_batch(bomb, roomy, NOW_MS)

    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE


def with_deltas(deltas: list[int], base_timestamp: int, max_timestamp: int) -> bytes:
    """Build a batch of records with timestamps of their own, small ones."""
    body = b"".join(
        bytes([16, 0, 2 * delta if delta >= 0 else -2 * delta - 1, 2 * number, 1, 4])
        + b"vv"
        + b"\0"
        for number, delta in enumerate(deltas)
    )
    made = build_batch([(None, b"")] * len(deltas), timestamp_ms=base_timestamp)
    return with_field(with_body(made, body), 35, ">q", max_timestamp)


@pytest.mark.parametrize("codec", [0, 4])
@pytest.mark.parametrize("claimed", [9_000, 9_003, 2**62])
def test_largest_timestamp_is_set_right_where_the_records_have_another(
    codec: int, claimed: int
) -> None:
    data = with_deltas([0, 3, -5, 1], 9_000, claimed)
    data = data if not codec else compressed(data, codec)

    accepted = accept_batch(data, LIMITS, NOW_MS)

    assert accepted.header.max_timestamp == 9_003
    assert record_batch.crc_is_valid(accepted.data, 0, accepted.header)
    assert max(r.timestamp for r in record_batch.iterate_records(accepted.data)) == 9_003
    assert (accepted.data is data) == (claimed == 9_003)


@pytest.mark.parametrize("number", [0, 1, 30])
def test_timestamp_of_any_record_outside_the_window_is_refused(number: int) -> None:
    limits = BatchLimits(
        max_message_bytes=1000,
        segment_bytes=2000,
        timestamp_before_max_ms=10,
        timestamp_after_max_ms=10,
    )
    assert accept_batch(with_deltas([0] * 31, NOW_MS, NOW_MS), limits, NOW_MS)
    for delta in (-11, 11):
        deltas = [0] * 31
        deltas[number] = delta
        assert refusal(with_deltas(deltas, NOW_MS, NOW_MS), limits) is ErrorCode.INVALID_TIMESTAMP


def test_batch_without_timestamps_is_in_every_window() -> None:
    limits = BatchLimits(
        max_message_bytes=1000,
        segment_bytes=2000,
        timestamp_before_max_ms=0,
        timestamp_after_max_ms=0,
    )
    data = build_batch([(None, b"v")], timestamp_ms=-1)

    assert accept_batch(data, limits, NOW_MS).header.max_timestamp == -1


def test_timestamp_that_no_header_can_hold_is_refused() -> None:
    data = with_deltas([1], 2**63 - 1, 2**63 - 1)
    limits = BatchLimits(max_message_bytes=1000, segment_bytes=2000)

    assert refusal(data, limits) is ErrorCode.INVALID_TIMESTAMP


@pytest.mark.parametrize("keyless", [0, 1, 40])
def test_compacted_topic_wants_a_key_in_each_of_many_records(keyless: int) -> None:
    limits = BatchLimits(max_message_bytes=4000, segment_bytes=4000, compacted=True)
    records: list[tuple[bytes | None, bytes]] = [(b"k", b"v")] * 41
    assert accept_batch(build_batch(records, timestamp_ms=1), limits, NOW_MS)
    records[keyless] = (None, b"vv")

    assert refusal(build_batch(records, timestamp_ms=1), limits) is ErrorCode.INVALID_RECORD
