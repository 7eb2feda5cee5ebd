"""No request keeps the loop, or the memory, for itself."""

from __future__ import annotations

import asyncio
import gc
import struct
import threading
from collections.abc import Iterator
from typing import Any, cast

import pytest

from jbodlab.kafka_wire.api_table import ApiKey, load
from jbodlab.kafka_wire.headers import request_header
from jbodlab.runtime.machine import system_environment
from jbodlab.server import dispatch, turns
from jbodlab.server.answer import InParts, Later, RequestContext
from jbodlab.server.api import Api
from jbodlab.server.dispatch import Dispatcher
from jbodlab.server.helper_thread import HelperThread
from jbodlab.server.request_handler import Pending
from jbodlab.server.resources import nothing
from jbodlab.server.response import Response
from jbodlab.server.session import Session
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import CloseConnectionError, DecodeError, KafkaError
from jbodlab.vocabulary.limits import LARGE_REQUEST_BYTES, MAX_REQUEST_BYTES, MAX_REQUEST_ITEMS
from tests.waiting import DEADLINE_S
from tests.waiting import turns as loop_turns

METADATA, VERSION = ApiKey.METADATA, 1
WHO = Session(listener_name="CLIENTS", peer="10.0.0.1:1")
APIS = {
    ApiKey.METADATA: Api[Any](key=ApiKey.METADATA, versions=(1, 1), resources=nothing, handler=Any),
    ApiKey.PRODUCE: Api[Any](
        key=ApiKey.PRODUCE, versions=(7, 7), has_records=True, resources=nothing, handler=Any
    ),
}


def names(count: int, letters: int = 10) -> memoryview:
    """A Metadata request for so many topics."""
    name = struct.pack(">h", letters) + b"n" * letters
    body = struct.pack(">i", count) + name * count
    return memoryview(request_header(METADATA, VERSION, 1, "tester") + body)


