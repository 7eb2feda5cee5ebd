"""An internal topic of one partition over a real log, which broker 1 leads and broker 2 follows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Generic, TypeVar

from broker.coordination.coordinator_service import CoordinatorService
from broker.coordination.shard import ShardState
from broker.metadata.metadata_cache import MetadataCache
from broker.metadata.metadata_publisher import MetadataPublisher
from broker.replica.partition.partition import Partition
from jbodlab.metadata.records.schema import Record
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.ids import TopicPartition
from tests.broker.replicas import (
    DEADLINE_S,
    ME,
    Host,
    Metadata,
    broker,
    config,
    feature,
    partition_record,
    topic,
    until,
)
from tests.broker.stage import D2, TWO
from tests.waiting import turns

S = TypeVar("S", bound=CoordinatorService[Any, Any])


class LedTopic(Generic[S]):
    """Broker 1 coordinates all keys; what follower 2 has is told by the test."""

    def __init__(
        self,
        root: Path,
        name: str,
        new_service: Callable[[Host, MetadataCache, Callable[[], int]], S],
    ) -> None:
        loop = asyncio.get_running_loop()
        self.host = Host(root)
        self.cache = MetadataCache(ME, "PLAINTEXT")
        self.topic_partition = TopicPartition(name, 0)
        self.coordinator = new_service(self.host, self.cache, lambda: round(loop.time() * 1000))
        self.host.manager.leaderships[name] = self.coordinator
        self.publisher = MetadataPublisher(self.cache)
        self.publisher.publish_to(
            internal_listeners=[self.host.manager.roles], listeners_after_clients=[]
        )
        self.metadata = Metadata(self.publisher)

    async def start(self, *others: Record, isr: Sequence[int] = (1, 2), leader: int = 1) -> None:
        """Let the metadata have the topic; it comes after `others`."""
        name = self.topic_partition.topic
        self.metadata.apply(
            feature(),
            broker(1, *self.host.directories),
            broker(2, D2),
            *others,
            config("min.insync.replicas", "2", name),
            topic(name),
            partition_record((1, 2), (self.host.directory(0), D2), isr=isr, leader=leader),
        )
        await self.host.online(self.topic_partition)

    async def active(self) -> None:
        await until(lambda: self.state is ShardState.ACTIVE)

    @property
    def partition(self) -> Partition:
        found = self.host.registry.partition(self.topic_partition)
        assert found is not None
        return found

    @property
    def end(self) -> int:
        assert self.partition.log is not None
        return self.partition.log.end_offset

    @property
    def state(self) -> ShardState | None:
        counts = self.coordinator.shard_counts
        return next((state for state, count in counts.items() if count), None)

    def submit(self, key: str, request: Any) -> asyncio.Future[Any]:
        """The future of an answer; what is raised at once is in it."""
        try:
            return self.coordinator.submit(key, request)
        except KafkaError as error:
            future = asyncio.get_running_loop().create_future()
            future.set_exception(error)
            return future

    async def replicate(self) -> None:
        """Let the follower have all that is in the log by now."""
        end = self.end
        assert self.partition.log is not None
        await asyncio.wait_for(self.partition.log.written(), DEADLINE_S)
        await turns()
        self.partition.in_sync.follower_fetched(TWO, end, 7)

    def fail_directory(self) -> None:
        assert self.partition.log is not None
        self.host.log_dirs.fail(self.partition.log.log_dir, "test")


T = TypeVar("T", bound=LedTopic[Any])


@asynccontextmanager
async def leading(led: T, isr: Sequence[int] = (1, 2)) -> AsyncIterator[T]:
    """Let a topic be led and loaded."""
    await led.start(isr=isr)
    await led.active()
    try:
        yield led
    finally:
        led.coordinator.stop()
        await led.host.stop()


def code(future: asyncio.Future[Any]) -> ErrorCode:
    """The answer to a request; it must have come by now."""
    assert future.done()
    error = future.exception()
    if error is None:
        return ErrorCode(getattr(future.result(), "error_code", ErrorCode.NONE))
    assert isinstance(error, KafkaError)
    return error.code
