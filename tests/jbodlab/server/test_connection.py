"""Connections on real sockets, with a handler whose answers the test gives one by one."""

from __future__ import annotations

import asyncio
import gc
import struct
import weakref
from asyncio.selector_events import _SelectorSocketTransport
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

import pytest
import uvloop

from jbodlab.kafka_wire.framing import SCRATCH_BYTES, START_BYTES
from jbodlab.runtime.machine import system_environment
from jbodlab.runtime.prompt_future import PromptFuture
from jbodlab.server.bounds import Bounds
from jbodlab.server.listener import Listener
from jbodlab.server.open_connections import ConnectionLimits
from jbodlab.server.request_handler import Buffers, Pending
from jbodlab.server.session import Session
from jbodlab.vocabulary.errors import CloseConnectionError, DecodeError
from jbodlab.vocabulary.limits import (
    ACCEPTED_MAX,
    HELD_BYTES_AT_LEAST,
    MAX_PIPELINED_REQUESTS,
    MAX_QUEUED_REQUESTS,
)
from tests.waiting import runner_on, turns

DEADLINE_S = 10.0
PRODUCE, OTHER, UNWANTED = b"P", b"O", b"U"


def framed(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


def request(kind: bytes, name: str) -> bytes:
    return framed(kind + name.encode().rjust(9))


class ScriptedHandler:
    """Frames are a kind and a name; names that start with ! are answered or refused at once."""

    def __init__(self) -> None:
        self.started: list[str] = []
        self.waiting: dict[str, asyncio.Future[bytes]] = {}
        self.sessions: list[Session] = []
        self.hurried: list[str] = []
        self.encoded: list[bytes] = []
        self.announced: list[int] = []
        """Sizes of large requests, each time that they ask to come in."""
        self.changed = asyncio.Event()

    def is_pipelined(self, frame: memoryview) -> bool:
        return bytes(frame[:1]) == PRODUCE

    def admit(self, start: memoryview, size_bytes: int) -> None:
        self.announced.append(size_bytes)
        self.changed.set()
        if bytes(start[:1]) == UNWANTED:
            raise DecodeError(f"{size_bytes} bytes are not wanted")

    def handle(self, frame: memoryview, connection: Session) -> Buffers | Pending:
        name = bytes(frame[1:]).decode().strip()
        self.started.append(name)
        self.sessions.append(connection)
        self.changed.set()
        if name == "!refuse":
            raise DecodeError("not served")
        if name == "!bug":
            raise ZeroDivisionError
        if name == "!silent":
            return ()
        if name.startswith("!"):
            return (framed(b"now "), name.encode()) if len(name) > 100 else (framed(name.encode()),)
        future = asyncio.get_running_loop().create_future()
        if name == "gathered":
            future = asyncio.gather(future)
        if name.startswith("prompt"):
            future = PromptFuture()
        self.waiting[name] = future
        return Pending(
            future,
            lambda: self._buffers(future),
            lambda: self.hurried.append(name),
            overlaps=not name.startswith("alone"),
            appends=self.is_pipelined(frame),
        )

    def answer(self, *names: str) -> None:
        for name in names:
            self.waiting.pop(name).set_result(name.encode())

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(DEADLINE_S):
            while not condition():
                self.changed.clear()
                await self.changed.wait()

    def _buffers(self, future: asyncio.Future[bytes]) -> Buffers:
        result = future.result()
        self.encoded.append(result)
        if result == b"close":
            raise CloseConnectionError("no response for that")
        return (framed(result),)


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def send(self, *requests: bytes) -> None:
        self.writer.write(b"".join(requests))

    async def receive(self) -> str:
        async with asyncio.timeout(DEADLINE_S):
            size = struct.unpack(">i", await self.reader.readexactly(4))[0]
            return (await self.reader.readexactly(size)).decode()

    async def is_closed_by_the_broker(self) -> bool:
        async with asyncio.timeout(DEADLINE_S):
            try:
                return await self.reader.read(1) == b""
            except ConnectionError:
                return True


@asynccontextmanager
async def serving(
    bounds: Bounds | None = None, **limits: Any
) -> AsyncIterator[tuple[Listener, ScriptedHandler]]:
    handler = ScriptedHandler()
    bounds = bounds or Bounds(system_environment(), ConnectionLimits(**limits))
    listener = Listener("CLIENTS", "127.0.0.1", 0, handler, bounds)
    await listener.start()
    try:
        yield listener, handler
    finally:
        await listener.close()
        assert (bounds.memory.used_bytes, len(bounds.connections)) == (0, 0)


@asynccontextmanager
async def connected(listener: Listener) -> AsyncIterator[Client]:
    reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
    try:
        yield Client(reader, writer)
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


runner = runner_on(uvloop.new_event_loop, asyncio.new_event_loop)


async def test_requests_are_worked_on_one_at_a_time() -> None:
    async with serving() as (listener, handler), connected(listener) as client:
        client.send(request(OTHER, "a"), request(OTHER, "b"), request(OTHER, "!c"))
        await handler.until(lambda: "a" in handler.waiting)
        assert handler.started == ["a"]

        handler.answer("a")
        assert await client.receive() == "a"
        await handler.until(lambda: "b" in handler.waiting)
        assert handler.started == ["a", "b"]

        handler.answer("b")
        assert [await client.receive(), await client.receive()] == ["b", "!c"]


async def test_connections_take_turns_where_there_is_no_time_for_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("jbodlab.server.fair_turns.TURN_SHARE_S", 1e-9)
    names = "abc"

    async with AsyncExitStack() as stack:
        listener, handler = await stack.enter_async_context(serving())
        clients = [await stack.enter_async_context(connected(listener)) for _ in names]
        for client, name in zip(clients, names, strict=True):
            client.send(*(request(PRODUCE, f"{name}{number}") for number in range(8)))
        await handler.until(lambda: len(handler.started) == 3 * 8)

        for name in names:
            mine = [each for each in handler.started if each.startswith(name)]
            assert mine == [f"{name}{number}" for number in range(8)]
        assert {each[0] for each in handler.started[3:12]} == set(names), handler.started


async def test_produce_requests_overlap_and_their_responses_keep_the_order() -> None:
    async with serving() as (listener, handler), connected(listener) as client:
        client.send(
            request(PRODUCE, "a"),
            request(PRODUCE, "b"),
            request(PRODUCE, "!now"),
            request(PRODUCE, "!silent"),
            request(PRODUCE, "c"),
            request(OTHER, "d"),
            request(PRODUCE, "e"),
        )
        await handler.until(lambda: "c" in handler.waiting)
        assert handler.started == ["a", "b", "!now", "!silent", "c"]

        handler.answer("c", "b")
        await turns()
        assert handler.started[-1] == "c", "another API waits for everything before it"

        handler.answer("a")
        assert [await client.receive() for _ in range(4)] == ["a", "b", "!now", "c"]
        await handler.until(lambda: "d" in handler.waiting)
        assert "e" not in handler.started, "nothing overtakes a request that is not pipelined"

        handler.answer("d")
        await handler.until(lambda: "e" in handler.waiting)
        handler.answer("e")
        assert [await client.receive(), await client.receive()] == ["d", "e"]


async def test_nothing_starts_behind_a_request_that_does_not_overlap() -> None:
    async with serving() as (listener, handler), connected(listener) as client:
        client.send(*(request(PRODUCE, name) for name in ("a", "alone", "b")))
        await handler.until(lambda: "alone" in handler.waiting)
        await turns()
        assert handler.started == ["a", "alone"]

        handler.answer("a", "alone")
        await handler.until(lambda: "b" in handler.waiting)
        handler.answer("b")
        assert [await client.receive() for _ in range(3)] == ["a", "alone", "b"]


async def test_number_of_overlapping_requests_is_limited() -> None:
    async with serving() as (listener, handler), connected(listener) as client:
        names = [f"r{number}" for number in range(MAX_PIPELINED_REQUESTS + 3)]
        client.send(*(request(PRODUCE, name) for name in names))
        await handler.until(lambda: len(handler.started) >= MAX_PIPELINED_REQUESTS)
        await turns()
        assert handler.started == names[:MAX_PIPELINED_REQUESTS]

        handler.answer(names[0])
        await handler.until(lambda: len(handler.started) > MAX_PIPELINED_REQUESTS)
        assert handler.started == names[: MAX_PIPELINED_REQUESTS + 1]


async def test_queue_is_bounded_and_everything_is_answered_in_the_end() -> None:
    async with serving() as (listener, handler), connected(listener) as client:
        count = MAX_QUEUED_REQUESTS * 50
        client.send(request(OTHER, "first"), *(request(OTHER, f"!{n}") for n in range(count)))
        await handler.until(lambda: "first" in handler.waiting)
        handler.answer("first")
        assert await client.receive() == "first"
        assert [await client.receive() for _ in range(count)] == [
            f"!{number}" for number in range(count)
        ]


async def test_client_that_reads_nothing_stops_being_served_until_it_does() -> None:
    async with serving() as (listener, handler), connected(listener) as client:
        size = 1 << 20
        big = PRODUCE + b"!" + b"x" * size
        client.writer.transport.set_write_buffer_limits(high=1 << 30)
        client.writer.transport.pause_reading()
        client.send(*(framed(big) for _ in range(40)))
        await handler.until(lambda: len(handler.started) >= 1)
        for _ in range(20):
            before = len(handler.started)
            await turns()
            if len(handler.started) == before:
                break
        assert len(handler.started) < 40

        client.writer.transport.resume_reading()
        received = 0
        async with asyncio.timeout(DEADLINE_S):
            while received < 40 * size:
                received += len(await client.reader.read(1 << 20))
        assert len(handler.started) == 40


@pytest.mark.parametrize(
    "bad",
    [
        struct.pack(">i", -1) + b"12345678",
        struct.pack(">i", (100 << 20) + 1),
        struct.pack(">i", 7) + b"1234567",
        b"GET / HTTP/1.1\r\n\r\n",
        request(OTHER, "!refuse"),
        request(OTHER, "!bug"),
    ],
)
async def test_bad_request_closes_its_connection_only(bad: bytes) -> None:
    async with (
        serving() as (listener, _),
        connected(listener) as victim,
        connected(listener) as other,
    ):
        victim.send(bad)
        assert await victim.is_closed_by_the_broker()
        other.send(request(OTHER, "!well"))
        assert await other.receive() == "!well"


async def test_answer_that_cannot_be_given_closes_the_connection() -> None:
    async with serving() as (listener, handler), connected(listener) as client:
        client.send(request(PRODUCE, "a"), request(PRODUCE, "b"))
        await handler.until(lambda: "b" in handler.waiting)
        handler.waiting["b"].set_result(b"close")
        handler.answer("a")
        assert await client.receive() == "a"
        assert await client.is_closed_by_the_broker()


async def test_waiting_requests_are_dropped_when_the_client_goes_away() -> None:
    bounds = Bounds(system_environment())
    async with serving(bounds) as (listener, handler):
        async with connected(listener) as client:
            client.send(request(PRODUCE, "a"), request(PRODUCE, "b"), request(OTHER, "c"))
            await handler.until(lambda: "b" in handler.waiting)
        async with asyncio.timeout(DEADLINE_S):
            while len(bounds.connections):  # noqa: ASYNC110 - nothing to wait on
                await asyncio.sleep(0.001)
        assert all(future.cancelled() for future in handler.waiting.values())
        assert handler.started == ["a", "b"]


async def test_prompt_answer_leaves_at_once_and_the_next_request_starts_later() -> None:
    async with serving() as (listener, handler), connected(listener) as client:
        client.send(request(OTHER, "prompt"), request(OTHER, "next"))
        await handler.until(lambda: "prompt" in handler.waiting)
        future = handler.waiting.pop("prompt")
        assert isinstance(future, PromptFuture)

        future.succeed(b"first")

        assert (handler.encoded, handler.started) == ([b"first"], ["prompt"])
        assert await client.receive() == "first"
        await handler.until(lambda: "next" in handler.waiting)
        handler.answer("next")
        assert await client.receive() == "next"


@pytest.mark.parametrize("end", ["fails", "is cancelled"])
async def test_prompt_answer_that_does_not_come_is_noticed(end: str) -> None:
    async with serving() as (listener, handler), connected(listener) as client:
        client.send(request(OTHER, "prompt"))
        await handler.until(lambda: "prompt" in handler.waiting)
        future = handler.waiting.pop("prompt")

        if end == "fails":
            future.set_exception(CloseConnectionError("nothing to say"))
        else:
            future.cancel()

        assert await client.is_closed_by_the_broker()


async def test_prompt_answer_of_a_client_that_is_gone_is_cancelled() -> None:
    bounds = Bounds(system_environment())
    async with serving(bounds) as (listener, handler):
        async with connected(listener) as client:
            client.send(request(OTHER, "prompt"))
            await handler.until(lambda: "prompt" in handler.waiting)
        async with asyncio.timeout(DEADLINE_S):
            while len(bounds.connections):  # noqa: ASYNC110 - nothing to wait on
                await asyncio.sleep(0.001)
        assert handler.waiting["prompt"].cancelled()


async def test_gathered_answer_that_is_dropped_leaves_no_error_behind() -> None:
    reported: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: reported.append(context))
    bounds = Bounds(system_environment())
    async with serving(bounds) as (listener, handler):
        async with connected(listener) as client:
            client.send(request(OTHER, "gathered"))
            await handler.until(lambda: "gathered" in handler.waiting)
        async with asyncio.timeout(DEADLINE_S):
            while len(bounds.connections):  # noqa: ASYNC110 - nothing to wait on
                await asyncio.sleep(0.001)
        await turns()
        handler.waiting.clear()
        gc.collect()

    assert reported == []


