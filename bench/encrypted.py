"""Clusters all of whose connections are encrypted: throughput, requests, handshakes, memory.

Clients, brokers among themselves and the controller use TLS 1.3, with keys of the curve P-256.
"""

from __future__ import annotations

import re
import socket
import ssl
import subprocess
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from bench.measure import (
    MAKE,
    Requests,
    Throughput,
    cpu_seconds,
    fresh,
    requests,
    resident_mb,
    throughput,
)
from tests.cluster.harness import Cluster
from tests.cluster.secured import Secured

SIZE_BYTES = 1_000
IDLE = 1_000
HANDSHAKES_S = 10
CONNECT_S = 10.0


class Encrypted:
    """Makes such clusters of one kind, one after the other.

    Args:
        make: Makes the kind without encryption.
    """

    def __init__(self, make: MAKE) -> None:
        self._make = make
        self._last: Secured | None = None

    def __call__(self, root: Path) -> Cluster:
        """Make a cluster."""
        self._last = Secured(root, self._make)
        return self._last.cluster

    @property
    def last(self) -> Secured:
        """The last one."""
        assert self._last is not None
        return self._last

    def door(self, _: Cluster) -> list[str]:
        """Return kcat's options for the last one."""
        authority = f"ssl.ca.location={self.last.ca_file}"
        return ["-b", self.last.addresses("TLS"), "-X", "security.protocol=ssl", "-X", authority]


@dataclass(frozen=True, slots=True, kw_only=True)
class Connections:
    """Connections to one broker.

    Attributes:
        handshakes_per_s: Of one client that begins a new connection as soon as it has one.
        handshake_cpu_ms: Of the servers' processors, for one.
        idle_kb: Resident memory of the broker for each of a thousand that do nothing.
    """

    handshakes_per_s: float
    handshake_cpu_ms: float
    idle_kb: float


def encrypted_throughput(make: MAKE, factor: int, total_bytes: int) -> Throughput:
    """Produce and consume; see `measure.throughput`."""
    encrypted = Encrypted(make)
    return throughput(encrypted, SIZE_BYTES, factor, total_bytes, encrypted.door)


def encrypted_requests(make: MAKE, factor: int, count: int) -> Requests:
    """Produce one message a request; see `measure.requests`."""
    encrypted = Encrypted(make)
    return requests(encrypted, factor, count, encrypted.door)


def connections(make: MAKE) -> Connections:
    """Open connections, and keep some."""
    encrypted = Encrypted(make)
    with fresh(encrypted) as cluster, ExitStack() as stack:
        cluster.start()
        address = encrypted.last.addresses("TLS").split(",")[0]
        command = ["openssl", "s_time", "-connect", address, "-new", "-time", str(HANDSHAKES_S)]
        # The first ones warm a JVM up.
        subprocess.run(command, check=True, capture_output=True, timeout=60)
        cpu = cpu_seconds(cluster)
        done = subprocess.run(command, check=True, capture_output=True, timeout=60, text=True)
        spent = cpu_seconds(cluster) - cpu
        counted = re.search(r"(\d+) connections in \d+ real seconds", done.stdout)
        assert counted is not None, done.stdout
        count = int(counted[1])
        broker = cluster.brokers[0].id
        before = resident_mb(cluster)[broker]
        context = ssl.create_default_context(cafile=str(encrypted.last.ca_file))
        host, _, port = address.rpartition(":")
        for _ in range(IDLE):
            plain = socket.create_connection((host, int(port)), CONNECT_S)
            stack.enter_context(context.wrap_socket(plain, server_hostname=host))
        return Connections(
            handshakes_per_s=count / HANDSHAKES_S,
            handshake_cpu_ms=spent / count * 1e3,
            idle_kb=(resident_mb(cluster)[broker] - before) / IDLE * 1e3,
        )
