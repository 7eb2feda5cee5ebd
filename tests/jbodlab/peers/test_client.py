from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib import import_module

import pytest
import uvloop

from jbodlab.peers.client import KafkaConnection
from jbodlab.vocabulary.errors import DecodeError
from tests.waiting import runner_on

DEADLINE_S = 10.0
API_VERSIONS, METADATA = 18, 3

Answer = Callable[[bytes], Awaitable[bytes | None]]
"""Request frame -> bytes to send; None closes the connection."""


@asynccontextmanager
async def broker(answer: Answer) -> AsyncIterator[int]:
    """A server that answers each frame with what `answer` returns; yields its port."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                size = struct.unpack(">i", await reader.readexactly(4))[0]
                sent = await answer(await reader.readexactly(size))
                if sent is None:
                    break
                writer.write(sent)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def connect(port: int, **settings: int) -> KafkaConnection:
    return await KafkaConnection.open(
        "127.0.0.1", port, client_id="follower-2", timeout_s=DEADLINE_S, **settings
    )


async def call_until_refused(connection: KafkaConnection) -> None:
    """Call again and again: what makes no sense may come right behind an answer that does."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            await connection.exchange(METADATA, 8, [])


def framed(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


runner = runner_on(uvloop.new_event_loop, asyncio.new_event_loop)


async def test_request_bytes_and_response_body() -> None:
    seen = []

    async def answer(frame: bytes) -> bytes:
        seen.append(frame)
        return framed(frame[4:8] + b"\0" + b"body" * 50_000)

    seen.clear()
    async with broker(answer) as port:
        connection = await connect(port)
        body = await connection.exchange(METADATA, 12, [b"re", b"quest"])
        assert bytes(body) == b"body" * 50_000
        assert body.readonly
        await connection.exchange(METADATA, 8, [])
        connection.close()
    assert seen == [
        bytes.fromhex("0003 000c 00000001 000a") + b"follower-2" + b"\0" + b"request",
        bytes.fromhex("0003 0008 00000002 000a") + b"follower-2",
    ]


async def test_call_speaks_in_entities() -> None:
    async def answer(frame: bytes) -> bytes:
        return framed(frame[4:8] + bytes.fromhex("0000 00000001 0012 0000 0004"))

    kio = import_module("kio.schema.api_versions.v0.request")
    async with broker(answer) as port:
        connection = await connect(port)
        response = await connection.call(API_VERSIONS, 0, kio.ApiVersionsRequest())
        assert [(a.api_key, a.max_version) for a in response.api_keys] == [(18, 4)]
        connection.close()


@pytest.mark.parametrize(
    "sent",
    [
        framed(struct.pack(">i", 99)),
        framed(b"ab"),
        struct.pack(">i", -5),
        struct.pack(">i", 5000) + bytes(5000),
        framed(struct.pack(">i", 1)) * 2,
    ],
)
async def test_response_that_makes_no_sense_ends_the_connection(sent: bytes) -> None:
    async def answer(frame: bytes) -> bytes:
        return sent

    async with broker(answer) as port:
        connection = await connect(port, max_response_bytes=1000)
        with pytest.raises(DecodeError):
            await call_until_refused(connection)
        assert not connection.is_open
        with pytest.raises((DecodeError, ConnectionError)):
            await connection.exchange(METADATA, 8, [])


async def test_response_that_cannot_be_decoded_ends_the_connection() -> None:
    async def answer(frame: bytes) -> bytes:
        return framed(frame[4:8] + b"\x7f\xff\xff\xff")

    kio = import_module("kio.schema.metadata.v1.request")
    async with broker(answer) as port:
        connection = await connect(port)
        with pytest.raises(DecodeError):
            await connection.call(METADATA, 1, kio.MetadataRequest(topics=None))
        assert not connection.is_open


async def test_silent_broker_is_a_timeout_and_its_late_answer_is_never_taken_for_another() -> None:
    release = asyncio.Event

    wait = release()

    async def answer(frame: bytes) -> bytes:
        await wait.wait()
        return framed(frame[4:8] + b"late")

    async with broker(answer) as port:
        connection = await connect(port)
        with pytest.raises(TimeoutError):
            await connection.exchange(METADATA, 8, [], timeout_s=0.05)
        wait.set()
        with pytest.raises(ConnectionError):
            await connection.exchange(METADATA, 8, [])


async def test_broker_that_closes_is_a_connection_error() -> None:
    async def answer(frame: bytes) -> None:
        return None

    async with broker(answer) as port:
        connection = await connect(port)
        with pytest.raises(ConnectionError):
            await connection.exchange(METADATA, 8, [])
        assert not connection.is_open


async def test_closing_ends_a_call_that_waits() -> None:
    asked = asyncio.Event()

    async def answer(frame: bytes) -> bytes:
        asked.set()
        return b""

    async with broker(answer) as port:
        connection = await connect(port)
        call = asyncio.ensure_future(connection.exchange(METADATA, 8, []))
        await asked.wait()
        connection.close()
        with pytest.raises(ConnectionError):
            await call


async def test_nobody_listening_is_a_connection_error() -> None:
    async def answer(frame: bytes) -> bytes:
        return b""

    async with broker(answer) as port:
        pass
    with pytest.raises(ConnectionError):
        await connect(port)
    with pytest.raises(ConnectionError):
        await KafkaConnection.open("no-such-host.invalid", 1, client_id="x", timeout_s=DEADLINE_S)


async def test_calls_that_overlap_get_their_own_answers() -> None:
    seen: list[bytes] = []

    async def answer(frame: bytes) -> bytes:
        seen.append(frame[4:8])
        return framed(frame[4:8] + frame[-1:])

    async with broker(answer) as port:
        connection = await connect(port)
        bodies = await asyncio.gather(
            *(connection.exchange(METADATA, 8, [bytes([number])]) for number in range(3))
        )
        assert [bytes(body) for body in bodies] == [b"\x00", b"\x01", b"\x02"]
        assert len(set(seen)) == 3
        connection.close()
