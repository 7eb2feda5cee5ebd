"""Calls between brokers and their controller, in place of gRPC's two ends.

Messages are written and read by the real protobuf classes on both sides, so that nothing is shared.
Each error is what gRPC makes of it: no connection, a deadline, a connection that broke while the
call was carried out or after it, a stream that ends in the middle or goes silent.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextvars import Context, copy_context
from typing import Any

from jbodlab.controller_api.messages import SERVICE
from jbodlab.controller_api.transport import (
    NotControllerError,
    Refusal,
    RpcRefusedError,
    RpcService,
)
from jbodlab.vocabulary.endpoint import Endpoint
from jbodlab.vocabulary.errors import ControllerUnavailableError
from tests.simulation.loop import PROCESS, Process, SimLoop
from tests.simulation.network import Network, node_at, node_of

KEEP_ALIVE_S = 8.0
"""Of silence after which a connection counts as broken."""
STREAM_WINDOW = 8
"""Responses of a stream on their way before its server waits."""

TURNS = 3
"""Of its server's loop from the socket to whom a call is for."""


class RpcNetwork:
    """Controllers that answer, and the faults of their calls.

    Attributes:
        lose_answers: How many answers of a method are still to be lost after its execution.
        late_answers_s: How long the next answer of a method is on its way.
        break_streams: How many streams are still to break at their next response.
        on_call: Told of each call that a controller begins to carry out.
        seen: How often something interesting was reached.
    """

    def __init__(self, loop: SimLoop, network: Network, seen: Counter[str]) -> None:
        self.loop = loop
        self.network = network
        self.servers: dict[int, SimRpcServer] = {}
        self.lose_answers: Counter[str] = Counter()
        self.late_answers_s: dict[str, float] = {}
        self.break_streams = 0
        self.seen = seen
        self.on_call: Callable[[str], object] = lambda _method: None
        self.calls: dict[_Call, None] = {}
        network.blackouts.append(self._held)
        network.partings.append(self._parted)

    def heal(self) -> None:
        self.lose_answers.clear()
        self.late_answers_s.clear()
        self.break_streams = 0

    def is_asking(self, client: Process, method: str) -> bool:
        """Return whether a call of a process is on its way, or its answer."""
        return any(call.client is client and call.method == method for call in self.calls)

    def process_ended(self, process: Process) -> None:
        """Break the calls of a process, and those that it answers."""
        self.servers = {p: s for p, s in self.servers.items() if s.process is not process}
        for call in list(self.calls):
            if call.client is process:
                call.close()
            elif call.server is not None and call.server.process is process:
                call.broken("connection reset")

    def _held(self, source: str, target: str) -> None:
        def look() -> None:
            if not self.network.link(source, target).is_held:
                return
            for call in list(self.calls):
                ends = {node_of(call.client), call.server_node}
                if ends == {source, target}:
                    call.broken("keepalive watchdog timeout")

        self.loop.call_later(KEEP_ALIVE_S, look, context=Context())

    def _parted(self, pair: frozenset[str]) -> None:
        """End streams of a client whose certificate is no good any more; calls are carried out."""
        for call in list(self.calls):
            streams = SERVICE.methods_by_name[call.method].server_streaming
            if streams and {node_of(call.client), call.server_node} == pair:
                call.broken("UNAUTHENTICATED: its certificate has expired")


class SimRpcServer:
    """`jbodlab.controller_api.transport.RpcServer` of one process."""

    def __init__(self, rpc: RpcNetwork, listener: Endpoint) -> None:
        self._rpc = rpc
        self._port = listener.port
        self.addresses = [f"{listener.host}:{listener.port}"]
        self.process = PROCESS.get()
        self.service: RpcService
        self.context = Context()
        self.tasks: dict[asyncio.Task[None], None] = {}

    def bind(self, service: RpcService) -> None:
        self.service = service

    async def start(self) -> None:
        self.context = copy_context()
        self._rpc.servers[self._port] = self

    async def stop(self, grace_s: float | None) -> None:
        if self._rpc.servers.get(self._port) is self:
            del self._rpc.servers[self._port]
        if self.tasks and grace_s:
            await asyncio.wait(list(self.tasks), timeout=grace_s)
        for task in list(self.tasks):
            task.cancel()


