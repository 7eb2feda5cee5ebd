"""Subscriptions as the clients' libraries write them."""

from __future__ import annotations

import pytest

from broker.groups.subscription import Subscription, decode_subscription
from jbodlab.vocabulary.errors import DecodeError

V0 = bytes.fromhex("00000000000200016100026262ffffffff")
V3 = bytes.fromhex(
    "0003" "00000001" "000161" "00000002" "7879"
    "00000001" "000161" "00000002" "00000000" "00000003"
    "00000007" "000272 31".replace(" ", "")
)  # fmt: skip


def test_first_version_has_topics_and_user_data() -> None:
    assert decode_subscription(V0) == Subscription(version=0, topics=("a", "bb"))


def test_newest_version_has_owned_partitions_generation_and_rack() -> None:
    expected = Subscription(
        version=3,
        topics=("a",),
        user_data=b"xy",
        owned_partitions=(("a", (0, 3)),),
        generation_id=7,
        rack_id="r1",
    )
    assert decode_subscription(V3) == expected


def test_version_of_the_future_is_read_as_the_newest_known() -> None:
    assert decode_subscription(b"\x00\x09" + V3[2:] + b"more").rack_id == "r1"


@pytest.mark.parametrize("size", range(len(V3)))
def test_cut_short_it_is_no_subscription(size: int) -> None:
    with pytest.raises(DecodeError):
        decode_subscription(V3[:size])


def test_sizes_that_lie_are_refused() -> None:
    for data in (b"\xff\xff" + V0[2:], V0[:2] + b"\x7f\xff\xff\xff", V0[:2] + b"\xff\xff\xff\xff"):
        with pytest.raises(DecodeError):
            decode_subscription(data)
