"""`python -m bench.strangers`: what those who never log in cost the others, on a closed listener.

A good client that is logged in asks all the time, and another one connects and logs in again and
again, from another address. Each attack is told with the longest that either has waited, by the
clock and (of requests) by the processor time that the broker's event loop took meanwhile, and with
the broker's memory before, at most and afterwards. Nothing that a stranger sends may be served.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import random
import socket
import ssl
import struct
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

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


def be_good(pipe: Connection, address: Address, pid: int, ca_file: str) -> None:
    """Ask, and connect, until the pipe has word; then tell the waits."""
    context = trusting(ca_file)
    open_one = Wire(address, context)
    assert open_one.log_in(*USERS["PLAIN"]) == 0
    pipe.send(None)
    waits = Waits(0, 0.0, 0.0, 0, 0.0)
    while not pipe.poll():
        for _ in range(5):
            begun_s, before_s = time.monotonic(), worked_s(pid)
            open_one.versions()
            took_ms = (time.monotonic() - begun_s) * 1e3
            busy_ms = (worked_s(pid) - before_s) * 1e3
            waits = waits._replace(
                asked=waits.asked + 1,
                asked_ms=max(waits.asked_ms, took_ms),
                busy_ms=max(waits.busy_ms, busy_ms),
            )
            time.sleep(0.002)
        begun_s = time.monotonic()
        another = Wire(address, context)
        assert another.log_in(*USERS["PLAIN"]) == 0
        another.versions()
        took_ms = (time.monotonic() - begun_s) * 1e3
        another.socket.close()
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


def fuzz(address: Address, ca_file: str, seconds: float) -> None:
    """Send any bytes, and changed ones of good clients, before and inside of TLS."""
    context, end_s = trusting(ca_file), time.monotonic() + seconds
    hello, seed = client_hello(context), time.time_ns()
    chance = random.Random(seed)
    print(f"fuzz with seed {seed}", file=sys.stderr)
    good = [
        struct.pack(">hhi", 17, 1, 1) + b"\0\1g\0\5PLAIN",
        struct.pack(">hhi", 17, 1, 1) + b"\0\1g\0\x0dSCRAM-SHA-256",
        struct.pack(">hhi", 36, 1, 2) + b"\0\1g\0\0\0\x15n,,n=alice,r=abcdefgh",
        struct.pack(">hhi", 18, 3, 3) + b"\0\1g\0\2a\2b\0",
        struct.pack(">hhi", 3, 9, 4) + b"\0\1g\0\1\0\0\0",
        struct.pack(">hhi", 0, 9, 5) + b"\0\1g\0" + bytes(40),
    ]

    def changed(data: bytes) -> bytes:
        found = bytearray(data)
        for _ in range(chance.randrange(4)):
            found[chance.randrange(len(found))] = chance.randrange(256)
        return bytes(found[: chance.choice([len(found), chance.randrange(len(found) + 1)])])

    while time.monotonic() < end_s:
        with contextlib.suppress(OSError):
            if chance.random() < 0.3:
                one = raw(address)
                one.settimeout(0.2)
                one.sendall(changed(hello) if chance.random() < 0.7 else chance.randbytes(300))
                with contextlib.suppress(TimeoutError):
                    one.recv(4096)
                one.close()
                continue
            wire = Wire(address, context, BAD)
            wire.socket.settimeout(0.2)
            answers = b""
            for _ in range(chance.randrange(1, 6)):
                frame = changed(chance.choice(good))
                size = len(frame) if chance.random() < 0.9 else chance.randrange(-9, 1 << 31)
                wire.socket.sendall(struct.pack(">i", size) + frame)
                with contextlib.suppress(TimeoutError):
                    answers += wire.socket.recv(65_536)
            wire.socket.close()
            # The address of a broker is in every answer with metadata.
            assert b"127.0.0.1" not in answers, "something was served to a stranger"


ATTACKS: dict[str, Callable[[Address, str, float], None]] = {
    f"{HALF_HANDSHAKES} half handshakes": half_handshakes,
    f"{HALF_HANDSHAKES} whole first messages": whole_hellos,
    f"{STORM} logins at once": login_storm,
    f"tokens of {TOKEN_BYTES} bytes": huge_tokens,
    "fuzz": fuzz,
}


def main() -> int:
    """Attack in every way whose name has a word in it."""
    parser = argparse.ArgumentParser(prog="python -m bench.strangers", description=__doc__)
    parser.add_argument("--only", default="", help="attacks with this in their name")
    parser.add_argument("--seconds", type=float, default=10.0, help="length of those without end")
    options = parser.parse_args()
    root = make_folder()
    secured = Secured(root / "cluster")
    try:
        secured.cluster.start()
        set_credentials(secured.cluster)
        for name, attack in ATTACKS.items():
            if options.only in name:
                _attacked(secured, name, attack, options.seconds)
    finally:
        secured.cluster.close()
        remove_folder(root)
    return 0


def _attacked(secured: Secured, name: str, attack: Any, seconds: float) -> None:
    context = multiprocessing.get_context("spawn")
    port, pid = secured.ports["CLIENT"][0], secured.cluster.brokers[0].pid
    address, ca_file = ("127.0.0.1", port), str(secured.ca_file)
    pipe, there = context.Pipe()
    good = context.Process(target=be_good, args=(there, address, pid, ca_file), daemon=True)
    good.start()
    pipe.recv()
    time.sleep(1.0)
    before_mb = most_mb = resident_mb(pid)
    bad = context.Process(target=attack, args=(address, ca_file, seconds), daemon=True)
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
        f"loop works {waits.busy_ms:.0f} ms ({waits.asked} asked); a login takes "
        f"{waits.connected_ms:.0f} ms at most ({waits.connected} made); memory "
        f"{before_mb:.0f} / {most_mb:.0f} / {resident_mb(pid):.0f} MB",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
