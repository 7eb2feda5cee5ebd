from __future__ import annotations

import asyncio
import contextlib

import pytest

from broker.controller_link.channel import ControllerChannel
from jbodlab.controller_api.grpc_transport import GrpcTransport
from jbodlab.controller_api.requests import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    MetadataStreamRequest,
    MetadataStreamResponse,
)
from jbodlab.vocabulary.errors import ControllerUnavailableError
from jbodlab.vocabulary.ids import BrokerEpoch, BrokerId, LeaderEpoch, Offset
from tests.broker.controller_link.scripted_controller import ScriptedController, connected, serving
from tests.waiting import DEADLINE_S

HEARTBEAT = BrokerHeartbeatRequest(
    broker_id=BrokerId(1), broker_epoch=BrokerEpoch(5), current_metadata_offset=Offset(7)
)


async def test_values_go_out_and_values_come_back(controller: ScriptedController) -> None:
    expected = BrokerHeartbeatResponse(is_caught_up=True, is_fenced=False)
    controller.answers[BrokerHeartbeatRequest] = lambda _request: expected
    async with connected(controller) as channel:
        assert await channel.call(HEARTBEAT, 5) == expected

        assert controller.requests == [HEARTBEAT]


async def never() -> None:
    await asyncio.Event().wait()


async def test_a_controller_that_does_not_answer_is_unavailable_after_the_deadline() -> None:
    controller = ScriptedController()
    controller.answers[BrokerHeartbeatRequest] = lambda _request: never()
    async with connected(controller) as channel:
        with pytest.raises(ControllerUnavailableError, match="DEADLINE_EXCEEDED"):
            await channel.call(HEARTBEAT, 0.2)


async def test_a_controller_that_is_away_is_unavailable_and_found_again_when_it_is_back(
    controller: ScriptedController, port: int
) -> None:
    answer = BrokerHeartbeatResponse()
    controller.answers[BrokerHeartbeatRequest] = lambda _request: answer
    async with serving(controller, port):
        channel = ControllerChannel(GrpcTransport(f"127.0.0.1:{port}"))
        await channel.call(HEARTBEAT, 5)
    with pytest.raises(ControllerUnavailableError):
        await channel.call(HEARTBEAT, 5)

    async with serving(controller, port):
        async with asyncio.timeout(5):
            while True:
                with contextlib.suppress(ControllerUnavailableError):
                    assert await channel.call(HEARTBEAT, 5) == answer
                    break
                await asyncio.sleep(0.02)
    await channel.close()


SLOW_S = 0.7
"""Much longer than the pauses between two attempts to connect."""


class SlowWay:
    """A way to a port that takes its time for each connection."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.connections = 0

    async def pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        await asyncio.sleep(SLOW_S)
        its_reader, its_writer = await asyncio.open_connection("127.0.0.1", self._port)
        await asyncio.gather(self._copy(reader, its_writer), self._copy(its_reader, writer))

    @staticmethod
    async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(1 << 16):
                writer.write(data)
        writer.close()


async def test_a_controller_that_is_slow_to_connect_to_is_reached_by_the_first_connection(
    controller: ScriptedController,
) -> None:
    controller.answers[BrokerHeartbeatRequest] = lambda _request: BrokerHeartbeatResponse()
    async with serving(controller) as port:
        way = SlowWay(port)
        async with await asyncio.start_server(way.pass_on, "127.0.0.1", 0) as server:
            at = server.sockets[0].getsockname()[1]
            channel = ControllerChannel(GrpcTransport(f"127.0.0.1:{at}"))

            await channel.call(HEARTBEAT, DEADLINE_S)

            assert way.connections == 1
            await channel.close()


async def test_a_controller_that_is_away_is_told_in_the_same_words_each_time() -> None:
    # A name with several addresses, each of which would have a text of its own.
    channel = ControllerChannel(GrpcTransport("localhost:1"))
    texts = set()
    for _ in range(4):
        with pytest.raises(ControllerUnavailableError) as raised:
            await channel.call(HEARTBEAT, 5)
        texts.add(str(raised.value))
    assert texts == {"BrokerHeartbeat: no connection to the controller at localhost:1"}
    await channel.close()


async def test_a_closed_channel_is_an_unavailable_controller() -> None:
    channel = ControllerChannel(GrpcTransport("127.0.0.1:1"))
    await channel.close()
    with pytest.raises(ControllerUnavailableError):
        await channel.call(HEARTBEAT, 1)


async def test_the_stream_ends_with_the_controller(controller: ScriptedController) -> None:
    first = MetadataStreamResponse(high_watermark=Offset(3), records=b"abc")
    controller.streams = [[first]]
    request = MetadataStreamRequest(
        broker_id=BrokerId(1),
        cluster_id="c",
        fetch_offset=Offset(0),
        last_fetched_epoch=LeaderEpoch(-1),
    )
    async with serving(controller) as port:
        channel = ControllerChannel(GrpcTransport(f"127.0.0.1:{port}"))
        async with contextlib.aclosing(channel.metadata_stream(request)) as stream:
            assert await anext(stream) == first
    stream = channel.metadata_stream(request)
    with pytest.raises(ControllerUnavailableError):
        await anext(stream)
    await channel.close()


async def test_calls_in_flight_fail_when_the_channel_is_closed_and_their_tasks_go_on() -> None:
    controller = ScriptedController()
    controller.answers[BrokerHeartbeatRequest] = lambda _request: never()
    first = MetadataStreamResponse(high_watermark=Offset(3), records=b"abc")
    controller.streams = [[first]]
    request = MetadataStreamRequest(
        broker_id=BrokerId(1),
        cluster_id="c",
        fetch_offset=Offset(0),
        last_fetched_epoch=LeaderEpoch(-1),
    )
    async with connected(controller) as channel:
        call = asyncio.create_task(channel.call(HEARTBEAT, 30))
        stream = channel.metadata_stream(request)
        assert await anext(stream) == first
        following = asyncio.create_task(anext(stream))
        await asyncio.sleep(0.05)

        await channel.close()

        for waiting in (call, following):
            with pytest.raises(ControllerUnavailableError):
                await waiting


async def test_a_call_that_is_cancelled_ends_its_task() -> None:
    controller = ScriptedController()
    controller.answers[BrokerHeartbeatRequest] = lambda _request: never()
    async with connected(controller) as channel:
        call = asyncio.create_task(channel.call(HEARTBEAT, 30))
        await asyncio.sleep(0.05)

        call.cancel()

        with pytest.raises(asyncio.CancelledError):
            await call
