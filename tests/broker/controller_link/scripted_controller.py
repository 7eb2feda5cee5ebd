"""A controller on a real port that answers as a test says."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Any

import grpc.aio

from broker.controller_link.channel import ControllerChannel
from jbodlab.controller_api import requests
from jbodlab.controller_api.grpc_server import add_to_server
from jbodlab.controller_api.grpc_transport import GrpcTransport
from jbodlab.controller_api.translate import from_proto, to_proto


class ScriptedController:
    """Keeps every request, and answers with what `answer` returns for it."""

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.answers: dict[type, Callable[[Any], Any]] = {}
        self.streams: list[list[requests.MetadataStreamResponse]] = []
        """Records that each stream in turn sends before it stays open in silence."""

    async def stream(self, method: str, message: Any) -> AsyncGenerator[Any, None]:
        self.requests.append(from_proto(message))
        for response in self.streams.pop(0) if self.streams else []:
            yield to_proto(response)
        if self.streams:
            return  # The next stream has something to say.
        await asyncio.Event().wait()

    def of_type(self, kind: type) -> list[Any]:
        return [request for request in self.requests if isinstance(request, kind)]

    async def unary(self, method: str, message: Any) -> Any:
        request = from_proto(message)
        self.requests.append(request)
        answer = self.answers[type(request)](request)
        if asyncio.iscoroutine(answer):
            answer = await answer
        return to_proto(answer)


@contextlib.asynccontextmanager
async def connected(controller: ScriptedController) -> AsyncIterator[ControllerChannel]:
    async with serving(controller) as port:
        channel = ControllerChannel(GrpcTransport(f"127.0.0.1:{port}"))
        yield channel
        await channel.close()


@contextlib.asynccontextmanager
async def serving(controller: ScriptedController, port: int = 0) -> AsyncIterator[int]:
    server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
    add_to_server(controller, server)
    bound = server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    try:
        yield bound
    finally:
        await server.stop(None)
