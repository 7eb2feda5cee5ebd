"""The environment that a server has on a machine, as `system_environment` makes it."""

from __future__ import annotations

import _thread
import contextlib
import os
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from random import Random
from typing import TYPE_CHECKING, Any

from jbodlab.runtime.environment import Environment
from jbodlab.storage.directory.posix_filesystem import PosixFileSystem

if TYPE_CHECKING:
    from jbodlab.controller_api.rpc_tls import RpcKeys, RpcServerTls
    from jbodlab.controller_api.transport import RpcServer, RpcTransport
    from jbodlab.storage.compaction.compaction_plan import Compactor
    from jbodlab.vocabulary.endpoint import Endpoint

NICENESS = 19
"""Niceness of a thread with lowered priority."""


class MachineThreads:
    """Threads of the operating system."""

    def start(self, work: Callable[[], None], name: str) -> None:
        """Run a function on a thread; the name is for other implementations of `Threads`.

        The call returns at once: `threading.Thread` would wait until the thread runs, which costs
        the event loop a tenth of a millisecond at best.
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


def system_environment() -> Environment:
    """Return the clocks, threads, disks and network of this machine."""
    return Environment(
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


def _grpc_transport(address: str, keys: Callable[[], RpcKeys] | None) -> RpcTransport:
    # Imported only at its use: gRPC takes a while to import, and starts its own threads.
    from jbodlab.controller_api.grpc_transport import GrpcTransport

    return GrpcTransport(address, keys)


def _cleaner_process() -> Compactor:
    # Few brokers have a log to compact.
    from jbodlab.runtime.cleaner_process import CleanerProcess

    return CleanerProcess()


def _grpc_server(listener: Endpoint, tls: RpcServerTls | None) -> RpcServer:
    from jbodlab.controller_api.grpc_server import GrpcServer

    return GrpcServer(listener, tls)
