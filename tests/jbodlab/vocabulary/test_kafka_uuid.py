"""Text, order and drawing of ids."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jbodlab.vocabulary import kafka_uuid

DIRECTORY = UUID("6f877d13-174e-4606-90ab-7f02c87c164c")


def test_text_is_unpadded_url_safe_base64() -> None:
    assert kafka_uuid.to_text(DIRECTORY) == "b4d9ExdORgaQq38CyHwWTA"
    assert kafka_uuid.to_text(UUID(int=0)) == "AAAAAAAAAAAAAAAAAAAAAA"
    assert kafka_uuid.to_text(UUID(int=1)) == "AAAAAAAAAAAAAAAAAAAAAQ"
    assert kafka_uuid.to_text(UUID(int=(1 << 128) - 1)) == "_" * 21 + "w"


@given(st.uuids(allow_nil=True))
def test_text_names_the_id_it_came_from(value: UUID) -> None:
    text = kafka_uuid.to_text(value)

    assert len(text) == 22
    assert kafka_uuid.parse(text) == value
    assert kafka_uuid.parse(text + "==") == value


@pytest.mark.parametrize(
    "text",
    ["", "b4d9", "b4d9ExdORgaQq38CyHwWTA===", "b4d9ExdORgaQq38CyHwWT+", "b4d9ExdORgaQq38CyHwWTAAA"],
)
def test_text_that_is_no_id_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="input string"):
        kafka_uuid.parse(text)


def test_order_is_signed_in_both_halves() -> None:
    top_bit_high = UUID(int=1 << 127)
    top_bit_low = UUID(int=1 << 63)
    zero, one = UUID(int=0), UUID(int=1)

    ordered = sorted([one, zero, top_bit_low, top_bit_high], key=kafka_uuid.order_key)

    assert ordered == [top_bit_high, top_bit_low, zero, one]


def test_drawn_id_is_version_4_and_no_option_and_not_reserved() -> None:
    starts_with_dash = b"\xfb" + bytes(15)
    good = bytes(range(16))
    draws = iter([starts_with_dash, good])

    drawn = kafka_uuid.random_uuid(lambda size: next(draws))

    assert drawn == UUID(bytes=good, version=4)
    assert drawn.version == 4
