"""Record boundaries found by columns are those that reading one record after the other finds."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analytics.read.arrays import padded, signed_varints, unsigned_varints
from analytics.read.batch_headers import chain, crc_is_right, headers
from analytics.read.batch_records import LANE_RECORDS, find_records
from jbodlab.record_batch.crc32c import crc32c
from jbodlab.record_batch.record_batch import (
    HEADER,
    LOG_APPEND_TIME,
    BatchRecord,
    crc_is_valid,
    iterate_records,
    read_header,
)
from jbodlab.record_batch.varint import varint
from jbodlab.vocabulary.errors import DecodeError
from tests.analytics.examples import examples


def record(
    delta: int,
    value: bytes | None,
    *,
    key: bytes | None = None,
    time: int = 0,
    attributes: int = 0,
    headers: bytes = b"\x00",
) -> bytes:
    body = bytes([attributes]) + varint(time) + varint(delta)
    for part in (key, value):
        body += varint(-1) if part is None else varint(len(part)) + part
    body += headers
    return varint(len(body)) + body


def batch(base_offset: int, records: list[bytes], *, attributes: int = 0, count: int = -1) -> bytes:
    body = b"".join(records)
    size = len(records) if count < 0 else count
    tail = struct.pack(
        ">hiqqqhii", attributes, max(0, size - 1), 1000, 2000, -1, -1, -1, size
    ) + body  # fmt: skip
    head = HEADER.pack(base_offset, 49 + len(body), 3, 2, 0, *[0] * 8)[:17]
    return head + struct.pack(">I", crc32c(tail)) + tail


def found(raw: bytes) -> tuple[list[BatchRecord], set[int]]:
    """Return the records that columns find, and the batches that they leave aside."""
    data = padded(np.frombuffer(raw, dtype=np.uint8))
    positions, reached = chain(raw, 0, len(raw))
    assert reached == len(raw)
    records, odd = find_records(raw, data, headers(data, positions))
    values = [
        None if size < 0 else raw[start : start + size]
        for start, size in zip(records.start.tolist(), records.size.tolist(), strict=True)
    ]
    keys = [None] * len(values)
    columns = (records.offset.tolist(), records.timestamp.tolist(), keys, values)
    return list(map(BatchRecord, *columns)), set(np.nonzero(odd)[0].tolist())


def check(raws: list[bytes]) -> set[int]:
    """Hold what columns find against the plain reader; return the batches left aside."""
    records, odd = found(b"".join(raws))
    expected: list[BatchRecord] = []
    for index, raw in enumerate(raws):
        try:
            plain = list(iterate_records(raw))
        except DecodeError:
            assert index in odd
            continue
        if index not in odd:
            expected += (BatchRecord(r.offset, r.timestamp, None, r.value) for r in plain)
    assert records == expected
    return odd


values = (
    st.none() | st.binary(max_size=3) | st.binary(min_size=50, max_size=70) | st.just(b"x" * 9000)
)
records_of_one = st.builds(
    record,
    st.integers(-1, 3) | st.integers(60, 70),
    values,
    key=st.none() | st.binary(max_size=3),
    time=st.just(0) | st.integers(-(2**40), 2**40) | st.just(2**62),
    attributes=st.sampled_from([0, 0, 7]),
    headers=st.sampled_from([b"\x00", b"\x00", b"\x00", b"\x02\x02a\x01", b"\x01", b""]),
)


@examples(50, 300, data=st.data())
def test_records_are_those_that_reading_one_by_one_finds(data: st.DataObject) -> None:
    raws = []
    for index in range(data.draw(st.integers(1, 5))):
        records = data.draw(st.lists(records_of_one, max_size=4))
        raw = batch(
            index * 100,
            records,
            attributes=data.draw(st.sampled_from([0, LOG_APPEND_TIME])),
            count=data.draw(st.sampled_from([-1, -1, -1, 0, 1, 5, 2**31 - 1])),
        )
        if len(raw) > 61 and data.draw(st.booleans()):
            at = data.draw(st.integers(61, len(raw) - 1))
            raw = raw[:at] + bytes([data.draw(st.integers(0, 255))]) + raw[at + 1 :]
        raws.append(raw)
    check(raws)


@pytest.mark.parametrize("count", [1, 63, 64, 65, 128, 129, 1000, 8193, 20000])
def test_batches_of_any_size_are_read_by_columns(count: int) -> None:
    large = batch(7, [record(n, bytes([n % 251]) * (n % 90)) for n in range(count)])
    small = batch(7 + count, [record(0, b"abc")])

    assert check([small, large, small, large]) == set()


@pytest.mark.parametrize(
    "records",
    [
        # The value holds the very bytes that record number 64 begins with.
        [record(n, record(LANE_RECORDS, b"")[1:5] * 9) for n in range(5 * LANE_RECORDS)],
        [record(7, b"value")] * 5 * LANE_RECORDS,
    ],
    ids=["bytes that look like the next lane", "numbers that lanes do not look for"],
)
def test_lanes_are_not_misled(records: list[bytes]) -> None:
    assert check([batch(0, records)]) == set()


def test_a_damaged_large_batch_is_left_aside_alone() -> None:
    sound = batch(0, [record(n, b"value") for n in range(300)])
    damaged = bytearray(sound)
    damaged[2000:2040] = bytes(40)

    assert check([sound, bytes(damaged), sound]) == {1}


def test_compressed_and_control_batches_are_left_aside() -> None:
    plain = batch(0, [record(0, b"v")])

    assert check([plain, batch(1, [record(0, b"v")], attributes=0x20)]) == {1}
    assert found(plain + batch(1, [b"junk"], attributes=1, count=1))[1] == {1}


def test_every_crc_is_checked() -> None:
    raws = [batch(n, [record(0, bytes([n]))]) for n in range(5)]
    raws[3] = raws[3][:-2] + b"\x7f" + raws[3][-1:]
    raw = b"".join(raws)
    data = np.frombuffer(raw, dtype=np.uint8)

    right = crc_is_right(raw, headers(data, chain(raw, 0, len(raw))[0]))

    assert right.tolist() == [crc_is_valid(one, 0, read_header(one)) for one in raws]
    assert right.tolist() == [True, True, True, False, True]


@given(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-200, 20000)))
def test_varlongs(numbers: list[int]) -> None:
    raw = b"".join(map(varint, numbers)) + bytes(16)
    starts = np.cumsum([0, *(len(varint(number)) for number in numbers)])

    read, behind, bad = signed_varints(
        np.frombuffer(raw, dtype=np.uint8), starts[:-1].astype(np.int64), 10
    )

    assert read.tolist() == numbers
    assert behind.tolist() == starts[1:].tolist()
    assert bad is None or not bad.any()


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"\xff\xff\xff\xff\x0f", 2**32 - 1),
        (b"\xff\xff\xff\xff\x10", None),
        (b"\x80\x80\x80\x80\x80\x00", None),
        (b"\x80\x00", 0),
        (b"\xff\x7f", 16383),
    ],
)
def test_unsigned_varints_have_32_bits(raw: bytes, expected: int | None) -> None:
    data = np.frombuffer(raw + bytes(16), dtype=np.uint8)

    read, _, bad = unsigned_varints(data, np.array([0], dtype=np.int64))

    assert (None if bad is not None and bad[0] else read[0]) == expected
