"""The server's side of HTTP: routes of the declared requests, the live page, and its events."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from jbodlab import pages
from lab.api import openapi, problems
from lab.api.access import HEADERS, OWN_POLICY, TOKEN_FIELD, Access
from lab.api.once import Once
from lab.api.operations import BODY, EVENTS, HTML, JSON, Operation
from lab.api.problems import RequestError
from lab.api.served import OPERATIONS, Served
from lab.ui.live import Live

BODY_BYTES_MAX = 256 * 1024
DRAINED_BYTES_MAX = 4 * 1024 * 1024
"""So much is read of a body that is too large: a client that still sends would miss the refusal."""
BODY_TIMEOUT_S = 5.0
THREADS_MAX = 32
STREAMS_MAX = 16
PATCH_PERIOD_S = 0.2
KEEP_ALIVE_S = 10.0
PREFIX = "/v1"
PUBLIC = (f"{PREFIX}/health", f"{PREFIX}/openapi.json")
STATIC_FOLDER = Path(__file__).parent.parent / "ui" / "static"
STATIC: Mapping[str, tuple[Path, str]] = {
    "/": (STATIC_FOLDER / "index.html", "text/html; charset=utf-8"),
    "/page.js": (STATIC_FOLDER / "page.js", "text/javascript; charset=utf-8"),
    "/shared.css": (Path(pages.__file__).parent / "page.css", "text/css; charset=utf-8"),
    "/page.css": (STATIC_FOLDER / "page.css", "text/css; charset=utf-8"),
    "/icon.svg": (STATIC_FOLDER / "icon.svg", "image/svg+xml"),
}
_LOG = logging.getLogger(__name__)
_FIELD = re.compile(r"\{(\w+)\}")


def make(served: Served, live: Live, access: Access, *, may_change: bool) -> Starlette:
    """Return the application.

    Args:
        served: The cluster that it serves.
        live: Events in the cluster.
        access: Rights to its requests.
        may_change: Whether anything can be changed; else there are no routes to do so.
    """
    api = _Api(live, access)
    by_path: dict[str, dict[str, tuple[Operation, object]]] = {}
    for owner in (served, served.actions, served.rehearsals):
        for one in OPERATIONS[type(owner)]:
            if may_change or not one.is_change:
                by_path.setdefault(PREFIX + one.path, {})[one.method] = one, owner
    routes = [
        Route(path, api.guarded(path, api.of_path(methods)), methods=_METHODS)
        for path, methods in by_path.items()
    ]
    document = openapi.document()
    routes += [
        Route(
            f"{PREFIX}/openapi.json",
            api.guarded(f"{PREFIX}/openapi.json", _fixed(lambda: JSONResponse(document))),
            methods=_METHODS,
        ),
        *(Route(path, api.guarded(path, _fixed(_file(path))), methods=_METHODS) for path in STATIC),
        Route("/{rest:path}", api.guarded("", _missing), methods=_METHODS),
    ]
    return Starlette(routes=routes)


_METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"]
Handler = Callable[[Request], Any]


def _file(path: str) -> Callable[[], Response]:
    file, kind = STATIC[path]
    return lambda: FileResponse(file, media_type=kind)


def _fixed(make_answer: Callable[[], Response]) -> Handler:
    async def handle(request: Request) -> Response:
        if request.method not in ("GET", "HEAD"):
            raise _WrongMethodError(("GET",))
        return make_answer()

    return handle


async def _missing(_: Request) -> Response:
    raise RequestError(404, "not found")


class _WrongMethodError(RequestError):
    def __init__(self, allowed: Sequence[str]) -> None:
        super().__init__(405, f"expected {', '.join(allowed)}")
        self.allowed = allowed


class _Api:
    """Handlers of requests; lives on the event loop."""

    def __init__(self, live: Live, access: Access) -> None:
        self._live = live
        self._access = access
        self._once = Once()
        self._threads = asyncio.Semaphore(THREADS_MAX)
        self._streams = 0

    def guarded(self, path: str, handle: Handler) -> Handler:
        """Return a handler whose request is checked first and whose errors are problems."""

        async def guarded(request: Request) -> Response:
            more: dict[str, str] = {}
            try:
                self._access.check(
                    request.method,
                    request.headers,
                    request.query_params,
                    is_public=path in STATIC or path in PUBLIC,
                )
                found: Response = await handle(request)
                for name, value in HEADERS.items():
                    found.headers.setdefault(name, value)
                return found
            except _WrongMethodError as error:
                told, more = problems.problem(405, str(error)), {"Allow": ", ".join(error.allowed)}
            except ClientDisconnect:
                told = problems.problem(400, "the request was cut off")
            except Exception as error:  # noqa: BLE001 - a fault of the server is a problem, too
                known = problems.of_error(error)
                if known is None:
                    _LOG.exception("%s %s failed", request.method, request.url.path)
                    known = problems.problem(500, type(error).__name__)
                told = known
                if known.status == 401:
                    more = {"WWW-Authenticate": "Bearer"}
            return Response(
                msgspec.json.encode(told),
                told.status,
                {**HEADERS, **more},
                problems.CONTENT_TYPE,
            )

        return guarded

    def of_path(self, methods: Mapping[str, tuple[Operation, object]]) -> Handler:
        """Return the handler of the requests that have one path."""

        async def handle(request: Request) -> Response:
            method = "GET" if request.method == "HEAD" else request.method
            if method not in methods:
                raise _WrongMethodError(tuple(methods))
            one, owner = methods[method]
            if one.media == EVENTS:
                return self._events(request)
            return await self._carried_out(one, owner, request)

        return handle

    async def _carried_out(self, one: Operation, owner: object, request: Request) -> Response:
        given = structs.asdict(_asked(one, request))
        text = await _body(request)
        if one.body is not None:
            try:
                given[BODY] = msgspec.convert(_whole(msgspec.json.decode(text)), type=one.body)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                raise RequestError(400, f"the body is wrong: {error}") from error
        elif text.strip() not in (b"", b"{}"):
            raise RequestError(400, "expected no body")
        key = request.headers.get("idempotency-key", "") if one.once else ""
        if len(key) > 200:
            raise RequestError(400, "the idempotency key is longer than 200 characters")

        async def carry_out() -> Any:
            assert one.run is not None
            async with self._threads:
                # An action that has begun comes to its end, also when its client has left.
                return await asyncio.shield(asyncio.to_thread(one.run, owner, **given))

        if key:
            whole = f"{one.name}\n".encode() + text
            found = await self._once.answer(key, whole, carry_out)
        else:
            found = await carry_out()
        return _answer(one, found)

    def _events(self, request: Request) -> Response:
        if self._streams >= STREAMS_MAX:
            raise RequestError(503, "too many streams are open")
        last = request.headers.get("last-event-id", "")
        return StreamingResponse(self._patches(last), media_type=f"{EVENTS}; charset=utf-8")

    async def _patches(self, seen: str) -> AsyncIterator[bytes]:
        """Yield what changed; a slow reader gets fewer patches, never a queue."""
        self._streams += 1
        try:
            # How long a browser waits until it comes back, which it does by itself.
            yield b"retry: 1000\n\n"
            while True:
                news = self._live.news
                if seen != self._live.published.id:
                    patch = self._live.published.since(seen)
                    seen = patch["id"]
                    yield f"id: {seen}\ndata: {json.dumps(patch)}\n\n".encode()
                else:
                    yield b":\n\n"
                await asyncio.sleep(PATCH_PERIOD_S)
                try:
                    async with asyncio.timeout(KEEP_ALIVE_S):
                        await news.wait()
                except TimeoutError:
                    # Something is said all the same: a browser that is gone is found out so.
                    continue
        finally:
            self._streams -= 1


def _answer(one: Operation, found: Any) -> Response:
    if one.status == 204:
        return Response(status_code=204)
    if one.media == JSON:
        return Response(msgspec.json.encode(found), one.status, media_type=JSON)
    headers = dict(OWN_POLICY) if one.media == HTML else {}
    kind = f"{HTML}; charset=utf-8" if one.media == HTML else one.media
    return Response(found, one.status, headers, kind)


def _whole(found: Any) -> Any:
    """Return a decoded body with whole numbers as such: for JSON Schema `3.0` is an integer."""
    match found:
        case float() if found.is_integer():
            return int(found)
        case dict():
            return {key: _whole(value) for key, value in found.items()}
        case list():
            return [_whole(value) for value in found]
    return found


def _asked(one: Operation, request: Request) -> Any:
    """Return what path and query say.

    Raises:
        RequestError: a field is unknown, twice there, missing or wrong.
    """
    in_path = set(_FIELD.findall(one.path))
    given: dict[str, Any] = dict(request.path_params)
    for name, value in request.query_params.multi_items():
        if name == TOKEN_FIELD:
            continue
        if name in given or name in in_path:
            raise RequestError(400, f"the field {name!r} is there twice")
        given[name] = value
    try:
        return msgspec.convert(given, type=one.asked, strict=False)
    except msgspec.ValidationError as error:
        status = 404 if any(f"$.{name}" in str(error) for name in in_path) else 400
        raise RequestError(status, str(error)) from error


async def _body(request: Request) -> bytes:
    """Return the body of a request.

    Raises:
        RequestError: it is too large, or does not come.
    """
    found, size = bytearray(), 0
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            async for piece in request.stream():
                size += len(piece)
                if size <= BODY_BYTES_MAX:
                    found += piece
                elif size > DRAINED_BYTES_MAX:
                    break
    except TimeoutError:
        raise RequestError(400, "the body did not come in time") from None
    if size > BODY_BYTES_MAX:
        raise RequestError(413, f"expected at most {BODY_BYTES_MAX} bytes")
    return bytes(found)