load(METADATA, VERSION, MAX_REQUEST_ITEMS)
SMALL, LARGE = names(1), names(LARGE_REQUEST_BYTES // 12 + 1)


class MetadataResponse(Response, frozen=True, kw_only=True):
    """Bytes that the encoder of version 1 writes."""

    brokers: tuple[Any, ...] = ()
    controller_id: int = -1
    topics: tuple[Any, ...] = ()


class Scripted:
    """Answers each request with what the test gives next."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)

    def answer(self, request: Any, context: RequestContext) -> Any:
        return self.answers.pop(0)

    def failure(self, request: Any, context: RequestContext, error: Exception) -> Any:
        raise AssertionError(error)


def dispatcher(*answers: Any) -> Dispatcher:
    thread = HelperThread(system_environment().threads, "large-requests")
    return Dispatcher(
        [(APIS[key], Scripted(*answers)) for key in (METADATA, ApiKey.PRODUCE)],
        thread,
        system_environment().monotonic_s,
    )


def scripted(served: Dispatcher) -> Scripted:
    _, handler = served.served[METADATA]
    assert isinstance(handler, Scripted)
    return handler


async def answered(found: Any) -> bytes:
    if isinstance(found, Pending):
        await asyncio.wait([found.future], timeout=DEADLINE_S)
        found = found.buffers()
    return b"".join(found)


def response() -> MetadataResponse:
    return MetadataResponse()


def in_parts(parts: Iterator[Any]) -> InParts:
    return InParts(parts, lambda _: response())


def test_request_larger_than_any_real_one_is_refused_by_its_start() -> None:
    with pytest.raises(
        DecodeError, match="METADATA version 1 of client 'tester' has 4194305 bytes"
    ):
        dispatcher().admit(SMALL, MAX_REQUEST_BYTES + 1)

    dispatcher().admit(SMALL, MAX_REQUEST_BYTES)


def test_only_produce_may_be_as_large_as_its_records() -> None:
    start = memoryview(request_header(ApiKey.PRODUCE, 7, 1, "tester"))

    dispatcher().admit(start, 100 << 20)


async def test_request_with_more_items_than_any_real_one_is_refused_undecoded() -> None:
    found = dispatcher().handle(names(MAX_REQUEST_ITEMS + 1, 0), WHO)

    with pytest.raises(DecodeError, match="METADATA version 1 of client 'tester': 1 items more"):
        await answered(found)


def test_large_request_of_a_stranger_is_not_decoded_to_be_refused() -> None:
    class Login:
        takes_raw_tokens = False

        def admit(self, api_key: int, now_s: float) -> None:
            raise KafkaError(ErrorCode.ILLEGAL_SASL_STATE, "the login has begun")

    stranger = Session(listener_name="CLIENTS", peer="10.0.0.1:1")
    stranger.authentication = cast(Any, Login())

    with pytest.raises(CloseConnectionError, match="the login has begun"):
        dispatcher().handle(LARGE, stranger)


@pytest.mark.parametrize("frame", [SMALL, LARGE], ids=["small", "large"])
async def test_others_are_answered_while_a_request_is_worked_on(
    monkeypatch: Any, frame: memoryview
) -> None:
    monkeypatch.setattr(turns, "SLICE_S", 0.0)
    other_asked: list[bool] = []

    def parts() -> Iterator[int]:
        while not other_asked:
            yield 1

    def other() -> Iterator[int]:
        other_asked.append(True)
        return iter(())

    served = dispatcher(in_parts(parts()))
    working = served.handle(frame, WHO)
    await loop_turns()
    scripted(served).answers.append(in_parts(other()))

    assert await answered(served.handle(SMALL, WHO))
    assert await answered(working)


async def test_large_requests_are_worked_on_one_after_the_other(monkeypatch: Any) -> None:
    monkeypatch.setattr(turns, "SLICE_S", 0.0)

    log: list[str] = []

    def parts(name: str) -> Iterator[int]:
        for number in range(5):
            log.append(name)
            yield number

    served = dispatcher(in_parts(parts("a")), in_parts(parts("b")))
    both = [served.handle(LARGE, WHO), served.handle(LARGE, WHO)]

    assert [bool(await answered(each)) for each in both] == [True, True]
    assert "".join(log) == "aaaaabbbbb"


async def test_turn_is_not_kept_while_a_disk_or_somebody_else_is_waited_for() -> None:
    future = asyncio.get_running_loop().create_future()
    served = dispatcher(Later(future, lambda _: response()), response())
    first, second = served.handle(LARGE, WHO), served.handle(LARGE, WHO)
    assert isinstance(first, Pending)

    assert await answered(second)
    assert not first.future.done()
    future.set_result(None)
    assert await answered(first)


async def test_first_request_of_a_version_waits_for_no_large_request(monkeypatch: Any) -> None:
    served = dispatcher(response())
    await served._turn.acquire()
    monkeypatch.setattr(dispatch, "loaded", lambda key, version: None)

    assert await answered(served.handle(SMALL, WHO))


async def test_client_that_leaves_gives_its_turn_up_and_what_it_waits_for() -> None:
    future = asyncio.get_running_loop().create_future()
    served = dispatcher(Later(future, lambda _: response()), response())
    first, second = served.handle(LARGE, WHO), served.handle(LARGE, WHO)
    assert isinstance(first, Pending)
    async with asyncio.timeout(DEADLINE_S):
        while len(scripted(served).answers) == 2:  # noqa: ASYNC110
            await asyncio.sleep(0.001)

    first.future.cancel()

    assert await answered(second)
    assert future.cancelled()


async def test_client_that_leaves_a_gathered_answer_leaves_no_error_behind() -> None:
    reported: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: reported.append(context))
    gathered = asyncio.gather(loop.create_future(), return_exceptions=True)
    served = dispatcher(Later(gathered, lambda _: response()))
    first = served.handle(LARGE, WHO)
    assert isinstance(first, Pending)
    async with asyncio.timeout(DEADLINE_S):
        while scripted(served).answers:  # noqa: ASYNC110
            await asyncio.sleep(0.001)

    first.future.cancel()
    await loop_turns()
    del first, gathered, served
    gc.collect()

    assert reported == []


async def test_large_answers_are_encoded_off_the_loop() -> None:
    threads: list[int] = []

    class Watched(tuple[Any, ...]):
        __slots__ = ()

        def __iter__(self) -> Iterator[Any]:
            threads.append(threading.get_ident())
            return super().__iter__()

    watched = MetadataResponse(brokers=Watched())
    served = dispatcher(watched, watched)

    assert await answered(served.handle(SMALL, WHO))
    assert await answered(served.handle(LARGE, WHO))

    assert threads[0] == threading.get_ident()
    assert threads[1] != threading.get_ident()


async def test_first_request_of_a_version_is_decoded_beside_the_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dispatch, "loaded", lambda *_: None)

    for key, frame in ((METADATA, SMALL), (PRODUCED[0], produced())):
        answer = Later(done([]), lambda _: response()) if key == PRODUCED[0] else response()
        thread = HelperThread(system_environment().threads, "large-requests")
        served = Dispatcher(
            [(APIS[key], Scripted(answer))], thread, system_environment().monotonic_s
        )
        found = served.handle(frame, WHO)

        assert isinstance(found, Pending)
        assert not found.overlaps
        assert not found.future.done()
        await asyncio.wait([found.future], timeout=DEADLINE_S)


PRODUCED = (ApiKey.PRODUCE, 7)


def produced() -> memoryview:
    """A Produce request without records."""
    body = struct.pack(">hhii", -1, 1, 1_000, 0)
    return memoryview(request_header(*PRODUCED, 1, "tester") + body)


def done(result: Any) -> asyncio.Future[Any]:
    future = asyncio.get_running_loop().create_future()
    future.set_result(result)
    return future
