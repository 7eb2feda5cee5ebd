"""Snapshots as a leading controller writes them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from uuid import UUID

from controller.decide.state import ControllerResult, ControllerState
from controller.lead.snapshotter import ControllerSnapshotter
from jbodlab.metadata.image.metadata_image import MetadataImage
from jbodlab.metadata.log.snapshots import parse_name, snapshot_paths
from jbodlab.metadata.records.frame import VersionedRecord
from jbodlab.metadata.records.topic_records import RemoveTopicRecord, TopicRecord
from jbodlab.runtime.machine import system_environment
from jbodlab.vocabulary.ids import TopicId
from tests.controller.formatted import config_of
from tests.controller.shell import Shell, shell

BETWEEN = 2_000
SETTINGS = {
    "metadata_log_max_record_bytes_between_snapshots": str(BETWEEN),
    "metadata_max_idle_interval_ms": "0",
}


class Snapshots:
    """A controller that writes snapshots."""

    def __init__(self, it: Shell, directory: Path, settings: dict[str, str]) -> None:
        self.shell = it
        self.directory = it.log.directory
        self.snapshotter = ControllerSnapshotter(
            committed=it.committed,
            log=it.log,
            log_thread=it.thread,
            settings=config_of(directory, **settings).metadata_log,
            appended_bytes=it.opened.replayed_bytes,
            threads=system_environment().threads,
            monotonic_s=system_environment().monotonic_s,
            wall_ms=system_environment().wall_ms,
            quorum=it.quorum,
        )
        it.quorum.add_listener(self.snapshotter)
        self.running = asyncio.create_task(self.snapshotter.run())

    @property
    def image(self) -> MetadataImage:
        return self.shell.controller.state.image

    @property
    def ends(self) -> list[int]:
        return [parse_name(path.name)[0] for path in reversed(snapshot_paths(self.directory))]

    async def change(self, number: int) -> None:
        """Create a topic, and remove the one before."""
        await self.shell.controller.submit(churn(number))

    async def stop(self) -> None:
        self.running.cancel()
        with suppress(asyncio.CancelledError):
            await self.running

    async def until(self, condition: Callable[[], object]) -> None:
        while not condition():
            assert not self.running.done(), self.running.exception()
            await asyncio.sleep(0.002)

    async def settle(self) -> None:
        """Write changes until there is a snapshot with little behind it."""
        number = 1_000
        ends = self.ends
        while self.ends == ends:
            await self.change(number)
            await asyncio.sleep(0.002)
            number += 1


def topic_id(number: int) -> TopicId:
    return TopicId(UUID(int=(number + 1) << 70))


def churn(number: int) -> Callable[[ControllerState, int], ControllerResult[None]]:
    def decide(state: ControllerState, now_ms: int) -> ControllerResult[None]:
        old = state.image.topics.by_id
        records = [VersionedRecord(RemoveTopicRecord(topic_id=each), 0) for each in old]
        created = TopicRecord(name=f"topic-{number}", topic_id=topic_id(number))
        return ControllerResult(response=None, records=(*records, VersionedRecord(created, 0)))

    return decide


@asynccontextmanager
async def snapshotting(directory: Path, settings: dict[str, str]) -> AsyncIterator[Snapshots]:
    async with shell(directory, **settings) as it:
        result = Snapshots(it, directory, settings)
        try:
            yield result
        finally:
            await result.stop()
