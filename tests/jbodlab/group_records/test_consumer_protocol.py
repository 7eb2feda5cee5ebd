"""Subscriptions as the clients' libraries write them."""

from __future__ import annotations

import pytest

from jbodlab.group_records.consumer_protocol import (
    ConsumerProtocolSubscription,
    TopicPartitions,
    decode,
)
from jbodlab.vocabulary.errors import DecodeError

V0 = bytes.fromhex("00000000000200016100026262ffffffff")
V3 = bytes.fromhex(
    "0003" "00000001" "000161" "00000002" "7879"
    "00000001" "000161" "00000002" "00000000" "00000003"
    "00000007" "000272 31".replace(" ", "")
)  # fmt: skip


def test_first_version_has_topics_and_user_data() -> None:
    expected = ConsumerProtocolSubscription(topics=("a", "bb"), owned_partitions=())
    assert decode(ConsumerProtocolSubscription, V0) == (expected, 0)


def test_newest_version_has_owned_partitions_generation_and_rack() -> None:
    expected = ConsumerProtocolSubscription(
        topics=("a",),
        user_data=b"xy",
        owned_partitions=(TopicPartitions(topic="a", partitions=(0, 3)),),
        generation_id=7,
        rack_id="r1",
    )
    assert decode(ConsumerProtocolSubscription, V3) == (expected, 3)


def test_version_of_the_future_is_read_as_the_newest_known() -> None:
    found, version = decode(ConsumerProtocolSubscription, b"\x00\x09" + V3[2:] + b"more")
    assert (found.rack_id, version) == ("r1", 9)


@pytest.mark.parametrize("size", range(len(V3)))
def test_cut_short_it_is_no_subscription(size: int) -> None:
    with pytest.raises(DecodeError):
        decode(ConsumerProtocolSubscription, V3[:size])


def test_sizes_that_lie_are_refused() -> None:
    for data in (b"\xff\xff" + V0[2:], V0[:2] + b"\x7f\xff\xff\xff", V0[:2] + b"\xff\xff\xff\xff"):
        with pytest.raises(DecodeError):
            decode(ConsumerProtocolSubscription, data)
