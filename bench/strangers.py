"""`python -m bench.strangers`: what those who never log in cost the others, on every listener.

A good client that is logged in asks all the time, and another one connects and logs in again and
again, from another address. Each attack is told with the longest that either has waited, by the
clock and (of requests) by the processor time that the server's event loop took meanwhile, and with
the server's memory before, at most and afterwards. Nothing that a stranger sends may be served.

The good client of a controller asks for a new topic by way of its broker, that of the live page for
its health.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import multiprocessing
import random
import socket
import ssl
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

from lab.machine import programs
from lab.machine.folders import make_folder, remove_folder
from tests.cluster.secured import USERS, Secured, set_credentials

GOOD, BAD = "127.0.0.2", "127.0.0.1"
"""Addresses from which good clients and attackers connect."""
HALF_HANDSHAKES = 10_000
TOKEN_BYTES = 600_000
STORM = 50
SETTLE_S = 12.0
"""After an attack: deadlines of logins are over."""

Address = tuple[str, int]


class Waits(NamedTuple):
    """The longest waits in ms, and how often something was asked.

    Attributes:
        asked_ms: Of a request on an open connection.
        busy_ms: Of the broker's event loop in the course of one.
        connected_ms: Of connecting, logging in and asking.
    """

    asked: int
    asked_ms: float
    busy_ms: float
    connected: int
    connected_ms: float


class Wire:
    """A connection that speaks the protocol by hand, so that it costs nothing."""

    def __init__(self, address: Address, context: ssl.SSLContext, source: str = GOOD) -> None:
        plain = socket.create_connection(address, timeout=60, source_address=(source, 0))
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = context.wrap_socket(plain, server_hostname="localhost")

    def ask(self, key: int, version: int, body: bytes) -> bytes:
        """Send a request; returns the answer behind its header."""
        head = struct.pack(">hhi", key, version, 7) + b"\0\1g"
        self.socket.sendall(struct.pack(">i", len(head) + len(body)) + head + body)
        return self._read(struct.unpack(">i", self._read(4))[0])[4:]

    def log_in(self, user: str, password: str) -> int:
        """Log in by PLAIN; returns the code of the answer."""
        self.ask(17, 1, b"\0\5PLAIN")
        token = f"\0{user}\0{password}".encode()
        answer = self.ask(36, 1, struct.pack(">i", len(token)) + token)
        return int.from_bytes(answer[:2], "big")

    def versions(self) -> None:
        """Ask for what is served."""
        assert self.ask(18, 0, b"")[:2] == b"\0\0"

    def create(self) -> None:
        """Ask the controller whether a topic may be created."""
        topic = b"\0\1n" + struct.pack(">ihii", 1, 1, 0, 0)
        answer = self.ask(19, 2, struct.pack(">i", 1) + topic + struct.pack(">ib", 30_000, 1))
        assert answer[11:13] == b"\0\0", answer

    def _read(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            piece = self.socket.recv(count - len(data))
            if not piece:
                raise ConnectionResetError("closed")
            data += piece
        return data


def trusting(ca_file: str) -> ssl.SSLContext:
    """Return a context that trusts the authority."""
    return ssl.create_default_context(cafile=ca_file)


def worked_s(pid: int) -> float:
    """Return the processor time of a process's first thread, its event loop."""
    return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[0]) / 1e9


