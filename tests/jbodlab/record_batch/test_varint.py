from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jbodlab.record_batch.varint import read_uvarint, read_varint, uvarint, varint
from jbodlab.vocabulary.errors import DecodeError


@pytest.mark.parametrize(
    ("number", "data"),
    [
        (0, "00"),
        (127, "7f"),
        (128, "8001"),
        (300, "ac02"),
        (4096, "8020"),
        (2**32 - 1, "ffffffff0f"),
    ],
)
def test_unsigned_varint_has_seven_bits_in_a_byte(number: int, data: str) -> None:
    assert uvarint(number).hex() == data
    assert read_uvarint(b"x" + bytes.fromhex(data) + b"y", 1) == (number, 1 + len(data) // 2)


@pytest.mark.parametrize(("number", "data"), [(0, "00"), (-1, "01"), (1, "02"), (-65, "8101")])
def test_signed_varint_is_zig_zag(number: int, data: str) -> None:
    assert varint(number).hex() == data


@given(st.integers(-(2**63), 2**63 - 1))
def test_varlong_comes_back(number: int) -> None:
    data = varint(number)

    assert read_varint(data, 0, 10) == (number, len(data))


def test_varint_that_is_too_long_or_too_large_is_refused() -> None:
    for read in (read_uvarint, read_varint):
        with pytest.raises(DecodeError, match="longer than 5 bytes"):
            read(b"\x80" * 5 + b"\0", 0)
    with pytest.raises(DecodeError, match="more than 32 bits"):
        read_uvarint(b"\xff\xff\xff\xff\x1f", 0)
    with pytest.raises(IndexError):
        read_uvarint(b"\x80", 0)
