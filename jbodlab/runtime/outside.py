"""The environment of a server: clock, randomness, ids, threads, disks and network.

`real` is the machine. A server can get another value, for example with a manual clock or disks in
memory; broker, controller and this library use nothing else. Each part gets only the callables that
it uses.
"""

from __future__ import annotations

import _thread
import contextlib
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from random import Random
from typing import Any
from uuid import UUID

import msgspec

from jbodlab.controller_api.requests import Listener
from jbodlab.controller_api.transport import RpcServer, RpcTransport
from jbodlab.runtime.threads import Threads
from jbodlab.storage.compaction.compaction_plan import Compactor
from jbodlab.storage.directory.filesystem import Disk
from jbodlab.storage.directory.posix_filesystem import PosixFileSystem
from jbodlab.vocabulary import kafka_uuid

NICENESS = 19
"""Of a thread with lowered priority."""


class Outside(msgspec.Struct, frozen=True, kw_only=True):
    """What a server is in.

    Attributes:
        monotonic_s: Seconds on a clock that never goes back; it goes on while a callback runs,
            which that of the event loop need not do.
        wall_ms: Milliseconds since 1970.
        random: Choices that need not be secret.
        random_bytes: So many bytes that nobody else has, as `os.urandom`.
        threads: Makes threads.
        fs_of: The disk under a directory.
        connect_rpc: Makes the way to the controller at `host:port`, on a running event loop.
        compactor: Makes who compacts the logs of one directory.
        rpc_server: Makes what listens for brokers; raises ConfigError where that cannot be done.

    Connections of Kafka's protocol are made by the event loop.
    """

    monotonic_s: Callable[[], float]
    wall_ms: Callable[[], int]
    random: Random
    random_bytes: Callable[[int], bytes]
    threads: Threads
    fs_of: Callable[[Path], Disk]
    connect_rpc: Callable[[str], RpcTransport]
    rpc_server: Callable[[Listener], RpcServer]
    compactor: Callable[[], Compactor]

    def monotonic_ms(self) -> int:
        """Return whole milliseconds on the monotonic clock."""
        return int(self.monotonic_s() * 1000)

    def new_id(self) -> UUID:
        """Draw an id as Kafka does for topics, directories and processes."""
        return kafka_uuid.random_uuid(self.random_bytes)

    def new_hex(self) -> str:
        """Draw the 32 hexadecimal digits that set apart folders of one replica."""
        return UUID(bytes=self.random_bytes(16), version=4).hex


class MachineThreads:
    """Threads of the operating system."""

    def start(self, work: Callable[[], None], name: str) -> None:
        """Run a function on a thread; the name is for others that make threads.

        The caller goes on at once: `threading.Thread` would have it wait until the thread runs,
        which takes the event loop a tenth of a millisecond on a good day.
        """
        del name
        _thread.start_new_thread(work, ())

    def queue(self) -> SimpleQueue[Any]:
        """Return a queue."""
        return SimpleQueue()

    def flag(self) -> threading.Event:
        """Return a flag that is not raised."""
        return threading.Event()

    def lock(self) -> threading.Lock:
        """Return a lock."""
        return threading.Lock()

    def lower_priority(self) -> None:
        """Lower the priority of this thread; Linux has one for each."""
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)


def real() -> Outside:
    """Return the machine as it is."""
    return Outside(
        monotonic_s=time.monotonic,
        wall_ms=lambda: time.time_ns() // 1_000_000,
        random=Random(),
        random_bytes=os.urandom,
        threads=MachineThreads(),
        fs_of=lambda _path: PosixFileSystem(),
        connect_rpc=_grpc_transport,
        rpc_server=_grpc_server,
        compactor=_cleaner_process,
    )


def _grpc_transport(address: str) -> RpcTransport:
    # Only where it is used: gRPC takes a while to import, and has threads of its own.
    from jbodlab.controller_api.grpc_transport import GrpcTransport

    return GrpcTransport(address)


def _cleaner_process() -> Compactor:
    # Few brokers have anything to compact.
    from jbodlab.storage.compaction.cleaner_process import CleanerProcess

    return CleanerProcess()


def _grpc_server(listener: Listener) -> RpcServer:
    from jbodlab.controller_api.grpc_server import GrpcServer

    return GrpcServer(listener)