def resident_mb(pid: int) -> float:
    """Return the memory of a process in MB of 10^6 bytes."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 / 1e6 for line in lines if line.startswith("VmRSS"))


class Page:
    """A connection to the live page."""

    def __init__(self, port: int) -> None:
        self._http = http.client.HTTPConnection("127.0.0.1", port, 60, source_address=(GOOD, 0))

    def health(self) -> None:
        """Ask for the health of the cluster."""
        self._http.request("GET", "/v1/health")
        assert json.load(self._http.getresponse())["status"] == "ok"

    def close(self) -> None:
        """Close it."""
        self._http.close()


Opened = tuple[Callable[[], None], Callable[[], None]]
"""A question on an open connection, and what closes that."""


def at_broker(port: int, ca_file: str, question: str = "versions") -> Opened:
    """Log in to a broker."""
    wire = Wire(("127.0.0.1", port), trusting(ca_file))
    assert wire.log_in(*USERS["PLAIN"]) == 0
    return getattr(wire, question), wire.socket.close


def at_page(port: int) -> Opened:
    """Connect to the live page."""
    page = Page(port)
    return page.health, page.close


def be_good(pipe: Connection, connect: Callable[[], Opened], pid: int) -> None:
    """Ask, and connect, until the pipe has word; then tell the waits."""
    ask, _ = connect()
    ask()
    pipe.send(None)
    waits = Waits(0, 0.0, 0.0, 0, 0.0)
    while not pipe.poll():
        for _ in range(5):
            begun_s, before_s = time.monotonic(), worked_s(pid)
            ask()
            took_ms = (time.monotonic() - begun_s) * 1e3
            busy_ms = (worked_s(pid) - before_s) * 1e3
            waits = waits._replace(
                asked=waits.asked + 1,
                asked_ms=max(waits.asked_ms, took_ms),
                busy_ms=max(waits.busy_ms, busy_ms),
            )
            time.sleep(0.002)
        begun_s = time.monotonic()
        ask_another, close = connect()
        ask_another()
        took_ms = (time.monotonic() - begun_s) * 1e3
        close()
        waits = waits._replace(
            connected=waits.connected + 1, connected_ms=max(waits.connected_ms, took_ms)
        )
    pipe.send(waits)


def client_hello(context: ssl.SSLContext) -> bytes:
    """Return the first bytes of a handshake."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    layer = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        layer.do_handshake()
    return outgoing.read()


def raw(address: Address) -> socket.socket:
    """Connect as an attacker."""
    return socket.create_connection(address, timeout=60, source_address=(BAD, 0))