async def test_produce_requests_of_a_client_that_has_ended_are_started() -> None:
    async with serving() as (listener, handler), connected(listener) as client:
        client.send(request(PRODUCE, "alone"), *(request(PRODUCE, "!silent") for _ in range(3)))
        client.writer.write_eof()
        await handler.until(lambda: "alone" in handler.waiting)
        assert handler.started == ["alone"]

        handler.answer("alone")

        await handler.until(lambda: len(handler.started) == 4)
        assert await client.receive() == "alone"
        assert await client.is_closed_by_the_broker()


async def test_half_a_request_of_a_client_that_has_ended_takes_no_memory() -> None:
    bounds = Bounds(system_environment())
    async with serving(bounds) as (listener, handler), connected(listener) as client:
        client.send(request(PRODUCE, "alone"), request(PRODUCE, "!silent"))
        client.send(struct.pack(">i", 50 << 20) + PRODUCE + bytes(100 << 10))
        await handler.until(lambda: bool(handler.announced))
        assert bounds.memory.used_bytes > 50 << 20

        client.writer.write_eof()
        async with asyncio.timeout(DEADLINE_S):
            while bounds.memory.used_bytes > 1_000:  # noqa: ASYNC110 - nothing to wait on
                await asyncio.sleep(0.001)
        handler.answer("alone")

        await handler.until(lambda: len(handler.started) == 2)


