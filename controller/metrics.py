"""The metrics of a controller: those of `kafka.controller` in Kafka.

Counts come from the committed image. Counts over all partitions are cached while the image's topics
stay the same object, so that frequent scrapes cost nothing on a quiet cluster.

Source: `ControllerMetadataMetrics`, `QuorumControllerMetrics`, `SnapshotEmitterMetrics`.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from controller.lead.leadership import Leadership
from jbodlab.metadata.image.topics_image import TopicsImage
from jbodlab.metadata.log.snapshotter import Snapshotter
from jbodlab.runtime.metrics import Metric, gauge
from jbodlab.vocabulary.ids import NO_LEADER

PREFIX = "kafka_controller_KafkaController"


class PartitionCounts(msgspec.Struct, frozen=True):
    """Numbers over all partitions of a cluster."""

    partitions: int
    offline: int
    imbalanced: int


def count_partitions(topics: TopicsImage) -> PartitionCounts:
    """Count the partitions, those without a leader, and those not led by their first replica."""
    total = offline = imbalanced = 0
    for topic in topics.by_id.values():
        total += len(topic.partitions)
        for partition in topic.partitions.values():
            offline += partition.leader == NO_LEADER
            imbalanced += partition.leader != partition.replicas[0]
    return PartitionCounts(total, offline, imbalanced)


class ControllerMetrics:
    """Collects the metrics of one controller; on the event loop.

    Args:
        leadership: Has the committed image, in a term and between two.
        snapshots: Its snapshots.
    """

    def __init__(self, leadership: Leadership, snapshots: Snapshotter) -> None:
        self._leadership = leadership
        self._snapshots = snapshots
        self._topics = TopicsImage()
        self._counts = count_partitions(self._topics)

    def __call__(self) -> Iterator[Metric]:
        """Return all metrics as they are now."""
        is_active = int(self._leadership.is_active)
        yield gauge(f"{PREFIX}_ActiveControllerCount", "1 if this controller is active", is_active)
        yield from self._cluster()
        yield from self._log()
        yield from self._operations()
        yield from self._snapshot()

    def _cluster(self) -> Iterator[Metric]:
        image = self._leadership.committed_image
        if image.topics is not self._topics:
            self._topics, self._counts = image.topics, count_partitions(image.topics)
        counts = self._counts
        brokers = image.cluster.brokers.values()
        fenced = sum(broker.fenced for broker in brokers)
        for name, meaning, value in (
            ("ActiveBrokerCount", "registered brokers that are not fenced", len(brokers) - fenced),
            ("FencedBrokerCount", "registered brokers that are fenced", fenced),
            ("GlobalTopicCount", "topics in the cluster", len(image.topics.by_id)),
            ("GlobalPartitionCount", "partitions in the cluster", counts.partitions),
            ("OfflinePartitionsCount", "partitions without a leader", counts.offline),
            (
                "PreferredReplicaImbalanceCount",
                "partitions whose leader is not their first replica",
                counts.imbalanced,
            ),
        ):
            yield gauge(f"{PREFIX}_{name}", meaning, value)

    def _log(self) -> Iterator[Metric]:
        leadership = self._leadership
        image = leadership.committed_image
        lag_ms = max(0, leadership.wall_ms() - image.timestamp_ms)
        for name, meaning, value in (
            (
                "LastAppliedRecordOffset",
                "last offset of the metadata log that was replayed",
                image.offset,
            ),
            (
                "LastAppliedRecordTimestamp",
                "append time of the last replayed metadata record, ms since 1970",
                image.timestamp_ms,
            ),
            (
                "LastAppliedRecordLagMs",
                "time since the last replayed metadata record was appended",
                lag_ms,
            ),
            (
                "LastCommittedRecordOffset",
                "last offset of the metadata log that is synced to disk",
                leadership.committed_end_offset - 1,
            ),
        ):
            yield gauge(f"{PREFIX}_{name}", meaning, value)

    def _operations(self) -> Iterator[Metric]:
        counts = self._leadership.counts
        for name, meaning, value in (
            (
                "TimedOutBrokerHeartbeatCount",
                "heartbeats that waited too long in the controller's queue",
                counts.late,
            ),
            ("EventQueueOperationsStartedCount", "operations started", counts.started),
            (
                "EventQueueOperationsTimedOutCount",
                "operations that waited too long in the controller's queue",
                counts.timed_out + counts.late,
            ),
            (
                "EventQueueOperationsRefusedCount",
                "operations refused because the controller's queue was full; not in Kafka",
                counts.refused,
            ),
            ("MetadataErrorCount", "operations that failed unexpectedly", counts.failed),
        ):
            # As in Kafka gauges that only grow, under names without an ending.
            yield gauge(f"{PREFIX}_{name}", meaning, value)

    def _snapshot(self) -> Iterator[Metric]:
        age_ms = self._snapshots.latest_age_ms
        yield gauge(
            "kafka_server_SnapshotEmitter_LatestSnapshotGeneratedBytes",
            "size of the last snapshot that this process wrote; 0 before the first",
            self._snapshots.latest_bytes,
        )
        yield gauge(
            "kafka_server_SnapshotEmitter_LatestSnapshotGeneratedAgeMs",
            "time since this process wrote its last snapshot; -1 before the first",
            -1 if age_ms is None else age_ms,
        )