class _Call:
    """One call, as both sides see it.

    Attributes:
        arrived: Values that the client has to take in: an answer, None for the end of a stream, or,
            as an error, why the connection is gone.
    """

    def __init__(self, transport: SimRpcTransport, method: str, message: Any) -> None:
        self.rpc = rpc = transport.rpc
        self.transport = transport
        self.method = method
        self.client = PROCESS.get()
        self.server: SimRpcServer | None = None
        self.server_node = node_at(transport.port)
        self.arrived: asyncio.Queue[Any] = asyncio.Queue()
        self._context = copy_context()
        self._there = rpc.network.lane(node_of(self.client), self.server_node)
        self._back = rpc.network.lane(self.server_node, node_of(self.client))
        self._room = asyncio.Semaphore(STREAM_WINDOW)
        self._task: asyncio.Task[None] | None = None
        self._is_over = False
        rpc.calls[self] = None
        self._there.send(self._arrive, self._copied(message), context=Context())

    def close(self) -> None:
        """The client is gone, or waits no longer."""
        self.rpc.calls.pop(self, None)
        self._is_over = True
        if self.server is not None and self._task is not None and not self._task.done():
            self._there.send(self._task.cancel, context=self.server.context)

    def broken(
        self, why: str, *, refusal: RpcRefusedError | None = None, has_left: bool = True
    ) -> None:
        """The connection is gone; whatever was executed stays so."""
        if not self._is_over:
            self.rpc.calls.pop(self, None)
            self._tell(_broken(f"{self.method}: {why}", refusal, has_left))

    async def answer(self) -> Any:
        """Return the next answer, None at the end of a stream."""
        found = await self.arrived.get()
        if isinstance(found, ControllerUnavailableError):
            raise found
        self._room.release()
        return found

    def _arrive(self, message: Any) -> None:
        server = self.rpc.servers.get(self.transport.port)
        if self._is_over or self.server_node in self.rpc.network.dark:
            return
        ends = frozenset({node_of(self.client), self.server_node})
        if server is None or ends in self.rpc.network.strangers:
            self.broken("no connection to the controller", has_left=False)
            return
        self.server = server
        server.context.run(self._serve, server, message)

    def _serve(self, server: SimRpcServer, message: Any) -> None:
        self._task = task = self.rpc.loop.create_task(self._answer(server, message))
        server.tasks[task] = None
        task.add_done_callback(lambda done: server.tasks.pop(done, None))
        self.rpc.loop.kept.append(task)

    async def _answer(self, server: SimRpcServer, message: Any) -> None:
        streams = SERVICE.methods_by_name[self.method].server_streaming
        for _ in range(TURNS):
            await asyncio.sleep(0)
        self.rpc.on_call(self.method)
        try:
            if streams:
                async for response in server.service.stream(self.method, message):
                    await self._room.acquire()
                    if self.rpc.break_streams > 0:
                        self.rpc.break_streams -= 1
                        self.broken("stream broke")
                        return
                    self._tell(self._copied(response))
                self._tell(None)
            else:
                response = await server.service.unary(self.method, message)
                if self.method in self.rpc.late_answers_s:
                    await asyncio.sleep(self.rpc.late_answers_s.pop(self.method))
                if self.rpc.lose_answers[self.method] > 0:
                    self.rpc.lose_answers[self.method] -= 1
                    self.rpc.seen["an answer was lost after its call was carried out"] += 1
                    self.broken("connection reset")
                else:
                    self._tell(self._copied(response))
        except RpcRefusedError as error:
            self.broken(f"{error.refusal.name}: {error}", refusal=error)
        except asyncio.CancelledError:
            self.broken("CANCELLED")
            raise

    def _copied(self, message: Any) -> Any:
        data = message.SerializeToString(deterministic=True)
        self.rpc.loop.note(data)
        return type(message).FromString(data)

    def _tell(self, what: Any) -> None:
        self._back.send(self.arrived.put_nowait, what, context=self._context)


def _broken(
    text: str, refusal: RpcRefusedError | None, has_left: bool
) -> ControllerUnavailableError:
    if refusal is not None and refusal.refusal is Refusal.NOT_CONTROLLER:
        return NotControllerError(
            text, is_outcome_unknown=refusal.is_outcome_unknown, hint=refusal.hint
        )
    return ControllerUnavailableError(text, is_outcome_unknown=has_left)


class SimRpcTransport:
    """`jbodlab.controller_api.transport.RpcTransport` of one process."""

    def __init__(self, rpc: RpcNetwork, address: str) -> None:
        self.rpc = rpc
        self.port = int(address.rsplit(":", 1)[1])

    async def unary(self, method: str, message: Any, timeout_s: float) -> Any:
        with contextlib.closing(_Call(self, method, message)) as call:
            try:
                async with asyncio.timeout(timeout_s):
                    return await call.answer()
            except TimeoutError as error:
                raise ControllerUnavailableError(f"{method}: DEADLINE_EXCEEDED") from error

    async def stream(self, method: str, message: Any) -> AsyncGenerator[Any, None]:
        with contextlib.closing(_Call(self, method, message)) as call:
            while (answer := await call.answer()) is not None:
                yield answer

    async def close(self) -> None:
        for call in list(self.rpc.calls):
            if call.transport is self:
                call.broken("the channel was closed")