async def test_connection_above_the_limit_waits_until_another_one_has_ended() -> None:
    async with serving(total=1) as (listener, handler):
        async with connected(listener) as first:
            first.send(request(OTHER, "!1"))
            assert await first.receive() == "!1"
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
            second = Client(reader, writer)
            second.send(request(OTHER, "!late"))
            first.send(request(OTHER, "!2"))
            assert await first.receive() == "!2"
            await turns()
            assert handler.started == ["!1", "!2"]
        assert await second.receive() == "!late"
        writer.close()


async def test_all_that_connect_at_the_same_instant_are_served_however_few_may_wait() -> None:
    async with serving(total=2, waiting=ACCEPTED_MAX) as (listener, _):

        async def client(number: int) -> str:
            async with connected(listener) as one:
                one.send(request(OTHER, f"!{number}"))
                return await one.receive()

        answers = await asyncio.gather(*map(client, range(300)))

        assert answers == [f"!{number}" for number in range(300)]
        assert listener.counts.rejected == {}


async def test_listener_that_is_closed_while_it_does_not_accept_begins_no_more() -> None:
    async with serving(total=1) as (listener, _), connected(listener) as first:
        first.send(request(OTHER, "!1"))
        assert await first.receive() == "!1"
        async with connected(listener) as second, connected(listener) as third:
            async with asyncio.timeout(DEADLINE_S):
                while not listener._acceptor.is_waiting:  # noqa: ASYNC110 - nothing tells of it
                    await asyncio.sleep(0)
            await listener.close()
            assert await second.is_closed_by_the_broker()
            assert await third.is_closed_by_the_broker()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", listener.port)


