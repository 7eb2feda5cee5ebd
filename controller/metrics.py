"""The metrics of a controller: those of `kafka.controller` in Kafka.

Counts come from the committed image. Counts over all partitions are cached while the image's topics
stay the same object, so that frequent scrapes cost nothing on a quiet cluster.

Source: `ControllerMetadataMetrics`, `QuorumControllerMetrics`, `SnapshotEmitterMetrics`.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from controller.lead.active_controller import OperationCounts
from controller.lead.committed_state import CommittedState
from controller.lead.leadership import Leadership
from jbodlab.metadata.image.metadata_image import MetadataImage
from jbodlab.metadata.image.topics_image import TopicsImage
from jbodlab.metadata.log.snapshotter import Snapshotter
from jbodlab.runtime.metrics import Metric, values
from jbodlab.vocabulary.ids import NO_LEADER

PREFIX = "kafka_controller_KafkaController_"


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
        leadership: Says whether this node leads.
        committed: The committed state of this node.
        snapshots: Its snapshots.
    """

    def __init__(
        self, leadership: Leadership, committed: CommittedState, snapshots: Snapshotter
    ) -> None:
        self._leadership = leadership
        self._committed = committed
        self._snapshots = snapshots
        self._topics = TopicsImage()
        self._counts = count_partitions(self._topics)

    def __call__(self) -> Iterator[Metric]:
        """Yield all metrics as they are now."""
        leadership = self._leadership
        image = self._committed.image
        if image.topics is not self._topics:
            self._topics, self._counts = image.topics, count_partitions(image.topics)
        yield from values(
            ("ActiveControllerCount", "1 if this controller is active", leadership.is_active),
            (
                "LastCommittedRecordOffset",
                "last offset of the metadata log that is synced to disk",
                self._committed.end_offset - 1,
            ),
            ("GlobalTopicCount", "topics in the cluster", len(image.topics.by_id)),
            ("GlobalPartitionCount", "partitions in the cluster", self._counts.partitions),
            ("OfflinePartitionsCount", "partitions without a leader", self._counts.offline),
            (
                "PreferredReplicaImbalanceCount",
                "partitions whose leader is not their first replica",
                self._counts.imbalanced,
            ),
            prefix=PREFIX,
        )
        yield from _image_metrics(image, leadership.wall_ms())
        yield from _operation_metrics(leadership.counts)
        yield from _snapshot_metrics(self._snapshots)


def _image_metrics(image: MetadataImage, now_ms: int) -> Iterator[Metric]:
    brokers = image.cluster.brokers.values()
    yield from values(
        (
            "ActiveBrokerCount",
            "registered brokers that are not fenced",
            sum(not broker.fenced for broker in brokers),
        ),
        (
            "FencedBrokerCount",
            "registered brokers that are fenced",
            sum(broker.fenced for broker in brokers),
        ),
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
            max(0, now_ms - image.timestamp_ms),
        ),
        prefix=PREFIX,
    )


def _operation_metrics(counts: OperationCounts) -> Iterator[Metric]:
    # As in Kafka gauges that only grow, under names without an ending.
    yield from values(
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
        prefix=PREFIX,
    )


def _snapshot_metrics(snapshots: Snapshotter) -> Iterator[Metric]:
    age_ms = snapshots.latest_age_ms
    yield from values(
        (
            "kafka_server_SnapshotEmitter_LatestSnapshotGeneratedBytes",
            "size of the last snapshot that this process wrote; 0 before the first",
            snapshots.latest_bytes,
        ),
        (
            "kafka_server_SnapshotEmitter_LatestSnapshotGeneratedAgeMs",
            "time since this process wrote its last snapshot; -1 before the first",
            -1 if age_ms is None else age_ms,
        ),
    )
