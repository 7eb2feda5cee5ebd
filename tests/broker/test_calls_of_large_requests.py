"""How many Python calls of the product one turn of the event loop takes for one request.

The requests are the largest that are worked on without turns of their own, of the smallest items.
"""

from __future__ import annotations

import asyncio
import struct
import sys
from collections.abc import Iterator
from dataclasses import fields, replace
from types import FrameType
from typing import Any, get_origin

import pytest

from broker.api.table import APIS
from jbodlab.kafka_wire.api_table import ApiKey, load, request_class, request_encoder
from jbodlab.kafka_wire.headers import request_header
from jbodlab.kafka_wire.layout import unwrap
from jbodlab.vocabulary.limits import LARGE_REQUEST_BYTES
from tests.broker.api.every_api import request_of_ones
from tests.broker.pair import Node
from tests.broker.replicas import DEADLINE_S
from tests.broker.test_calls_of_a_request import PRODUCT, Client, _no_socket, alone

__all__ = ["_no_socket", "alone"]

CALLS_MAX = 25_000
"""Of a tenth to half a microsecond."""


def largest(key: ApiKey, version: int) -> Iterator[bytes]:
    """Frames of a request, of which one array or another is as long as it may be."""
    one = request_of_ones(request_class(key, version))
    for field in fields(one):
        items = getattr(one, field.name)
        if get_origin(unwrap(field.type)[0]) is not tuple or not items:
            continue
        yield _longest(key, version, one, field.name, items[0])
        for below in fields(items[0]) if hasattr(items[0], "__dataclass_fields__") else ():
            inner = getattr(items[0], below.name)
            if get_origin(unwrap(below.type)[0]) is tuple and inner:
                yield _longest(key, version, one, field.name, items[0], below.name, inner[0])


def _longest(
    key: ApiKey, version: int, one: Any, name: str, item: Any, below: str = "", inner: Any = None
) -> bytes:
    def frame(count: int) -> bytes:
        some = (item,) * count
        if below:
            some = (replace(item, **{below: (inner,) * count}),)
        pieces = [request_header(key, version, 7, "client")]
        request_encoder(key, version)(replace(one, **{name: some}), pieces.append)
        message = b"".join(pieces)
        return struct.pack(">i", len(message)) + message

    low, high = 1, LARGE_REQUEST_BYTES
    while high - low > 1:
        middle = (low + high) // 2
        if len(frame(middle)) - 4 <= LARGE_REQUEST_BYTES:
            low = middle
        else:
            high = middle
    return frame(low)


async def most_calls_of_a_turn(client: Client, frame: bytes) -> int:
    """Send a request; return the most calls in one turn of the loop until it is answered."""
    calls = most = 0

    def count(of: FrameType, event: str, _: object) -> None:
        nonlocal calls
        if event == "call" and of.f_code.co_filename.startswith(PRODUCT):
            calls += 1

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        async with asyncio.timeout(DEADLINE_S):
            answered = asyncio.ensure_future(client.answered(frame))
            while not answered.done():
                await asyncio.sleep(0)
                calls, most = 0, max(most, calls)
    finally:
        sys.setprofile(before)
    return most


@pytest.mark.parametrize(
    "key", [key for key, api in APIS.items() if not api.has_records], ids=lambda key: key.name
)
async def test_no_request_that_takes_no_turns_occupies_the_loop_for_long(
    alone: Node, key: ApiKey
) -> None:
    version = (APIS[key].accepted or APIS[key].versions)[1]
    load(key, version, APIS[key].max_items)
    for frame in largest(key, version):
        found = await most_calls_of_a_turn(Client(alone), frame)
        print(key.name, len(frame), found)
        assert found <= CALLS_MAX