@pytest.mark.parametrize(
    "limits", [{"per_ip": 1}, {"per_ip": 9, "per_ip_overrides": {"127.0.0.1": 1}}]
)
async def test_connections_above_the_limit_of_an_address_are_closed(limits: dict[str, Any]) -> None:
    async with serving(**limits) as (listener, _), connected(listener) as first:
        first.send(request(OTHER, "!1"))
        assert await first.receive() == "!1"
        async with connected(listener) as second:
            assert await second.is_closed_by_the_broker()
        first.send(request(OTHER, "!2"))
        assert await first.receive() == "!2"


async def test_idle_connection_is_closed_and_one_that_waits_for_an_answer_is_not() -> None:
    bounds = Bounds(system_environment(), ConnectionLimits(max_idle_ms=0))
    async with (
        serving(bounds) as (listener, handler),
        connected(listener) as busy,
        connected(listener) as idle,
    ):
        idle.send(request(OTHER, "!1"))
        assert await idle.receive() == "!1"
        busy.send(request(OTHER, "a"))
        await handler.until(lambda: "a" in handler.waiting)

        assert len(bounds.connections.close_idle()) == 1

        assert await idle.is_closed_by_the_broker()
        handler.answer("a")
        assert await busy.receive() == "a"


async def test_unwanted_request_is_refused_before_it_arrives() -> None:
    async with serving() as (listener, _), connected(listener) as client:
        client.send(struct.pack(">i", 10 << 20) + UNWANTED + b"x" * START_BYTES)
        assert await client.is_closed_by_the_broker()


