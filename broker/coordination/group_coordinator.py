"""The group coordinators of one broker, and which of them serves a group.

There is one for each partition of `__consumer_offsets`, while this broker leads that partition.

Source: `org.apache.kafka.coordinator.group.GroupCoordinatorService`, `CoordinatorRuntime`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Any

from broker.coordination.shard import CoordinatorShard, ShardContext, ShardState
from broker.groups.requests import Request
from broker.metadata_cache import MetadataCache
from broker.replica.partition import Partition
from broker.replica.registry import ReplicaRegistry
from jbodlab.group_records.partitions import coordinator_partition
from jbodlab.metadata.image.metadata_delta import MetadataDelta
from jbodlab.metadata.image.metadata_image import MetadataImage
from jbodlab.runtime.supervised import call_each
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.ids import GROUP_METADATA_TOPIC, LeaderEpoch, TopicPartition

logger = logging.getLogger(__name__)


class GroupCoordinator:
    """Follows the replicas of the topic, and the metadata; on the event loop.

    Args:
        registry: The replicas of this broker.
        cache: The metadata that clients are told.
        context: What its shards have in common.
    """

    def __init__(
        self,
        registry: ReplicaRegistry,
        cache: MetadataCache,
        context: ShardContext,
    ) -> None:
        self._registry = registry
        self._cache = cache
        self._context = context
        self._loop = asyncio.get_running_loop()
        self._shards: dict[int, CoordinatorShard] = {}

    # Life

    def stop(self) -> None:
        """Send everybody away; coordinators end with the leadership of their replicas anyway."""
        shards, self._shards = self._shards, {}
        call_each((shard.close for shard in shards.values()), "the end of a coordinator")

    # What replicas say

    def leadership_began(self, partition: Partition, leader_epoch: LeaderEpoch) -> None:
        """Begin to load the coordinator of a partition."""
        index = partition.topic_partition.partition
        assert index not in self._shards
        self._shards[index] = CoordinatorShard(partition, leader_epoch, self._context)

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

    # What the metadata says

    def metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Take the offsets of deleted topics away."""
        if delta.deleted_topics:
            names = [topic.name for topic in delta.deleted_topics.values()]
            for shard in self._shards.values():
                shard.run(lambda core: core.topics_deleted(names))

    # What APIs ask

    def submit(self, group_id: str, request: Request) -> asyncio.Future[Any]:
        """Ask the coordinator of a group.

        Raises:
            KafkaError: one that group APIs know; the future gets no others either.
        """
        return self._shard_of(group_id).submit(request)

    def submit_each(
        self, group_ids: Iterable[str], request_for: Callable[[tuple[str, ...]], Request]
    ) -> asyncio.Future[list[tuple[tuple[str, ...], Any]]]:
        """Ask the coordinators of many groups, each for its own.

        Returns:
            A future of groups and the answer for these, or the `KafkaError`.
        """
        by_shard: dict[CoordinatorShard | None, list[str]] = {}
        for group_id in dict.fromkeys(group_ids):
            try:
                shard = self._shard_of(group_id)
            except KafkaError:
                shard = None
            by_shard.setdefault(shard, []).append(group_id)
        return self._loop.create_task(
            _each(
                [
                    (tuple(ids), _submitted(shard, request_for(tuple(ids))))
                    for shard, ids in by_shard.items()
                ]
            )
        )

    def submit_to_all(self, request: Request) -> asyncio.Future[list[Any]]:
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
        found = self._registry.partition(TopicPartition(GROUP_METADATA_TOPIC, partition))
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

    def _shard_of(self, group_id: str) -> CoordinatorShard:
        topic = self._cache.image.topics.by_name.get(GROUP_METADATA_TOPIC)
        if topic is not None:
            shard = self._shards.get(coordinator_partition(group_id, len(topic.partitions)))
            if shard is not None:
                return shard
        raise KafkaError(ErrorCode.NOT_COORDINATOR)


def _submitted(shard: CoordinatorShard | None, request: Request) -> asyncio.Future[Any]:
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
    asked: list[tuple[tuple[str, ...], asyncio.Future[Any]]],
) -> list[tuple[tuple[str, ...], Any]]:
    answers = await asyncio.gather(*(future for _, future in asked), return_exceptions=True)
    results = []
    for (group_ids, _), answer in zip(asked, answers, strict=True):
        if isinstance(answer, BaseException) and not isinstance(answer, KafkaError):
            raise answer
        results.append((group_ids, answer))
    return results
