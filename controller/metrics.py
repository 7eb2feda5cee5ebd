"""The metrics of a controller: those of `kafka.controller` in Kafka.

Counts come from the committed image. Counts over all partitions are cached while the image's topics
stay the same object, so that frequent scrapes cost nothing on a quiet cluster.

Those of the quorum are Kafka's group `raft-metrics`, whose states are labels here. Kafka has no
state of a leader that has resigned, and none of an observer that follows.

Source: `ControllerMetadataMetrics`, `QuorumControllerMetrics`, `SnapshotEmitterMetrics`,
`org.apache.kafka.raft.internals.KafkaRaftMetrics`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from statistics import median
from types import MappingProxyType

import msgspec

from controller.lead.active_controller import OperationCounts
from controller.lead.committed_state import CommittedState
from controller.lead.leadership import Leadership
from controller.quorum.raft_log import RaftLog
from jbodlab.metadata.image.metadata_image import MetadataImage
from jbodlab.metadata.image.topics_image import TopicsImage
from jbodlab.metadata.log.snapshotter import Snapshotter
from jbodlab.raft.states import (
    Follower,
    Leader,
    Prospective,
    QuorumCandidate,
    Resigned,
    State,
    Unattached,
)
from jbodlab.runtime.metrics import Metric, values
from jbodlab.vocabulary.ids import NO_LEADER

PREFIX = "kafka_controller_KafkaController_"
RAFT_PREFIX = "jbodlab_raft_"
STATES: Mapping[type[State], str] = MappingProxyType(
    {
        Unattached: "unattached",
        Prospective: "prospective",
        QuorumCandidate: "candidate",
        Leader: "leader",
        Follower: "follower",
        Resigned: "resigned",
    }
)
OBSERVER = "observer"


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
            {
                "ActiveControllerCount": leadership.is_active,
                "LastCommittedRecordOffset": self._committed.end_offset - 1,
                "GlobalTopicCount": len(image.topics.by_id),
                "GlobalPartitionCount": self._counts.partitions,
                "OfflinePartitionsCount": self._counts.offline,
                "PreferredReplicaImbalanceCount": self._counts.imbalanced,
            },
            prefix=PREFIX,
        )
        yield from _image_metrics(image, leadership.wall_ms())
        yield from _operation_metrics(leadership.counts)
        yield from _snapshot_metrics(self._snapshots)


def _image_metrics(image: MetadataImage, now_ms: int) -> Iterator[Metric]:
    brokers = image.cluster.brokers.values()
    yield from values(
        {
            "ActiveBrokerCount": sum(not broker.fenced for broker in brokers),
            "FencedBrokerCount": sum(broker.fenced for broker in brokers),
            "LastAppliedRecordOffset": image.offset,
            "LastAppliedRecordTimestamp": image.timestamp_ms,
            "LastAppliedRecordLagMs": max(0, now_ms - image.timestamp_ms),
        },
        prefix=PREFIX,
    )


def _operation_metrics(counts: OperationCounts) -> Iterator[Metric]:
    # As in Kafka gauges that only grow, under names without an ending.
    yield from values(
        {
            "TimedOutBrokerHeartbeatCount": counts.late,
            "EventQueueOperationsStartedCount": counts.started,
            "EventQueueOperationsTimedOutCount": counts.timed_out + counts.late,
            "EventQueueOperationsRefusedCount": counts.refused,
            "MetadataErrorCount": counts.failed,
        },
        prefix=PREFIX,
    )


def _snapshot_metrics(snapshots: Snapshotter) -> Iterator[Metric]:
    age_ms = snapshots.latest_age_ms
    yield from values(
        {
            "kafka_server_SnapshotEmitter_LatestSnapshotGeneratedBytes": snapshots.latest_bytes,
            "kafka_server_SnapshotEmitter_LatestSnapshotGeneratedAgeMs": -1
            if age_ms is None
            else age_ms,
        }
    )


def raft_metrics(log: RaftLog, held_requests: int) -> Iterator[Metric]:
    """Yield the metrics of a node of the quorum; none before its log is open.

    Args:
        log: Of the node.
        held_requests: Requests that wait until it is active.
    """
    if not log.has_begun:
        return
    core, disk = log.core, log.disk
    state, view, voters = core.state, core.log, core.voters
    name = STATES[type(state)] if voters.has(log.me) else OBSERVER
    replicas = state.progress.replicas if isinstance(state, Leader) else {}
    high_watermark = -1 if core.high_watermark is None else core.high_watermark
    changed_at = view.voters.last_offset
    yield Metric(
        f"{RAFT_PREFIX}current_state",
        [("", {"state": each}, each == name) for each in (*STATES.values(), OBSERVER)],
    )
    yield from values(
        {
            "current_leader": _id(core.leader_id),
            "current_epoch": state.epoch,
            "current_vote": _id(None if state.voted is None else state.voted.node_id),
            "high_watermark": high_watermark,
            "log_end_offset": view.end_offset,
            "log_end_epoch": view.last_epoch,
            "number_of_voters": len(voters.keys),
            "number_of_observers": sum(not voters.has(key) for key in replicas),
            "uncommitted_voter_change": changed_at is not None and changed_at >= high_watermark,
            "disk_wait_ms": disk.wait_ms,
            "disk_full": disk.is_full,
            "disk_hand_overs_total": disk.hand_overs,
            "held_requests": held_requests,
        },
        prefix=RAFT_PREFIX,
    )
    yield Metric(
        f"{RAFT_PREFIX}follower_sync_ms",
        [
            ("", {"replica": str(key.node_id)}, median(known.syncs_ms))
            for key, known in replicas.items()
            if known.syncs_ms
        ],
    )


def _id(node: int | None) -> int:
    return -1 if node is None else node