async def test_client_whose_requests_wait_is_not_read_while_the_memory_is_full() -> None:
    bounds = Bounds(system_environment(), queued_max_request_bytes=HELD_BYTES_AT_LEAST + 1)
    async with (
        serving(bounds) as (listener, handler),
        connected(listener) as large,
        connected(listener) as small,
    ):
        large.send(framed(PRODUCE + b"first".rjust(HELD_BYTES_AT_LEAST + 1)))
        await handler.until(lambda: "first" in handler.waiting)
        large.send(request(PRODUCE, "second"))
        small.send(request(PRODUCE, "!small"))
        assert await small.receive() == "!small"
        await turns()
        assert handler.started == ["first", "!small"]

        handler.answer("first")
        assert await large.receive() == "first"
        await handler.until(lambda: "second" in handler.waiting)
        handler.answer("second")
        assert await large.receive() == "second"


async def test_large_request_comes_in_when_there_is_room_for_it() -> None:
    bounds = Bounds(system_environment(), queued_max_request_bytes=SCRATCH_BYTES)
    async with (
        serving(bounds) as (listener, handler),
        connected(listener) as first,
        connected(listener) as second,
    ):
        first.send(framed(PRODUCE + b"a".rjust(2 * SCRATCH_BYTES)))
        await handler.until(lambda: "a" in handler.waiting)
        second.send(framed(PRODUCE + b"!b".rjust(3 * SCRATCH_BYTES)))
        await handler.until(lambda: len(handler.announced) == 2)
        await turns()
        assert (handler.started, bounds.memory.used_bytes) == (["a"], 2 * SCRATCH_BYTES + 1)

        handler.answer("a")
        assert await first.receive() == "a"
        assert await second.receive() == "!b"
        assert bounds.memory.used_bytes == 0


