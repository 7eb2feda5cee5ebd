from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jbodlab.errors import DecodeError
from jbodlab.protocol.record_batch import HEADER_SIZE, build_batch
from jbodlab.protocol.record_walk import check_records

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


@given(st.binary(min_size=1, max_size=300), st.integers(1, 20))
def test_garbage_never_does_more_than_raise(body: bytes, count: int) -> None:
    try:
        check_records(bytes(HEADER_SIZE) + body, HEADER_SIZE, count)
    except DecodeError:
        return
    # What passes has at least the right number of records, and sound first and last ones.
    assert len(body) >= 7 * count


def test_garbage_in_the_first_or_last_record_is_found() -> None:
    good = bytearray(batch([(b"key", b"value")] * 3))
    for position in range(HEADER_SIZE, len(good)):
        changed = bytearray(good)
        changed[position] = 0xFF
        size = (len(good) - HEADER_SIZE) // 3
        is_content = position in range(HEADER_SIZE + size, HEADER_SIZE + 2 * size) or (
            (position - HEADER_SIZE) % size in (1, *range(5, 8), *range(9, 14))
        )
        if not is_content or (position - HEADER_SIZE) % size == 0:
            with pytest.raises(DecodeError):
                check_records(bytes(changed), HEADER_SIZE, 3)
