"""How many Python calls the usual requests take on the event loop.

A call costs a tenth of a microsecond, and unlike time their number is the same on every machine.
"""

from __future__ import annotations

import asyncio
import datetime
import io
import struct
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from kio.schema.fetch.v12.request import FetchPartition, FetchRequest, FetchTopic
from kio.schema.produce.v9.request import PartitionProduceData, ProduceRequest, TopicProduceData
from kio.serial import entity_writer

from jbodlab.kafka_wire.headers import request_header
from jbodlab.runtime import tcp
from jbodlab.runtime.machine import system_environment
from jbodlab.server import fair_turns
from jbodlab.server.bounds import Bounds
from jbodlab.server.connection import Connection
from jbodlab.server.listener_counts import ListenerCounts
from tests.broker.pair import Node, Pair
from tests.broker.replicas import (
    DEADLINE_S,
    TOPIC,
    Metadata,
    batch,
    broker,
    feature,
    partition_record,
    topic,
)

CLONE = Path(__file__).parents[2]
PRODUCT = (str(CLONE / "broker"), str(CLONE / "jbodlab"))
ROUNDS = 20

PRODUCE_CALLS_MAX = 87
FETCH_CALLS_MAX = 106
ROUND_CALLS_MAX = 405
"""A produce request with acks=all, and what leader and follower do for its replication."""


class Answers(asyncio.Transport):
    """Takes what a connection sends."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        self.is_closing = bool  # type: ignore[method-assign,assignment] # as none that costs a call

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 50_000) if name == "peername" else default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def pause_reading(self) -> None:
        pass

    def writelines(self, list_of_data: Any) -> None:
        self.count += 1


class Client:
    """One connection to a broker, without a socket."""

    def __init__(self, node: Node) -> None:
        self.answers = Answers()
        self._connection = Connection(
            node.apis.dispatcher,
            Bounds(system_environment()),
            listener_name="PLAINTEXT",
            on_made=lambda _: True,
            on_lost=lambda _: None,
            counts=ListenerCounts(),
        )
        self._connection.connection_made(self.answers)
        self._connection.begin_serving()

    async def answered(self, frame: bytes) -> None:
        """Send a request; return when it is answered."""
        before = self.answers.count
        self._connection.get_buffer(-1)[: len(frame)] = frame
        self._connection.buffer_updated(len(frame))
        async with asyncio.timeout(DEADLINE_S):
            while self.answers.count == before:  # noqa: ASYNC110 - each turn of the loop
                await asyncio.sleep(0)


@pytest.fixture
def _no_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tcp, "set_up", lambda *_, **__: None)
    # No turn of the loop is too long for another request.
    monkeypatch.setattr(fair_turns, "TURN_SHARE_S", 60.0)


@pytest.fixture
async def alone(tmp_path: Path, _no_socket: None) -> AsyncIterator[Node]:
    """A broker with the only replica of a partition."""
    node = Node(tmp_path, 1, {}, 500)
    Metadata(node).apply(
        feature(),
        broker(1, *node.host.directories),
        topic(),
        partition_record((1,), (node.host.directory(0),)),
    )
    await node.host.online()
    yield node
    await node.stop()


def produce(acks: int) -> bytes:
    return _frame(
        0,
        9,
        ProduceRequest(
            transactional_id=None,
            acks=acks,
            timeout=datetime.timedelta(seconds=30),
            topic_data=(
                TopicProduceData(
                    name=TOPIC, partition_data=(PartitionProduceData(index=0, records=batch()),)
                ),
            ),
        ),
    )


def fetch(offset: int) -> bytes:
    return _frame(
        1,
        12,
        FetchRequest(
            max_wait=datetime.timedelta(seconds=5),
            min_bytes=1,
            isolation_level=0,
            session_id=0,
            session_epoch=-1,
            topics=(
                FetchTopic(
                    topic=TOPIC,
                    partitions=(
                        FetchPartition(
                            partition=0,
                            current_leader_epoch=0,
                            fetch_offset=offset,
                            last_fetched_epoch=-1,
                            log_start_offset=-1,
                            partition_max_bytes=1 << 20,
                        ),
                    ),
                ),
            ),
            forgotten_topics_data=(),
            rack_id="",
        ),
    )


def _frame(key: int, version: int, request: Any) -> bytes:
    body = io.BytesIO()
    entity_writer(type(request))(body, request)
    message = request_header(key, version, 7, "client") + body.getvalue()
    return struct.pack(">i", len(message)) + message


async def calls_of(work: Callable[[], Awaitable[object]]) -> float:
    """Return how many calls of the product's functions a piece of work takes on the loop."""
    calls: Counter[str] = Counter()

    def count(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(PRODUCT):
            calls[f"{frame.f_code.co_filename}:{frame.f_code.co_qualname}"] += 1

    for _ in range(ROUNDS):
        await work()
    before = sys.getprofile()
    sys.setprofile(count)
    try:
        for _ in range(ROUNDS):
            await work()
    finally:
        sys.setprofile(before)
    for name, number in calls.most_common():
        print(f"{number / ROUNDS:6.2f} {name.removeprefix(str(CLONE))}")
    print(calls.total() / ROUNDS)
    return calls.total() / ROUNDS


@pytest.mark.parametrize("acks", [-1, 1])
async def test_produce_to_one_replica_takes_few_calls(alone: Node, acks: int) -> None:
    client, frame = Client(alone), produce(acks)

    assert await calls_of(lambda: client.answered(frame)) <= PRODUCE_CALLS_MAX


async def test_fetch_of_a_consumer_takes_few_calls(alone: Node) -> None:
    client = Client(alone)
    await client.answered(produce(-1))

    assert await calls_of(lambda: client.answered(fetch(0))) <= FETCH_CALLS_MAX


@pytest.mark.usefixtures("_no_socket")
async def test_round_of_a_follower_takes_few_calls(pair: Pair) -> None:
    client, frame = Client(pair.one), produce(-1)

    assert await calls_of(lambda: client.answered(frame)) <= ROUND_CALLS_MAX
