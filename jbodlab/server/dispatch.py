"""Frame to typed request to handler to bytes; here, and only here, exceptions become error codes.

A request that cannot be read or whose API or version is not served ends its connection, since
the protocol has no answer to it. The exception is ApiVersions: a client that asks with a version
of the future gets the range in a version 0 body and asks again (KIP-511).

No request may keep the loop for long. One that is larger than any real one is refused: by its size
before it is received, by its number of items before it is decoded. Large ones are worked on one at
a time, in slices, and are decoded and encoded on a thread, so what they take of memory and of time
has a bound whatever number of clients sends them. Produce is no large request in this sense: its
size is that of its records, which are not looked into. The first request of each API and version
goes to that thread as well, as the codecs of that version have to be made; it waits for no turn.
Nobody keeps the turn while a disk, a replica or another process is waited for.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Callable, Coroutine, Iterable
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial
from typing import Any, NoReturn

import msgspec

from jbodlab.kafka_wire.api_table import ApiCodec, ApiKey, load, loaded
from jbodlab.kafka_wire.framing import SIZE
from jbodlab.kafka_wire.headers import (
    RequestHeader,
    describe_header,
    read_request_header,
)
from jbodlab.runtime.supervised import give_up
from jbodlab.server.answer import Answer, Handler, InParts, Later, NoAnswer, RequestContext
from jbodlab.server.api import Api
from jbodlab.server.authentication import Authentication, refuse
from jbodlab.server.helper_thread import HelperThread
from jbodlab.server.request_handler import Buffers, Pending
from jbodlab.server.response import Response
from jbodlab.server.session import Session
from jbodlab.server.turns import SlicedWork
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import (
    AuthenticationError,
    CloseConnectionError,
    ControllerUnavailableError,
    DecodeError,
    KafkaError,
    LogDirError,
    UnsupportedVersionError,
)
from jbodlab.vocabulary.limits import LARGE_REQUEST_BYTES, MAX_REQUEST_BYTES

logger = logging.getLogger(__name__)

_HEAD = struct.Struct(">ii")
"""Size and correlation id of a response."""
_UNSUPPORTED_VERSION = struct.Struct(">iihihhh")


class _Call(msgspec.Struct, frozen=True):
    """One request with everything that its answer needs."""

    handler: Handler
    request: Any
    context: RequestContext
    codec: ApiCodec


class Dispatcher:
    """The request handler of all listeners.

    Args:
        served: Each API with its handler.
        thread: Decodes and encodes large requests.
        monotonic_s: Clock that goes on while a callback runs.
    """

    def __init__(
        self,
        served: Iterable[tuple[Api[Any], Handler]],
        thread: HelperThread,
        monotonic_s: Callable[[], float],
    ) -> None:
        self.served = {int(api.key): (api, handler) for api, handler in served}
        """Each API with its handler, by its key."""
        self._with_records = {
            api.key.to_bytes(2, "big") for api, _ in self.served.values() if api.has_records
        }
        self._ready: dict[tuple[int, int], tuple[Api[Any], Handler, ApiCodec]] = {}
        """Handlers of versions of APIs that were asked for before, by key and version."""
        self._turn = asyncio.Semaphore()
        """Held by the one large request that is worked on."""
        self._thread = thread
        self._monotonic_s = monotonic_s

    def is_pipelined(self, frame: memoryview) -> bool:
        """Return whether a request has records: such requests may overlap on one connection."""
        return bytes(frame[:2]) in self._with_records

    def admit(self, start: memoryview, size_bytes: int) -> None:
        """Raise DecodeError for a request larger than any real one, whose start has arrived."""
        if size_bytes > MAX_REQUEST_BYTES and not self.is_pipelined(start):
            raise DecodeError(
                f"{describe_header(start)} has {size_bytes} bytes, expected at most "
                f"{MAX_REQUEST_BYTES}"
            )

    def handle(self, frame: memoryview, session: Session) -> Buffers | Pending:
        """Answer one request.

        Raises:
            DecodeError: the request cannot be read, or is not served.
            CloseConnectionError: what went wrong has no response.
        """
        login = session.authentication
        if login is not None and login.takes_raw_tokens:
            return self._take_token(frame, session, login)
        header = read_request_header(frame)
        codec: ApiCodec | None
        handler: Handler | None
        ready = self._ready.get((header.api_key, header.api_version))
        if ready is not None:
            api, handler, codec = ready
        else:
            api, handler = self._find(header)
            if handler is None:
                return _unsupported_version(header.correlation_id, api)
            codec = loaded(header.api_key, header.api_version)
            if codec is not None:
                self._ready[header.api_key, header.api_version] = api, handler, codec
        context = RequestContext(header, session)
        is_large = len(frame) > LARGE_REQUEST_BYTES and not api.has_records
        if login is not None:
            try:
                login.admit(header.api_key, self._monotonic_s())
            except KafkaError as error:
                if is_large:
                    # A stranger's; its refusal would take long.
                    raise CloseConnectionError(str(error)) from error
                session.closes = True
                handler = Refusing(handler, error)
        if is_large or codec is None:
            turn = self._turn if is_large else nullcontext()
            work = self._answer_aside(api, handler, frame, context, turn)
            return _pending(work, appends=api.has_records)
        try:
            request, _ = codec.read(frame, header.body_offset)
        except DecodeError as error:
            raise _unreadable(frame, error) from error
        call = _Call(handler, request, context, codec)
        try:
            answer = handler.answer(call.request, context)
            if isinstance(answer, InParts):
                sliced = SlicedWork(answer, self._monotonic_s)
                if not sliced.begin():
                    return _pending(self._answer_in_turn(call, sliced))
                answer = sliced.response()
        except Exception as error:  # noqa: BLE001 - one request must not end the others; it is logged
            return _encoded(error_response(call, error), call)
        if isinstance(answer, Later):
            return Pending(
                answer.future,
                partial(_encoded, answer, call),
                answer.hurry,
                answer.overlaps,
                api.has_records,
            )
        return _encoded(answer, call)

    def _take_token(
        self, frame: memoryview, session: Session, login: Authentication
    ) -> Buffers | Pending:
        """Answer a token that is no request: after SaslHandshake 0."""
        try:
            answer = login.token(bytes(frame), self._monotonic_s())
        except AuthenticationError as error:
            refuse(session, login, error, self._monotonic_s())
            return _pending(_silence(login.settings.failure_delay_s))
        if login.user:
            session.user = login.user
        return [SIZE.pack(len(answer)) + answer]

    def _find(self, header: RequestHeader) -> tuple[Api[Any], Handler | None]:
        """Return the API of a request, without its handler for ApiVersions of the future."""
        found = self.served.get(header.api_key)
        if found is not None:
            low, high = found[0].accepted or found[0].versions
            if low <= header.api_version <= high:
                return found
            if header.api_key == ApiKey.API_VERSIONS:
                return found[0], None
        raise UnsupportedVersionError(
            f"unsupported API {header.api_key} version {header.api_version}"
        )

    async def _answer_aside(
        self,
        api: Api[Any],
        handler: Handler,
        frame: memoryview,
        context: RequestContext,
        turn: AbstractAsyncContextManager[None],
    ) -> Buffers:
        async with turn:
            codec, request = await self._thread.run(partial(_read, frame, context.header, api))
            call = _Call(handler, request, context, codec)
            answer = await self._run_handler(call)
            if not isinstance(answer, Later):
                return await self._thread.run(partial(_encoded, answer, call))
        answer = await await_later(call, answer)
        return await self._thread.run(partial(_encoded, answer, call))

    async def _answer_in_turn(self, call: _Call, work: SlicedWork) -> Buffers:
        async with self._turn:
            answer: Response
            try:
                answer = await work.finish()
            except Exception as error:  # noqa: BLE001 - as in handle
                answer = error_response(call, error)
            return await self._thread.run(partial(_encoded, answer, call))

    async def _run_handler(self, call: _Call) -> Response | Later:
        answer: Answer
        try:
            answer = call.handler.answer(call.request, call.context)
            if isinstance(answer, InParts):
                answer = await SlicedWork(answer, self._monotonic_s).finish()
        except Exception as error:  # noqa: BLE001 - as in handle
            return error_response(call, error)
        return answer


class Refusing:
    """A handler in place of another one, which answers with an error.

    Args:
        handler: The other one.
        error: Error of the response.
    """

    def __init__(self, handler: Handler, error: KafkaError) -> None:
        self._error = error
        self.failure = handler.failure

    def answer(self, request: Any, context: RequestContext) -> NoReturn:
        """Refuse."""
        raise self._error


async def _silence(delay_s: float) -> Buffers:
    await asyncio.sleep(delay_s)
    return ()


def _read(frame: memoryview, header: RequestHeader, api: Api[Any]) -> tuple[ApiCodec, Any]:
    codec = load(header.api_key, header.api_version, api.max_items)
    try:
        request, _ = codec.read(frame, header.body_offset)
    except DecodeError as error:
        raise _unreadable(frame, error) from error
    return codec, request


def _unreadable(frame: memoryview, error: DecodeError) -> DecodeError:
    return DecodeError(f"{describe_header(frame)}: {error}")


def _pending(work: Coroutine[Any, Any, Buffers], *, appends: bool = False) -> Pending:
    task = asyncio.get_running_loop().create_task(work, name="large request")
    # Produce requests behind it wait: what they append must come later.
    return Pending(task, task.result, overlaps=False, appends=appends)


async def await_later(call: _Call, later: Later) -> Response:
    """Wait for an answer; who is cancelled cancels it."""
    try:
        await asyncio.wait([later.future])
    except asyncio.CancelledError:
        give_up(later.future)
        raise
    return response_of_later(call, later)


def as_kafka_error(error: Exception) -> KafkaError:
    """Return the error that a client is to see; what nobody expected is logged."""
    match error:
        case KafkaError():
            return error
        case LogDirError():
            return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
        case ControllerUnavailableError():
            return KafkaError(ErrorCode.NOT_CONTROLLER, "the controller does not respond")
        case TimeoutError():
            return KafkaError(ErrorCode.REQUEST_TIMED_OUT)
        case MemoryError():
            # A client that asks again may be answered; the next request may need less.
            logger.warning("not enough memory for a request")
            return KafkaError(ErrorCode.REQUEST_TIMED_OUT)
        case _:
            logger.error("cannot process a request", exc_info=error)
            return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)


def response_of_later(call: _Call, later: Later) -> Response:
    """Return an answer that came later; a cancelled future ends the connection."""
    try:
        response = later.finish(later.future.result())
    except Exception as error:  # noqa: BLE001 - as in handle
        response = error_response(call, error)
    later.answered()
    return response


def error_response(call: _Call, error: Exception) -> Response:
    """Return the response in which a request fails as a whole."""
    return call.handler.failure(call.request, call.context, as_kafka_error(error))


def _encoded(answer: Response | Later, call: _Call) -> Buffers:
    if isinstance(answer, Later):
        answer = response_of_later(call, answer)
    if isinstance(answer, NoAnswer):
        if answer.failure is not None:
            raise CloseConnectionError(answer.failure)
        return ()
    head = bytearray(_HEAD.size) + call.codec.header_end
    buffers = call.codec.encode(answer, head)
    size = sum(map(len, buffers)) - SIZE.size
    _HEAD.pack_into(head, 0, size, call.context.header.correlation_id)
    return buffers


def _unsupported_version(correlation_id: int, api: Api[Any]) -> Buffers:
    """Return the answer to an ApiVersions version of the future: error 35 and our range."""
    code, size = ErrorCode.UNSUPPORTED_VERSION, _UNSUPPORTED_VERSION.size - SIZE.size
    return (_UNSUPPORTED_VERSION.pack(size, correlation_id, code, 1, api.key, *api.versions),)
