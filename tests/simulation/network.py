"""Connections of Kafka's protocol between processes of a history, and the links that they take.

A link leads from one node to another, one way. Data that is sent on it arrives in order, after a
time that is drawn. A link can be slow, or hold everything back until it is released; bytes are
never lost on it, as TCP repeats them. A connection ends by its peer, or with its process.
"""

from __future__ import annotations

import asyncio
import errno
import ssl
from collections import defaultdict, deque
from collections.abc import Callable
from contextvars import Context, copy_context
from random import Random
from typing import Any

from tests.simulation.loop import PROCESS, Process, SimLoop

LATENCY_S = (0.0001, 0.003)
PORT_BASE, NODES_MAX = 9000, 1000
"""Node N listens on the first plus N, and where it has another port, so many above; see `node_at`.
"""
SPLIT_SHARE = 0.05
"""Of the pieces that arrive as two."""
HIGH_WATER_BYTES, LOW_WATER_BYTES = 64 << 10, 16 << 10


class Link:
    """One way from a node to another."""

    def __init__(self, loop: SimLoop, seed: str) -> None:
        self._loop = loop
        self._held: deque[tuple[Context, Callable[..., object], Any]] = deque()
        self.random = Random(seed)
        self.is_held = False
        self.slowness_s = 0.0

    def latency_s(self) -> float:
        low, high = LATENCY_S
        return low + self.random.random() ** 4 * (high - low) + self.slowness_s

    def deliver(self, context: Context, callback: Callable[..., object], args: Any) -> None:
        """Call back at the other end, unless the link is held."""
        if self.is_held or self._held:
            self._held.append((context, callback, args))
        else:
            self._loop.call_soon(callback, *args, context=context)

    def release(self) -> None:
        self.is_held = False
        held, self._held = self._held, deque()
        for each in held:
            self.deliver(*each)


class Lane:
    """One stream of messages on a link; they arrive in order."""

    def __init__(self, loop: SimLoop, link: Link) -> None:
        self._loop = loop
        self.link = link
        self._next = 0.0

    def send(self, callback: Callable[..., object], *args: Any, context: Context) -> None:
        at = max(self._next, self._loop.time() + self.link.latency_s())
        self._next = at + 1e-9
        # In no process: what is on its way arrives also from one that has ended.
        self._loop.happen_at(at, self.link.deliver, context, callback, args)


class Network:
    """Listeners, and how bytes get there."""

    def __init__(self, loop: SimLoop, seed: str) -> None:
        self._loop: Any = loop
        loop.create_server, loop.create_connection = self.create_server, self.create_connection
        self._seed = seed
        self._links: dict[tuple[str, str], Link] = {}
        self.listening: dict[int, Server] = {}
        self.open: dict[Process, dict[SimTransport, None]] = defaultdict(dict)
        self.dark: set[str] = set()
        """Nodes without power: they refuse nothing, they say nothing."""
        self.blackouts: list[Callable[[str, str], None]] = []
        """Told of each link that is held from now on."""
        self.strangers: set[frozenset[str]] = set()
        """Pairs of nodes of which one does not accept the certificate of the other."""
        self.partings: list[Callable[[frozenset[str]], None]] = []
        """Told of each such pair from now on."""

    def link(self, source: str, target: str) -> Link:
        key = (source, target)
        if key not in self._links:
            self._links[key] = Link(self._loop, f"{self._seed}:link:{source}:{target}")
        return self._links[key]

    def lane(self, source: str, target: str) -> Lane:
        return Lane(self._loop, self.link(source, target))

    def hold(self, source: str, target: str) -> None:
        self.link(source, target).is_held = True
        for tell in self.blackouts:
            tell(source, target)

    def release_all(self) -> None:
        self.strangers.clear()
        for link in self._links.values():
            link.slowness_s = 0.0
            link.release()

    def disown(self, one: str, other: str) -> None:
        """End the connections of two nodes, and let them make no other: a certificate is no good.

        Each side ends a connection when the certificate of the other one expires, and when it has
        keys of its own that are new.
        """
        pair = frozenset({one, other})
        self.strangers.add(pair)
        for process, connections in list(self.open.items()):
            for each in list(connections):
                if frozenset({node_of(process), node_of(each.peer.process)}) == pair:
                    each.abort()
        for tell in self.partings:
            tell(pair)

    def own_again(self, one: str, other: str) -> None:
        """Let two nodes accept each other's certificates."""
        self.strangers.discard(frozenset({one, other}))

    def is_cut_off(self, node: str) -> bool:
        """Return whether something is held on the way to a node, or from it."""
        return any(link.is_held for ends, link in self._links.items() if node in ends)

    def process_ended(self, process: Process) -> None:
        """Reset every connection of a process, as its system does."""
        listening = self.listening.items()
        self.listening = {port: server for port, server in listening if server.process != process}
        for each in list(self.open.pop(process, {})):
            each.abort()

    async def create_server(
        self, factory: Callable[[], Any], host: Any, port: int, **_: Any
    ) -> Server:
        """Listen, in place of the event loop's own method."""
        if port in self.listening:
            raise OSError(errno.EADDRINUSE, "address in use")
        self.listening[port] = server = Server(self, port, factory)
        return server

    async def create_connection(
        self, factory: Callable[[], Any], host: Any, port: int, **_: Any
    ) -> tuple[SimTransport, Any]:
        """Connect, in place of the event loop's own method."""
        me = PROCESS.get()
        node = node_at(port)
        made: asyncio.Future[SimTransport] = self._loop.create_future()
        context = copy_context()
        there, back = self.lane(node_of(me), node), self.lane(node, node_of(me))

        def knock() -> None:
            if node in self.dark:
                return
            server = self.listening.get(port)
            if server is None:
                refused = ConnectionRefusedError(errno.ECONNREFUSED, "refused")
                back.send(answer, refused, context=context)
                return
            if frozenset({node_of(me), node}) in self.strangers:
                back.send(answer, _not_accepted(), context=context)
                return
            mine = SimTransport(self, context, there)
            other = SimTransport(self, server.context, back)
            mine.peer, other.peer = other, mine
            self._loop.call_soon(other.begin, server.factory, context=server.context)
            back.send(answer, mine, context=context)

        def answer(mine: SimTransport | OSError) -> None:
            if made.done():
                if isinstance(mine, SimTransport):
                    mine.abort()
            elif isinstance(mine, OSError):
                made.set_exception(mine)
            else:
                made.set_result(mine)

        there.send(knock, context=Context())
        transport = await made
        transport.begin(factory)
        return transport, transport.protocol


