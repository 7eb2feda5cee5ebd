from __future__ import annotations

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from jbodlab.record_batch.record_batch import HEADER_SIZE, build_batch, header_of, iterate_records
from jbodlab.record_batch.record_validation import WalkedRecords, check_records
from jbodlab.vocabulary.errors import DecodeError

values = st.none() | st.binary(max_size=200)


def batch(records: list[tuple[bytes | None, bytes | None]]) -> bytes:
    return build_batch(records, timestamp_ms=1000)


@given(st.lists(st.tuples(values, values), min_size=1, max_size=40))
def test_well_formed_records_pass(records: list[tuple[bytes | None, bytes | None]]) -> None:
    check_records(batch(records), HEADER_SIZE, len(records))


@pytest.mark.parametrize("count", [1, 2, 8, 63, 64, 65, 200, 8191, 8192, 8300])
@pytest.mark.parametrize("size", [0, 1, 100])
def test_records_of_one_size_pass(count: int, size: int) -> None:
    check_records(batch([(None, b"v" * size)] * count), HEADER_SIZE, count)


@given(st.lists(st.tuples(values, values), min_size=1, max_size=40), st.data())
def test_another_count_or_length_is_found(
    records: list[tuple[bytes | None, bytes | None]], data: st.DataObject
) -> None:
    good = batch(records)
    for count in {len(records) - 1, len(records) + 1, 2**31 - 1} - {0}:
        with pytest.raises(DecodeError):
            check_records(good, HEADER_SIZE, count)
    cut = data.draw(st.integers(1, len(good) - HEADER_SIZE))
    with pytest.raises(DecodeError):
        check_records(good[:-cut], HEADER_SIZE, len(records))
    with pytest.raises(DecodeError):
        check_records(good + b"\0", HEADER_SIZE, len(records))


def signed_varint(number: int) -> bytes:
    zigzag = number << 1 if number >= 0 else (-number << 1) - 1
    encoded = bytearray()
    while zigzag > 0x7F:
        encoded.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    return bytes((*encoded, zigzag))


def sized(data: bytes | None) -> bytes:
    return b"\x01" if data is None else signed_varint(len(data)) + data


Record = tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]


def body_of(records: list[Record]) -> bytes:
    """Encode records: timestamp delta, key, value and headers of each."""
    body = b""
    for number, (delta, key, value, headers) in enumerate(records):
        content = b"\0" + signed_varint(delta) + signed_varint(number) + sized(key) + sized(value)
        content += signed_varint(len(headers))
        for name, text in headers:
            content += sized(name.encode()) + sized(text)
        body += sized(content)
    return body


def by_reading(body: bytes, count: int) -> WalkedRecords | None:
    """Check records by reading each of them, as consumers do; None if they are not right."""
    header = header_of((0, 49 + len(body), 0, 2, 0, 0, count - 1, 0, 0, -1, -1, -1, count))
    try:
        found = list(iterate_records(bytes(HEADER_SIZE) + body, 0, header))
    except DecodeError as error:
        if isinstance(error.__cause__, UnicodeDecodeError):
            reject()  # The text of a header's name is its readers' business.
        return None
    if [record.offset for record in found] != list(range(count)):
        return None
    times = [record.timestamp for record in found]
    return WalkedRecords(min(times), max(times), all(record.key is not None for record in found))


def by_walking(body: bytes, count: int) -> WalkedRecords | None:
    try:
        return check_records(body, 0, count)
    except DecodeError:
        return None


deltas = st.sampled_from([0, 1, 5, -3, 63, 64, -64, -65, 5_000, 10**6, -(10**9), 2**40])
sizes = st.sampled_from([0, 1, 5, 48, 49, 50, 56, 63, 64, 100, 200, 8_180, 9_000])
headers = st.lists(
    st.tuples(st.sampled_from(["", "a", "trace-id"]), st.none() | st.binary(max_size=70)),
    max_size=3,
)


@st.composite
def many_records(draw: st.DrawFn) -> list[Record]:
    """Return runs of records that are alike, or vary a little."""
    records: list[Record] = []
    for _ in range(draw(st.integers(1, 5))):
        delta, size, extra = draw(deltas), draw(sizes), draw(headers)
        key = draw(st.none() | st.binary(max_size=70))
        value = draw(st.none() | st.just(b"v" * size))
        times, lengths = draw(st.sampled_from([(1, 1), (3, 1), (1, 3), (50, 40)]))
        for number in range(draw(st.sampled_from([1, 2, 15, 17, 40, 70]))):
            more = value and value + b"w" * (number % lengths)
            records.append((delta + number % times, key, more, extra))
    return records


