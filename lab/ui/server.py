"""The page's door: HTTP on the loopback interface, one stream of events for each browser.

A browser that is slow gets fewer patches, never a queue: its stream waits until what was written is
on its way, and then tells what is newest.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Protocol

import aiofiles

from jbodlab import pages
from jbodlab.runtime.http_connections import HttpConnections, finish
from jbodlab.runtime.http_message import HttpRequest, answer, head_of_answer, parse_head
from jbodlab.vocabulary.ids import TopicPartition
from lab.errors import LabError
from lab.ui import guards, model
from lab.ui.losses import LossesError, LossesPage
from lab.ui.published import Published
from lab.ui.watching import WatchedCluster, Watching

HOST = "127.0.0.1"
BODY_BYTES_MAX = 4 * 1024
REQUEST_TIMEOUT_S = 5.0
CONNECTIONS_MAX = 64
STREAMS_MAX = 16
PATCH_PERIOD_S = 0.2
KEEP_ALIVE_S = 10.0
WRITE_TIMEOUT_S = 20.0
"""How long a browser may take to read a patch before it counts as gone."""

HTML = "text/html; charset=utf-8"
JSON = "application/json; charset=utf-8"
FOLDER = Path(__file__).parent / "static"
STATIC: Mapping[str, tuple[Path, str]] = {
    "/": (FOLDER / "index.html", HTML),
    "/page.js": (FOLDER / "page.js", "text/javascript; charset=utf-8"),
    "/shared.css": (Path(pages.__file__).parent / "page.css", "text/css; charset=utf-8"),
    "/page.css": (FOLDER / "page.css", "text/css; charset=utf-8"),
    "/icon.svg": (FOLDER / "icon.svg", "image/svg+xml"),
}


class RefusedError(Exception):
    """An action that is not carried out, and why."""


class Actions(Protocol):
    """Actions of the page on its cluster; each call blocks, one runs at a time."""

    def inject(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Break something.

        Raises:
            RefusedError: it cannot be, or shall not be.
        """

    def heal(self) -> dict[str, Any]:
        """Undo every fault and bring directories back.

        Raises:
            RefusedError: that failed.
        """