async def test_client_that_leaves_in_the_middle_of_a_request_gives_its_memory_back() -> None:
    bounds = Bounds(system_environment(), queued_max_request_bytes=SCRATCH_BYTES)
    async with serving(bounds) as (listener, _), connected(listener) as second:
        async with connected(listener) as first:
            first.send(struct.pack(">i", 10 << 20) + PRODUCE + b"x" * START_BYTES)
            async with asyncio.timeout(DEADLINE_S):
                while not bounds.memory.is_full:  # noqa: ASYNC110 - it wakes nobody
                    await asyncio.sleep(0.001)
            second.send(framed(PRODUCE + b"!b".rjust(3 * SCRATCH_BYTES)))
        assert await second.receive() == "!b"


async def test_answers_that_come_all_at_once_are_sent_in_order() -> None:
    async with AsyncExitStack() as stack:
        listener, handler = await stack.enter_async_context(serving())
        clients = [await stack.enter_async_context(connected(listener)) for _ in range(5)]
        names = [f"{letter}{number}" for letter in "abcde" for number in range(3)]
        for number, client in enumerate(clients):
            mine = names[3 * number : 3 * number + 3]
            client.send(*(request(PRODUCE, name) for name in (*mine, f"!{number}")))
        await handler.until(lambda: len(handler.waiting) == len(names))
        handler.answer(*names)

        for number, client in enumerate(clients):
            mine = names[3 * number : 3 * number + 3]
            assert [await client.receive() for _ in range(4)] == [*mine, f"!{number}"]


async def test_answers_that_come_in_one_turn_leave_in_one_write(
    monkeypatch: pytest.MonkeyPatch, runner: asyncio.Runner
) -> None:
    writes: list[int] = []
    transport: Any = _SelectorSocketTransport
    if isinstance(runner.get_loop(), uvloop.Loop):
        pytest.skip("the writes of this loop cannot be seen")
    inner = transport.writelines

    def writelines(self: Any, pieces: Any) -> None:
        writes.append(len(list(pieces)))
        inner(self, pieces)

    monkeypatch.setattr(transport, "writelines", writelines)
    async with AsyncExitStack() as stack:
        listener, handler = await stack.enter_async_context(serving())
        client = await stack.enter_async_context(connected(listener))
        client.send(*(request(PRODUCE, name) for name in "abc"))
        await handler.until(lambda: len(handler.waiting) == 3)
        handler.answer(*"abc")

        assert [await client.receive() for _ in range(3)] == ["a", "b", "c"]
        assert writes == [3]


async def test_connections_that_end_all_at_once_are_closed() -> None:
    async with AsyncExitStack() as stack:
        listener, _ = await stack.enter_async_context(serving())
        busy, *leaving = [await stack.enter_async_context(connected(listener)) for _ in range(20)]
        busy.send(*(request(OTHER, f"!{number}") for number in range(5)))
        for client in leaving:
            client.writer.write_eof()

        for client in leaving:
            assert await client.is_closed_by_the_broker()
        assert [await busy.receive() for _ in range(5)] == [f"!{n}" for n in range(5)]


async def test_nothing_is_left_of_a_connection_that_has_ended() -> None:
    async with serving() as (listener, handler):
        async with connected(listener) as client:
            client.send(request(OTHER, "!1"))
            client.send(struct.pack(">i", 10 << 20) + PRODUCE + b"x" * START_BYTES)
            await handler.until(lambda: bool(handler.announced))
            (decoder,) = (weakref.ref(each._decoder) for each in listener._connections)
            gc.disable()
        try:
            async with asyncio.timeout(DEADLINE_S):
                while decoder() is not None:  # noqa: ASYNC110 - it wakes nobody
                    await asyncio.sleep(0.001)
        finally:
            gc.enable()


async def test_closing_the_listener_ends_connections_and_accepts_no_more() -> None:
    async with serving() as (listener, handler), connected(listener) as client:
        client.send(request(OTHER, "a"))
        await handler.until(lambda: "a" in handler.waiting)
        assert handler.sessions[0].listener_name == "CLIENTS"

        await listener.close()
        assert await client.is_closed_by_the_broker()
        assert handler.waiting["a"].cancelled()
        with pytest.raises(ConnectionError):
            await asyncio.open_connection("127.0.0.1", listener.port)