def _not_accepted() -> ssl.SSLError:
    """Return what a handshake ends with; its attributes are those that OpenSSL gives it."""
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.reason, error.verify_message = "CERTIFICATE_VERIFY_FAILED", "certificate has expired"
    return error


def node_of(process: Process) -> str:
    """Return where a process runs: its name without the number of its life."""
    return process.name.partition(".")[0]


def node_at(port: int) -> str:
    """Return the name of the node that a port belongs to."""
    return f"node-{(port - PORT_BASE) % NODES_MAX}"


class Server:
    """The server that `create_server` returns."""

    def __init__(self, network: Network, port: int, factory: Callable[[], Any]) -> None:
        self._network = network
        self.port = port
        self.factory = factory
        self.context = copy_context()
        self.process = PROCESS.get()
        self.sockets = ()
        """The system has none."""

    def close(self) -> None:
        if self._network.listening.get(self.port) is self:
            del self._network.listening[self.port]


class SimTransport(asyncio.Transport):
    """One end of a connection."""

    def __init__(self, network: Network, context: Context, lane: Lane) -> None:
        super().__init__({"peername": ("127.0.0.1", 1)})
        self._network = network
        self._context = context
        self._lane = lane
        self.process: Process = context[PROCESS]
        self._received: deque[bytes] = deque()
        self._is_paused = False
        self._in_flight_bytes = 0
        self._is_writing_paused = False
        self._is_closing = False
        self.peer: SimTransport
        self.protocol: Any = None

    def begin(self, factory: Callable[[], Any]) -> None:
        self._network.open[self.process][self] = None
        self.protocol = factory()
        self.protocol.connection_made(self)
        self._feed()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """They stay as they are."""

    def is_closing(self) -> bool:
        return self._is_closing

    def get_write_buffer_size(self) -> int:
        return self._in_flight_bytes

    def pause_reading(self) -> None:
        self._is_paused = True

    def resume_reading(self) -> None:
        self._is_paused = False
        asyncio.get_running_loop().call_soon(self._feed, context=self._context)

    def write(self, data: Any) -> None:
        if self._is_closing or not data:
            return
        data = bytes(data)
        loop: Any = asyncio.get_running_loop()
        loop.note(data)
        self._in_flight_bytes += len(data)
        random = self._lane.link.random
        is_split = len(data) > 1 and random.random() < SPLIT_SHARE
        cut = random.randrange(1, len(data)) if is_split else len(data)
        for piece in filter(None, (data[:cut], data[cut:])):
            self._lane.send(self.peer._receive, piece, context=self.peer._context)
        if self._in_flight_bytes > HIGH_WATER_BYTES and not self._is_writing_paused:
            self._is_writing_paused = True
            loop.call_soon(self._pause_writing, context=self._context)

    def close(self, error: Exception | None = None) -> None:
        """End it; the other side is told of the error, if there is one."""
        if not self._is_closing:
            self._lane.send(self.peer._peer_closed, error, context=self.peer._context)
            self._end(None)

    def abort(self) -> None:
        self.close(ConnectionResetError(errno.ECONNRESET, "reset by peer"))

    def _end(self, error: Exception | None) -> None:
        self._is_closing = True
        self._network.open[self.process].pop(self, None)
        asyncio.get_running_loop().call_soon(self._lose, error, context=self._context)

    def _lose(self, error: Exception | None) -> None:
        if self.protocol is not None:
            self.protocol.connection_lost(error)

    def _peer_closed(self, error: Exception | None) -> None:
        if not self._is_closing:
            self._end(error)

    def _receive(self, data: bytes) -> None:
        self._received.append(data)
        self._feed()

    def _feed(self) -> None:
        while self._received and not self._is_paused and not self._is_closing and self.protocol:
            data = self._received.popleft()
            self.peer._arrived(len(data))
            rest = memoryview(data)
            while rest and not self._is_closing:
                buffer = self.protocol.get_buffer(len(rest))
                count = min(len(buffer), len(rest))
                buffer[:count] = rest[:count]
                self.protocol.buffer_updated(count)
                rest = rest[count:]

    def _arrived(self, count: int) -> None:
        self._in_flight_bytes -= count
        if self._is_writing_paused and self._in_flight_bytes < LOW_WATER_BYTES:
            self._is_writing_paused = False
            asyncio.get_running_loop().call_soon(self._resume_writing, context=self._context)

    def _pause_writing(self) -> None:
        if not self._is_closing:
            self.protocol.pause_writing()

    def _resume_writing(self) -> None:
        if not self._is_closing:
            self.protocol.resume_writing()