@given(many_records())
def test_records_of_every_kind_pass_and_their_timestamps_and_keys_are_found(
    records: list[Record],
) -> None:
    times = [delta for delta, _, _, _ in records]
    all_have_keys = all(key is not None for _, key, _, _ in records)

    walked = check_records(body_of(records), 0, len(records))

    assert walked == (min(times), max(times), all_have_keys)


@settings(max_examples=100)
@given(many_records(), st.data())
def test_records_with_a_changed_byte_pass_only_where_they_can_be_read(
    records: list[Record], data: st.DataObject
) -> None:
    body = bytearray(body_of(records))
    for _ in range(data.draw(st.integers(1, 2))):
        position = data.draw(st.integers(0, len(body) - 1))
        body[position] = data.draw(st.integers(0, 255) | st.just(body[position] ^ 0x80))

    assert by_walking(bytes(body), len(records)) == by_reading(bytes(body), len(records))


@given(st.binary(min_size=1, max_size=300), st.integers(1, 20))
def test_garbage_passes_only_where_it_can_be_read(body: bytes, count: int) -> None:
    assert by_walking(body, count) == by_reading(body, count)


def test_every_changed_byte_of_sizes_and_deltas_is_found_in_each_of_many_records() -> None:
    """In records that are compared by columns, and in those of varying size."""
    for lengths in (1, 7):
        records: list[Record] = [
            (5, None, b"v" * (100 + number % lengths), []) for number in range(100)
        ]
        good = body_of(records)
        starts = [len(body_of(records[:number])) for number in range(100)]
        for number, start in enumerate(starts):
            wide = number >= 64
            places = [(at, 0x02) for at in (0, 1, 4, 4 + wide, 5 + wide, 6 + wide)]
            # A timestamp delta that goes on into the offset delta.
            for at, bit in (*places, (3, 0x80)):
                changed = bytearray(good)
                changed[start + at] ^= bit
                assert by_walking(bytes(changed), 100) is None, (lengths, number, at)


def test_records_beyond_the_first_block_of_offsets_are_checked() -> None:
    count = 3 * 8_192
    body = bytearray(batch([(None, b"")] * count)[HEADER_SIZE:])
    assert by_walking(bytes(body), count) == (0, 0, False)
    # The last bytes of the last record: ... offset delta of 3 bytes, key, value, headers.
    for at in (-6, -5, -4):
        changed = bytearray(body)
        changed[at] ^= 0x02
        assert by_walking(bytes(changed), count) is None


def test_records_of_varying_size_beyond_the_first_block_of_offsets_are_checked() -> None:
    count = 8_192 + 300
    records: list[Record] = [(5, None, b"v" * (80 + number % 7), []) for number in range(count)]
    good = body_of(records)
    assert by_walking(good, count) == (5, 5, False)
    start = len(body_of(records[:-1]))
    # Of the last record: size, timestamp delta, offset delta, sizes of key and value.
    for at, bit in ((0, 2), (1, 2), (3, 0x80), (4, 2), (5, 2), (6, 2), (7, 2), (8, 2), (9, 2)):
        changed = bytearray(good)
        changed[start + at] ^= bit
        assert by_walking(bytes(changed), count) is None, at


@given(
    st.integers(-200, 200),
    values | st.just(b"v" * 20_000),
    values | st.just(b"v" * 20_000),
    st.lists(st.tuples(st.text(max_size=2), values), max_size=1),
    st.data(),
)
def test_record_that_is_alone_is_judged_as_a_consumer_reads_it(
    delta: int,
    key: bytes | None,
    value: bytes | None,
    headers: list[tuple[str, bytes | None]],
    data: st.DataObject,
) -> None:
    body = bytearray(body_of([(delta, key, value, headers)]))
    assert by_walking(bytes(body), 1) == by_reading(bytes(body), 1) is not None

    body[data.draw(st.integers(0, min(len(body) - 1, 12)))] = data.draw(st.integers(0, 255))
    assert by_walking(bytes(body), 1) == by_reading(bytes(body), 1)