async def test_what_is_in_progress_is_answered_when_the_listener_stops_to_serve() -> None:
    async with serving() as (listener, handler), connected(listener) as client:
        names = [f"r{number}" for number in range(MAX_PIPELINED_REQUESTS)]
        client.send(*(request(PRODUCE, name) for name in (*names, "behind", "last")))
        await handler.until(lambda: len(handler.started) == len(names))

        listener.stop_serving()
        with pytest.raises(ConnectionError):
            await asyncio.open_connection("127.0.0.1", listener.port)
        handler.answer(*reversed(names))
        assert [await client.receive() for _ in names] == names
        client.send(request(PRODUCE, "new"))
        await turns()
        assert handler.started == names, "nothing is begun any more"

        await listener.close()
        assert await client.is_closed_by_the_broker()


async def test_listener_that_stops_knows_whether_clients_wait_for_what_they_sent() -> None:
    """Requests that append must be answered; a fetch that waits for news need not be."""

    async with (
        serving() as (listener, handler),
        connected(listener) as client,
        connected(listener) as other,
    ):
        assert not listener.has_appends
        client.send(request(OTHER, "fetch"))
        await handler.until(lambda: "fetch" in handler.waiting)
        assert not listener.has_appends
        other.send(request(PRODUCE, "first"), request(PRODUCE, "second"))
        await handler.until(lambda: len(handler.started) == 3)
        assert listener.has_appends

        listener.stop_serving()
        handler.answer("second")
        await turns()
        assert listener.has_appends
        handler.answer("first")
        # Done, and not sent yet: whoever closes now takes the answers away.
        assert listener.has_appends
        await turns()
        assert not listener.has_appends
        await listener.close()
        assert [await other.receive(), await other.receive()] == ["first", "second"]


async def test_request_that_waits_is_told_of_the_one_behind_it() -> None:
    async with serving() as (listener, handler), connected(listener) as client:
        client.send(request(OTHER, "a"))
        await handler.until(lambda: "a" in handler.waiting)
        assert handler.hurried == []

        client.send(request(OTHER, "!b"))
        async with asyncio.timeout(DEADLINE_S):
            while not handler.hurried:  # noqa: ASYNC110 - the handler is not woken by it
                await asyncio.sleep(0.005)
        assert handler.hurried == ["a"]
        handler.answer("a")
        assert [await client.receive(), await client.receive()] == ["a", "!b"]


async def test_no_request_of_a_muted_connection_is_started_before_its_time() -> None:
    async with serving() as (listener, handler), connected(listener) as client:
        client.send(request(OTHER, "!one"))
        assert await client.receive() == "!one"
        loop = asyncio.get_running_loop()
        session = handler.sessions[0]
        session.muted_until_s = over_s = loop.time() + 0.05

        client.send(request(OTHER, "!two"), request(PRODUCE, "!three"))

        assert [await client.receive() for _ in range(2)] == ["!two", "!three"]
        assert loop.time() >= over_s
        # Others are not concerned.
        session.muted_until_s = loop.time() + 60
        async with connected(listener) as other:
            other.send(request(OTHER, "!other"))
            assert await other.receive() == "!other"
        assert handler.started == ["!one", "!two", "!three", "!other"]


async def test_connections_of_an_address_beyond_its_rate_are_held_unserved_and_closed() -> None:
    rate = {frozenset({("ip", "127.0.0.1")}): {"connection_creation_rate": 1.0}}
    bounds = Bounds(system_environment(), quotas=lambda: rate)
    async with serving(bounds) as (listener, handler), AsyncExitStack() as stack:
        served = [await stack.enter_async_context(connected(listener)) for _ in range(10)]
        for client in served:
            client.send(request(OTHER, "!answered"))
            assert await client.receive() == "!answered"
        too_many = await stack.enter_async_context(connected(listener))
        too_many.send(request(OTHER, "!never"))
        assert await too_many.is_closed_by_the_broker()
        assert "!never" not in handler.started
        assert len(bounds.connections) == 10
