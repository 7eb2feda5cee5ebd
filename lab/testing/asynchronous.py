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
W = TypeVar("W")


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
    return _wrapped(lambda found: found, method)


def _wrapped(
    wrap: Callable[[T], W], method: Callable[Concatenate[Any, P], T]
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, W]]:
    """Return a method that awaits the one of `inner`, and wraps what that returns."""

    async def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> W:
        return wrap(await _away(method, self.inner, *args, **kwargs))

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

    fails = _wrapped(AsyncFault, LogDir.fails)

    def __init__(self, inner: LogDir) -> None:
        self.inner = inner
        self.path = inner.path

    async def state(self) -> str:
        """As `LogDir.state`."""
        return await _away(lambda: self.inner.state)


class AsyncBroker:
    """One broker."""

    kill = _awaited(Broker.kill)
    start = _awaited(Broker.start)
    log_dir_of = _wrapped(AsyncLogDir, Broker.log_dir_of)
    fails = _wrapped(AsyncFault, Broker.fails)

    def __init__(self, inner: Broker) -> None:
        self.inner = inner
        self.id = inner.id
        self.address = inner.address

    def log_dir(self, number: int = 1) -> AsyncLogDir:
        """As `Broker.log_dir`."""
        return AsyncLogDir(self.inner.log_dir(number))

    async def log_lines(self, count: int = 20) -> list[str]:
        """As `Broker.log_lines`."""
        return await _last_lines(self.inner.output, count)


class AsyncCluster:
    """A cluster whose waiting is awaited; `inner` is the one below, for what is not here."""

    fails = _wrapped(AsyncFault, Cluster.fails)
    new_topic = _awaited(Cluster.new_topic)
    leader = _wrapped(AsyncBroker, Cluster.leader)
    wait_leaders = _awaited(Cluster.wait_leaders)
    wait_isr = _awaited(Cluster.wait_isr)
    heal = _awaited(Cluster.heal)
    close = _awaited(Cluster.close)

    def __init__(self, inner: Cluster) -> None:
        self.inner = inner
        self.bootstrap = inner.bootstrap
        self.client_config = inner.client_config

    @classmethod
    async def started(cls, **need: Any) -> AsyncCluster:
        """Start one, as `Cluster` does."""
        return cls(await _away(Cluster, **need))

    def broker(self, number: int) -> AsyncBroker:
        """As `Cluster.broker`."""
        return AsyncBroker(self.inner.broker(number))

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
