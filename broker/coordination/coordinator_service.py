"""The coordinators of one internal topic on one broker, and which of them serves a key.

There is one shard for each partition of the topic, while this broker leads that partition. A key
is the id of a group, or a transactional id.

Source: `org.apache.kafka.coordinator.common.runtime.CoordinatorRuntime`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Any, Generic

from broker.coordination.core import Decision, Record
from broker.coordination.shard import C, Shard, ShardContext, ShardState
from broker.metadata.metadata_cache import MetadataCache
from broker.replica.partition import Partition
from broker.replica.registry import ReplicaRegistry
from jbodlab.group_records.partitions import coordinator_partition
from jbodlab.runtime.supervised import call_each
from jbodlab.storage.log.transactions import Marker
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.ids import LeaderEpoch, TopicPartition
from jbodlab.vocabulary.producer import Producer

logger = logging.getLogger(__name__)


class CoordinatorService(Generic[C, Record]):
    """Follows the leaderships of the topic; on the event loop.

    Args:
        topic: Name of the internal topic.
        registry: The replicas of this broker.
        cache: The metadata that clients get.
        context: The parts that its shards have in common.
    """

    def __init__(
        self,
        topic: str,
        registry: ReplicaRegistry,
        cache: MetadataCache,
        context: ShardContext[C, Record],
    ) -> None:
        self._topic = topic
        self._registry = registry
        self._cache = cache
        self._context = context
        self._loop = asyncio.get_running_loop()
        self._shards: dict[int, Shard[C, Record]] = {}

    # Life

    def stop(self) -> None:
        """Send everybody away; coordinators end with the leadership of their replicas anyway."""
        shards, self._shards = self._shards, {}
        call_each((shard.close for shard in shards.values()), "the end of a coordinator")

    # Events of replicas

    def leadership_began(self, partition: Partition, leader_epoch: LeaderEpoch) -> None:
        """Begin to load the coordinator of a partition."""
        index = partition.topic_partition.partition
        assert index not in self._shards
        self._shards[index] = Shard(partition, leader_epoch, self._context)

    def leadership_ended(self, partition: Partition) -> None:
        """End the coordinator of a partition, and answer everybody who waits for it."""
        shard = self._shards.pop(partition.topic_partition.partition, None)
        if shard is not None:
            shard.close()

    def committed(self, partition: Partition, high_watermark: int) -> None:
        """Send what waited for the high watermark."""
        shard = self._shards.get(partition.topic_partition.partition)
        if shard is not None:
            shard.committed(high_watermark)

    def run(self, decide: Callable[[C], Decision[Record]]) -> None:
        """Let every core decide on an event other than a request, such as a metadata change."""
        for shard in self._shards.values():
            shard.run(decide)

    # Questions of APIs

    def submit(self, key: str, request: Any) -> asyncio.Future[Any]:
        """Ask the coordinator of a key.

        Raises:
            KafkaError: as `Shard.submit`; the future gets no others either.
        """
        return self._shard_of(key).submit(request)

    def replica_of(self, key: str) -> Partition:
        """Return the replica that the coordinator of a key writes to.

        Raises:
            KafkaError: COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR.
        """
        shard = self._shard_of(key)
        shard.check_active()
        return shard.partition

    def end_transaction(
        self, partition: int, producer: Producer, marker: Marker, *, bumps_epoch: bool = False
    ) -> asyncio.Future[None]:
        """Append the marker of a transaction to a partition of the topic; see `Shard`.

        Raises:
            KafkaError: as `Shard.end_transaction`; the future gets no others either.
        """
        return self._shard(partition).end_transaction(producer, marker, bumps_epoch=bumps_epoch)

    def submit_each(
        self, keys: Iterable[str], request_for: Callable[[tuple[str, ...]], Any]
    ) -> asyncio.Future[list[tuple[tuple[str, ...], Any]]]:
        """Ask the coordinators of many keys, each for its own.

        Returns:
            A future of keys and the answer for these, or the `KafkaError`.
        """
        by_shard: dict[Shard[C, Record] | None, list[str]] = {}
        for key in dict.fromkeys(keys):
            try:
                shard = self._shard_of(key)
            except KafkaError:
                shard = None
            by_shard.setdefault(shard, []).append(key)
        asked = [tuple(some) for some in by_shard.values()]
        # Gathered now: a task that is cancelled before its first step would leave errors unread.
        answers = asyncio.gather(
            *(
                _submitted(shard, request_for(some))
                for shard, some in zip(by_shard, asked, strict=True)
            ),
            return_exceptions=True,
        )
        return self._loop.create_task(_each(asked, answers))

    def submit_to_all(self, request: Any) -> asyncio.Future[list[Any]]:
        """Ask all coordinators.

        Raises:
            KafkaError: COORDINATOR_LOAD_IN_PROGRESS, the answer would not be complete.
        """
        shards = [s for s in self._shards.values() if s.state is not ShardState.FAILED]
        for shard in shards:
            shard.check_active()
        return asyncio.gather(*(shard.submit(request) for shard in shards))

    def is_offline(self, partition: int) -> bool:
        """Return whether this broker has no usable replica of a partition of the topic."""
        found = self._registry.partition(TopicPartition(self._topic, partition))
        return found is None or not found.is_online

    @property
    def shard_counts(self) -> dict[ShardState, int]:
        """How many coordinators are in which state."""
        counts = dict.fromkeys((ShardState.LOADING, ShardState.ACTIVE, ShardState.FAILED), 0)
        for shard in self._shards.values():
            counts[shard.state] += 1
        return counts

    @property
    def waiting_count(self) -> int:
        """Requests that wait for their answer, parked ones included."""
        return sum(shard.waiting_count for shard in self._shards.values())

    # Inside

    def _shard_of(self, key: str) -> Shard[C, Record]:
        topic = self._cache.image.topics.by_name.get(self._topic)
        if topic is None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        return self._shard(coordinator_partition(key, len(topic.partitions)))

    def _shard(self, partition: int) -> Shard[C, Record]:
        shard = self._shards.get(partition)
        if shard is None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        return shard


def _submitted(shard: Shard[Any, Any] | None, request: Any) -> asyncio.Future[Any]:
    """Return the future of an answer; what is raised at once is in it."""
    try:
        if shard is None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        return shard.submit(request)
    except KafkaError as error:
        future = asyncio.get_running_loop().create_future()
        future.set_exception(error)
        return future


async def _each(
    asked: list[tuple[str, ...]], answers: asyncio.Future[list[Any]]
) -> list[tuple[tuple[str, ...], Any]]:
    results = list(zip(asked, await answers, strict=True))
    for _, answer in results:
        if isinstance(answer, BaseException) and not isinstance(answer, KafkaError):
            raise answer
    return results