class Server:
    """Serves the page of one cluster; lives on the event loop.

    Args:
        watched: The cluster.
        start: Tells this start of the server from others.
        token: Token that requests that change something must carry, and all about a closed cluster.
        is_closed: Whether the cluster lets only those in whom it knows.
        actions: None: nothing can be changed, and there are no routes to do so.
        losses: The page of the effects of losses.
    """

    def __init__(
        self,
        watched: WatchedCluster,
        *,
        start: str,
        token: str,
        is_closed: bool,
        actions: Actions | None,
        losses: LossesPage,
    ) -> None:
        self.port = 0
        self._published = Published(start)
        self._token = token
        self._is_closed = is_closed
        self._actions = actions
        self._losses = losses
        self._acting = asyncio.Lock()
        self._news = asyncio.Event()
        self._watching = Watching(
            watched, self._published, self._tell, may_break=actions is not None
        )
        self._connections = HttpConnections("page", CONNECTIONS_MAX, self._serve)
        self._streams = 0

    def seen(self) -> model.Seen:
        """Return the cluster as it was seen last."""
        return self._watching.seen

    async def run(self, port: int, serving: Future[int]) -> None:
        """Serve until cancelled.

        Args:
            port: Where to listen; 0 takes a free one.
            serving: Gets the port once it is served.

        Raises:
            LabError: the port cannot be bound.
        """
        try:
            self.port = await self._connections.start(HOST, port)
        except OSError as error:
            raise LabError(f"cannot listen at {HOST}:{port}: {error.strerror}") from error
        serving.set_result(self.port)
        try:
            await self._watching.run()
        finally:
            await self._connections.close()

    def _tell(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(REQUEST_TIMEOUT_S):
            request, body = await _read(reader)
        if isinstance(request, bytes):
            writer.write(request)
        elif refused := guards.refusal(
            request,
            self.port,
            self._token,
            is_secret=self._is_closed and request.path not in STATIC,
        ):
            status, reason = refused
            writer.write(_json(status, {"error": reason}))
        elif request.method == "GET" and request.path == "/events":
            await self._stream(request, writer)
        else:
            writer.write(await self._answer(request, body))
        async with asyncio.timeout(WRITE_TIMEOUT_S):
            await finish(writer)

    async def _answer(self, request: HttpRequest, body: bytes) -> bytes:
        if request.method == "GET":
            return await self._get(request)
        if self._actions is None or request.path not in ("/faults", "/heal"):
            return _json("404 Not Found", {"error": "not found"})
        try:
            words = json.loads(body)
        except ValueError:
            words = None
        if not isinstance(words, dict):
            return _json("400 Bad Request", {"error": "expected a JSON object as the body"})
        inject = self._actions.inject
        async with self._acting:
            try:
                if request.path == "/faults":
                    done = await asyncio.to_thread(inject, words)
                else:
                    done = await asyncio.to_thread(self._actions.heal)
            except RefusedError as error:
                return _json("409 Conflict", {"error": str(error)})
        return _json("200 OK", done)

    async def _get(self, request: HttpRequest) -> bytes:
        if request.path in STATIC:
            path, kind = STATIC[request.path]
            async with aiofiles.open(path, "rb") as file:
                return answer("200 OK", await file.read(), kind=kind, headers=guards.HEADERS)
        if request.path == "/what-if":
            return await self._what_if()
        if request.path == "/state.json":
            return _json("200 OK", self._published.whole())
        if request.path == "/partition.json":
            topic, index = request.query.get("topic", ""), request.query.get("partition", "")
            is_index = index.isascii() and index.isdecimal() and len(index) < 10
            wanted = TopicPartition(topic, int(index) if is_index else -1)
            one = model.partition(self._watching.seen, wanted)
            if one is not None:
                return _json("200 OK", one)
        return _json("404 Not Found", {"error": "not found"})

    async def _what_if(self) -> bytes:
        try:
            page = await self._losses.html()
        except LossesError as error:
            return _json("503 Service Unavailable", {"error": str(error)})
        return answer("200 OK", page, kind=HTML, headers={**guards.HEADERS, **guards.OWN_POLICY})

    async def _stream(self, request: HttpRequest, writer: asyncio.StreamWriter) -> None:
        if self._streams >= STREAMS_MAX:
            writer.write(_json("503 Service Unavailable", {"error": "too many pages are open"}))
            return
        self._streams += 1
        try:
            fields = {"Content-Type": "text/event-stream; charset=utf-8", **guards.HEADERS}
            writer.write(head_of_answer("200 OK", fields))
            # How long a browser waits until it comes back, which it does by itself.
            writer.write(b"retry: 1000\n\n")
            seen = request.headers.get("last-event-id", "")
            while True:
                news = self._news
                if seen != self._published.id:
                    patch = self._published.since(seen)
                    seen = patch["id"]
                    writer.write(f"id: {seen}\ndata: {json.dumps(patch)}\n\n".encode())
                else:
                    writer.write(b":\n\n")
                async with asyncio.timeout(WRITE_TIMEOUT_S):
                    await writer.drain()
                await asyncio.sleep(PATCH_PERIOD_S)
                try:
                    async with asyncio.timeout(KEEP_ALIVE_S):
                        await news.wait()
                except TimeoutError:
                    # Something is said all the same: a browser that is gone is found out so.
                    continue
        finally:
            self._streams -= 1


async def _read(reader: asyncio.StreamReader) -> tuple[HttpRequest | bytes, bytes]:
    """Return a request and its body, or the answer to what is none."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        return answer("431 Request Header Fields Too Large"), b""
    request = parse_head(head)
    if request is None or request.length is None:
        return answer("400 Bad Request"), b""
    if request.length > BODY_BYTES_MAX:
        return answer("413 Content Too Large"), b""
    return request, await reader.readexactly(request.length)


def _json(status: str, found: Any) -> bytes:
    return answer(status, json.dumps(found).encode(), kind=JSON, headers=guards.HEADERS)
