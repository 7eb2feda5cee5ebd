"""A running active controller on a real directory, without its gRPC server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from uuid import UUID

from controller.lead.active_controller import ActiveController
from controller.lead.committed_state import CommittedState
from controller.lead.leadership import Leadership
from controller.lead.metadata_stream import MetadataStream
from controller.metadata_dir import open_metadata_dir
from controller.quorum.log_thread import LogThread
from controller.quorum.raft_files import RaftFiles, election_state
from controller.quorum.raft_log import QuorumNodeSettings, RaftLog
from jbodlab.metadata.image.loader import MetadataLoader
from jbodlab.metadata.image.metadata_image import MetadataImage
from jbodlab.metadata.log.batches import read_batches
from jbodlab.metadata.log.metadata_log import MetadataLog
from jbodlab.raft.events import Event
from jbodlab.raft.instructions import SendRequest
from jbodlab.raft.voters import ReplicaKey
from jbodlab.runtime.machine import system_environment
from jbodlab.vocabulary.errors import LogDirError
from tests.controller.formatted import config_of


class NoPeers:
    """The way of a controller that is alone to others."""

    def send(self, instruction: SendRequest, pass_on: Callable[[Event], None]) -> None:
        raise AssertionError(instruction)

    def close(self) -> None:
        pass


class Shell:
    """Log, thread and leadership, wired as the server does it, without periodic tasks."""

    def __init__(self, directory: Path, **settings: str) -> None:
        config, environment = config_of(directory, **settings), system_environment()
        self.opened = open_metadata_dir(config)
        self.log: MetadataLog = self.opened.log
        self.thread = LogThread(environment.threads)
        self.committed = CommittedState(self.opened.loader)
        self.quorum = RaftLog(
            settings=QuorumNodeSettings(
                me=ReplicaKey(config.node.node_id, self.opened.directory_id),
                endpoints=config.quorum.endpoints,
                voters=config.quorum.voters,
                bootstrap_servers=0,
                stored=election_state(self.opened.stored),
                timing=config.quorum.timing,
            ),
            files=RaftFiles(self.log),
            log_thread=self.thread,
            peers=NoPeers(),
            high_watermark=self.committed.end_offset,
            on_snapshot=self.committed.load_snapshot,
            now_ms=environment.monotonic_ms,
            wall_ms=environment.wall_ms,
            random=lambda: 0.0,
        )
        self.quorum.add_listener(self.committed)
        self.leadership = Leadership(
            config=config,
            incarnation_id=UUID(int=1),
            opened=self.opened,
            log_thread=self.thread,
            log=self.quorum,
            committed=self.committed,
            environment=environment,
            start_periodic=lambda _: [],
        )
        self.running: asyncio.Task[None]

    @property
    def controller(self) -> ActiveController:
        return self.leadership.term.controller

    @property
    def stream(self) -> MetadataStream:
        return self.leadership.term.stream

    @property
    def image(self) -> MetadataImage:
        return self.committed.image

    async def lead(self) -> None:
        self.running = asyncio.create_task(self._run())
        await self.until_active()

    async def _run(self) -> None:
        runs = self.quorum.run(self.leadership), self.leadership.run()
        tasks = [asyncio.create_task(each) for each in runs]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                if task.done():
                    task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            if self.running.done():
                self.running.result()
            await asyncio.sleep(0.001)

    async def until_active(self) -> None:
        await self.until(lambda: self.leadership.is_active)

    async def stop(self) -> None:
        self.running.cancel()
        with suppress(asyncio.CancelledError, LogDirError):
            await self.running
        await self.close()

    async def close(self) -> None:
        with suppress(OSError):
            await self.thread.run(self.log.close)
        self.thread.stop()
        self.opened.lock.close()


class SlowFlush:
    """Holds the syncs of a log up until they are let go, and notes them in `order`."""

    def __init__(self, it: Shell) -> None:
        self.begun, self.hold = asyncio.Event(), asyncio.Event()
        self.order: list[str] = []
        loop, flush = asyncio.get_running_loop(), it.log.flush

        def slow_flush() -> None:
            loop.call_soon_threadsafe(self.begun.set)
            asyncio.run_coroutine_threadsafe(self.hold.wait(), loop).result(10)
            flush()
            self.order.append("synced")

        it.log.flush = slow_flush  # type: ignore[method-assign]


def replayed(it: Shell) -> MetadataLoader:
    loader = MetadataLoader()
    while data := it.log.read(loader.next_offset, 1 << 30):
        for batch in read_batches(data):
            loader.load(batch)
    return loader


@asynccontextmanager
async def shell(directory: Path, **settings: str) -> AsyncIterator[Shell]:
    result = Shell(directory, **settings)
    try:
        async with asyncio.timeout(60):
            await result.lead()
            yield result
    finally:
        await result.stop()


@contextmanager
def led(directory: Path, **settings: str) -> Iterator[Shell]:
    """Yield a shell that leads and runs nothing."""
    result = Shell(directory, **settings)
    with asyncio.Runner() as runner:
        try:
            runner.run(result.lead())
            yield result
        finally:
            runner.run(result.stop())
