"""The same cluster for tests that run on an event loop, whichever library drives it.

All that waits for servers is done on one thread, which lives as long as the clusters: servers are
killed by the kernel when the thread that started them ends. Files are read by aiofiles.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import aiofiles

from lab.testing.clusters import Broker, Cluster, Fault, LogDir

P = ParamSpec("P")
T = TypeVar("T")


@cache
def _thread() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, thread_name_prefix="jbodlab-testing")


async def _away(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(_thread(), partial(work, *args, **kwargs))


def _awaited(
    method: Callable[Concatenate[Any, P], T],
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """Return a method that awaits the one of `inner`."""

    async def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await _away(method, self.inner, *args, **kwargs)

    call.__name__, call.__doc__ = method.__name__, method.__doc__
    return call


async def _last_lines(file: Path, count: int) -> list[str]:
    """Return the last lines of a file; none where it does not exist yet."""
    try:
        async with aiofiles.open(file, encoding="utf-8", errors="replace") as opened:
            return (await opened.read()).splitlines()[-count:]
    except FileNotFoundError:
        return []


class AsyncFault:
    """A fault; heals at the end of an `async with` block."""

    heal = _awaited(Fault.heal)
    wait_detected = _awaited(Fault.wait_detected)
    wait_broken = _awaited(Fault.wait_broken)

    def __init__(self, inner: Fault) -> None:
        self.inner = inner

    async def __aenter__(self) -> AsyncFault:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.heal()


class AsyncLogDir:
    """One log directory of a broker."""

    def __init__(self, inner: LogDir) -> None:
        self.inner = inner
        self.path = inner.path

    async def state(self) -> str:
        """As `LogDir.state`."""
        return await _away(lambda: self.inner.state)

    async def fails(self, kind: str = "permission", **parameters: Any) -> AsyncFault:
        """As `LogDir.fails`."""
        return AsyncFault(await _away(self.inner.fails, kind, **parameters))


class AsyncBroker:
    """One broker."""

    kill = _awaited(Broker.kill)
    start = _awaited(Broker.start)

    def __init__(self, inner: Broker) -> None:
        self.inner = inner
        self.id = inner.id
        self.address = inner.address

    def log_dir(self, number: int = 1) -> AsyncLogDir:
        """As `Broker.log_dir`."""
        return AsyncLogDir(self.inner.log_dir(number))

    async def log_dir_of(self, topic: str, partition: int = 0) -> AsyncLogDir:
        """As `Broker.log_dir_of`."""
        return AsyncLogDir(await _away(self.inner.log_dir_of, topic, partition))

    async def log_lines(self, count: int = 20) -> list[str]:
        """As `Broker.log_lines`."""
        return await _last_lines(self.inner.output, count)

    async def fails(self, kind: str = "kill", **parameters: Any) -> AsyncFault:
        """As `Broker.fails`."""
        return AsyncFault(await _away(self.inner.fails, kind, **parameters))


class AsyncCluster:
    """A cluster whose waiting is awaited; `inner` is the one below, for what is not here."""

    wait_leaders = _awaited(Cluster.wait_leaders)
    wait_isr = _awaited(Cluster.wait_isr)
    heal = _awaited(Cluster.heal)
    close = _awaited(Cluster.close)

    def __init__(self, inner: Cluster) -> None:
        self.inner = inner
        self.bootstrap = inner.bootstrap

    @classmethod
    async def started(cls, **need: Any) -> AsyncCluster:
        """Start one, as `Cluster` does."""
        return cls(await _away(Cluster, **need))

    def broker(self, number: int) -> AsyncBroker:
        """As `Cluster.broker`."""
        return AsyncBroker(self.inner.broker(number))

    async def new_topic(self, partitions: int = 1, replicas: int = 3, **config: str) -> str:
        """As `Cluster.new_topic`."""
        return await _away(self.inner.new_topic, partitions, replicas, **config)

    async def leader(self, topic: str, partition: int = 0) -> AsyncBroker:
        """As `Cluster.leader`."""
        return AsyncBroker(await _away(self.inner.leader, topic, partition))

    async def events(self, count: int = 20) -> list[str]:
        """As `Cluster.events`."""
        lines = await _last_lines(self.inner.journal, count)
        for broker in map(AsyncBroker, self.inner.brokers):
            lines += [f"--- {broker.inner!r}", *await broker.log_lines(count)]
        return lines

    async def __aenter__(self) -> AsyncCluster:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