def half_handshakes(address: Address, ca_file: str, seconds: float) -> None:
    """Begin handshakes, and never end them; half of the first message each."""
    hello = client_hello(trusting(ca_file))
    _hold(address, hello[: len(hello) // 2])


def whole_hellos(address: Address, ca_file: str, seconds: float) -> None:
    """Begin handshakes with a whole message, so that the broker answers, and never go on."""
    _hold(address, client_hello(trusting(ca_file)))


def _hold(address: Address, first: bytes) -> None:
    held: list[socket.socket] = []
    for _ in range(HALF_HANDSHAKES):
        one = raw(address)
        with contextlib.suppress(OSError):
            one.sendall(first)
        held.append(one)
        if len(held) > 900:
            held.pop(0).close()


def login_storm(address: Address, ca_file: str, seconds: float) -> None:
    """Log in by wrong passwords, many at once."""
    from concurrent.futures import ThreadPoolExecutor

    context, end_s = trusting(ca_file), time.monotonic() + seconds

    def storm(number: int) -> None:
        while time.monotonic() < end_s:
            with contextlib.suppress(OSError, struct.error):
                wire = Wire(address, context, BAD)
                code = wire.log_in(f"user{number}", "wrong")
                assert code == 58
                wire.socket.close()

    with ThreadPoolExecutor(STORM) as pool:
        list(pool.map(storm, range(STORM)))


def huge_tokens(address: Address, ca_file: str, seconds: float) -> None:
    """Send tokens that are larger than any may be, and such that only say so."""
    context, end_s, number = trusting(ca_file), time.monotonic() + seconds, 0
    while time.monotonic() < end_s:
        number += 1
        size = (TOKEN_BYTES, 500_000, 2**31 - 1)[number % 3]
        with contextlib.suppress(OSError):
            wire = Wire(address, context, BAD)
            wire.ask(17, 1, b"\0\5PLAIN")
            wire.socket.sendall(struct.pack(">i", size) + bytes(min(size, 499_000)))
            if number % 3 != 1:
                assert not wire.socket.recv(1)
            wire.socket.close()


FRAMES = (
    struct.pack(">hhi", 17, 1, 1) + b"\0\1g\0\5PLAIN",
    struct.pack(">hhi", 17, 1, 1) + b"\0\1g\0\x0dSCRAM-SHA-256",
    struct.pack(">hhi", 36, 1, 2) + b"\0\1g\0\0\0\x15n,,n=alice,r=abcdefgh",
    struct.pack(">hhi", 18, 3, 3) + b"\0\1g\0\2a\2b\0",
    struct.pack(">hhi", 3, 9, 4) + b"\0\1g\0\1\0\0\0",
    struct.pack(">hhi", 0, 9, 5) + b"\0\1g\0" + bytes(40),
)
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HTTP2 = tuple(
    PREFACE + b"\0\0\0\4\0\0\0\0\0" + frame
    for frame in (
        b"\0\0\6\4\0\0\0\0\0\0\5\0\0\x40\0",
        b"\0\0\4\x08\0\0\0\0\0\x7f\xff\xff\xff",
        b"\0\0\5\1\5\0\0\0\1\x83\x86\x84\x41\x8a",
        b"\0\0\x08\6\0\0\0\0\0" + bytes(8),
        b"\0\0\4\3\0\0\0\0\1\0\0\0\1" * 50,
        b"\0\0\5\0\1\0\0\0\1" + bytes(5),
    )
)
HTTP1 = tuple(
    f"{line}\r\nHost: 127.0.0.1\r\n{more}\r\n".encode()
    for line, more in (
        ("GET /metrics HTTP/1.1", ""),
        ("GET /v1/health HTTP/1.1", "Accept: */*\r\n"),
        ("GET /v1/events HTTP/1.1", "Last-Event-ID: a-1\r\n"),
        ("GET /v1/topics/a%00b HTTP/1.0", "Connection: keep-alive\r\n"),
        ("POST /v1/faults HTTP/1.1", 'Transfer-Encoding: chunked\r\n\r\n5\r\n{"a":\r\n0\r\n'),
        ("POST /v1/heal HTTP/1.1", "Content-Length: 99999999\r\nContent-Type: text/html\r\n"),
    )
)


def fuzz(
    address: Address, ca_file: str, seconds: float, good: Sequence[bytes], *, frames: bool
) -> None:
    """Send any bytes, and changed ones of good clients, before and inside of TLS.

    Args:
        address: Of the listener.
        ca_file: Authority of its certificate; empty where it speaks in plain text.
        seconds: How long.
        good: Messages of good clients.
        frames: Whether a length stands before each.
    """
    end_s, seed = time.monotonic() + seconds, time.time_ns()
    context = trusting(ca_file) if ca_file else None
    hello = client_hello(context) if context is not None else b"".join(good)
    chance = random.Random(seed)
    print(f"fuzz with seed {seed}", file=sys.stderr)

    def changed(data: bytes) -> bytes:
        found = bytearray(data)
        for _ in range(chance.randrange(4)):
            found[chance.randrange(len(found))] = chance.randrange(256)
        return bytes(found[: chance.choice([len(found), chance.randrange(len(found) + 1)])])

    while time.monotonic() < end_s:
        with contextlib.suppress(OSError):
            one = raw(address)
            one.settimeout(0.2)
            if chance.random() < 0.3:
                one.sendall(changed(hello) if chance.random() < 0.7 else chance.randbytes(300))
                with contextlib.suppress(TimeoutError):
                    one.recv(4096)
                one.close()
                continue
            if context is not None:
                one = context.wrap_socket(one, server_hostname="localhost")
            answers = b""
            for _ in range(chance.randrange(1, 6)):
                data = changed(chance.choice(good))
                size = len(data) if chance.random() < 0.9 else chance.randrange(-9, 1 << 31)
                one.sendall((struct.pack(">i", size) if frames else b"") + data)
                with contextlib.suppress(TimeoutError):
                    answers += one.recv(65_536)
            one.close()
            if frames:
                # The address of a broker is in every answer with metadata.
                assert b"127.0.0.1" not in answers, "something was served to a stranger"


class Attack(NamedTuple):
    """An attack, and the listener that it is made on.

    Attributes:
        run: Attacks an address by an authority's file, for so many seconds.
        listener: Of `listeners`.
    """

    run: Callable[[Address, str, float], None]
    listener: str = "clients"


_of_clients = partial(fuzz, good=FRAMES, frames=True)
_of_http = partial(fuzz, good=HTTP1, frames=False)
ATTACKS: dict[str, Attack] = {
    f"{HALF_HANDSHAKES} half handshakes": Attack(half_handshakes),
    f"{HALF_HANDSHAKES} whole first messages": Attack(whole_hellos),
    f"{STORM} logins at once": Attack(login_storm),
    f"tokens of {TOKEN_BYTES} bytes": Attack(huge_tokens),
    "fuzz: clients": Attack(_of_clients),
    "fuzz: logins": Attack(_of_clients, "logins"),
    "fuzz: controller": Attack(partial(fuzz, good=HTTP2, frames=False), "controller"),
    "fuzz: metrics": Attack(_of_http, "metrics"),
    "fuzz: page": Attack(_of_http, "page"),
}


class Listener(NamedTuple):
    """A listener.

    Attributes:
        port: Of this machine.
        ca_file: Authority of its certificate; empty where it speaks in plain text.
        pid: The process.
        connect: Connects as a good client of that process.
    """

    port: int
    ca_file: str
    pid: int
    connect: Callable[[], Opened]


@contextmanager
def listeners(root: Path) -> Iterator[dict[str, Listener]]:
    """Start a closed cluster with a live page before it; its listeners by their names."""
    secured = Secured(root / "cluster")
    page: subprocess.Popen[bytes] | None = None
    try:
        secured.cluster.start()
        set_credentials(secured.cluster)
        broker, controller = secured.cluster.brokers[0], secured.cluster.controller
        ca_file, clients = str(secured.ca_file), secured.ports["CLIENT"][0]
        words = ("ui", "--bootstrap-server", broker.address, "--output", "json")
        page = subprocess.Popen(programs.tool(*words), stdout=subprocess.PIPE)
        assert page.stdout is not None
        page_port = int(json.loads(page.stdout.readline())["url"].split(":")[2].split("/")[0])
        good = partial(at_broker, clients, ca_file)
        by_controller = partial(at_broker, clients, ca_file, "create")
        yield {
            "clients": Listener(clients, ca_file, broker.pid, good),
            "logins": Listener(secured.ports["LOGIN"][0], "", broker.pid, good),
            "controller": Listener(controller.port, ca_file, controller.pid, by_controller),
            "metrics": Listener(secured.metrics_port, "", broker.pid, good),
            "page": Listener(page_port, "", page.pid, partial(at_page, page_port)),
        }
    finally:
        if page is not None:
            page.terminate()
            page.wait()
        secured.cluster.close()


def main() -> int:
    """Attack in every way whose name has a word in it."""
    parser = argparse.ArgumentParser(prog="python -m bench.strangers", description=__doc__)
    parser.add_argument("--only", default="", help="attacks with this in their name")
    parser.add_argument("--seconds", type=float, default=10.0, help="length of those without end")
    options = parser.parse_args()
    root = make_folder()
    try:
        with listeners(root) as found:
            for name, attack in ATTACKS.items():
                if options.only in name:
                    _attacked(found[attack.listener], name, attack, options.seconds)
    finally:
        remove_folder(root)
    return 0


def _attacked(listener: Listener, name: str, attack: Attack, seconds: float) -> None:
    context, pid = multiprocessing.get_context("spawn"), listener.pid
    pipe, there = context.Pipe()
    good = context.Process(target=be_good, args=(there, listener.connect, pid), daemon=True)
    good.start()
    pipe.recv()
    time.sleep(1.0)
    before_mb = most_mb = resident_mb(pid)
    words = (("127.0.0.1", listener.port), listener.ca_file, seconds)
    bad = context.Process(target=attack.run, args=words, daemon=True)
    begun_s = time.monotonic()
    bad.start()
    while bad.is_alive():
        most_mb = max(most_mb, resident_mb(pid))
        time.sleep(0.05)
    took_s = time.monotonic() - begun_s
    assert bad.exitcode == 0, f"{name} has failed"
    pipe.send(None)
    waits = pipe.recv()
    good.join()
    time.sleep(SETTLE_S)
    print(
        f"{name}: {took_s:.1f} s; a request waits {waits.asked_ms:.0f} ms at most, of that the "
        f"loop works {waits.busy_ms:.0f} ms ({waits.asked} asked); a connection takes "
        f"{waits.connected_ms:.0f} ms at most ({waits.connected} made); memory "
        f"{before_mb:.0f} / {most_mb:.0f} / {resident_mb(pid):.0f} MB",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
