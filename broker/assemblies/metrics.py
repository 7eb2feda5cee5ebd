"""All metrics of a broker: one list of what its rooms declare."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from broker.clients.traffic import Traffic, traffic_metrics
from broker.compaction.log_cleaner import LogCleaner
from broker.compaction.metrics import cleaner_metrics
from broker.controller_link.assignment_sender import AssignmentSender
from broker.controller_link.broker_life import BrokerLife
from broker.controller_link.metadata_feed import MetadataFeed
from broker.controller_link.metrics import life_metrics, metadata_metrics
from broker.coordination.coordinator_service import CoordinatorService
from broker.coordination.metrics import coordinator_metrics
from broker.disk.directory import LogDirs
from broker.disk.upkeep import ConditionMonitor, directory_metrics
from broker.moves.metrics import move_metrics
from broker.moves.moves import RunningMoves
from broker.replica.leading import IsrChanges
from broker.replica.registry import ReplicaRegistry, replica_metrics
from broker.telemetry.clients import TelemetryClients
from broker.telemetry.metrics import telemetry_metrics
from broker.transaction_markers.marker_sender import MarkerSender
from broker.transaction_markers.metrics import marker_metrics
from jbodlab.peers.client_security import ClientSecurity, refusal_metrics
from jbodlab.runtime.metrics import Metric, each_by_itself
from jbodlab.security.tls_context import TlsContext
from jbodlab.server.listener import Listener
from jbodlab.server.listener_counts import listener_metrics
from jbodlab.server.listener_tls import ListenerTls, handshake_metrics
from jbodlab.server.rights import Rights, rights_metrics
from jbodlab.server.tls_watch import certificate_metrics


class BrokerMetrics(msgspec.Struct, frozen=True, kw_only=True):
    """Collects the metrics of one broker; on the event loop.

    Attributes:
        metadata_failures: Returns how often a listener could not follow the metadata.
        conditions: Which directories are full or slow.
        wall_ms: Milliseconds since 1970.
        traffic: Counts of requests and bytes of clients and followers.
        contexts: Certificates of this broker.
        encrypted: Listeners that encrypt.
        listeners: All of them.
        rights: Rights of clients.
        peers: How other brokers are reached.
        transaction_max_timeout_ms: How long a transaction may last.
    """

    log_dirs: LogDirs
    registry: ReplicaRegistry
    isr_changes: IsrChanges
    moves: RunningMoves
    assignments: AssignmentSender
    life: BrokerLife
    feed: MetadataFeed
    metadata_failures: Callable[[], int]
    conditions: ConditionMonitor
    wall_ms: Callable[[], int]
    traffic: Traffic
    cleaner: LogCleaner
    groups: CoordinatorService[Any, Any]
    transactions: CoordinatorService[Any, Any]
    markers: MarkerSender
    transaction_max_timeout_ms: int
    telemetry: TelemetryClients
    contexts: Sequence[TlsContext[Any]]
    encrypted: Sequence[ListenerTls]
    listeners: Sequence[Listener]
    rights: Rights
    peers: ClientSecurity | None

    def __call__(self) -> Iterator[Metric]:
        """Return all metrics as they are now."""
        image, now_ms = self.feed.image, self.wall_ms()
        return each_by_itself(
            lambda: directory_metrics(self.log_dirs, self.conditions),
            lambda: replica_metrics(
                self.registry, self.isr_changes, self.transaction_max_timeout_ms, now_ms
            ),
            lambda: move_metrics(self.moves),
            lambda: cleaner_metrics(self.cleaner, self.log_dirs, now_ms),
            lambda: life_metrics(self.assignments, self.life),
            lambda: metadata_metrics(image, self.metadata_failures(), now_ms),
            lambda: coordinator_metrics(
                self.groups,
                "group",
                "the offsets topic",
                "group requests that are waiting for other members or for replicas",
            ),
            lambda: coordinator_metrics(
                self.transactions,
                "transaction",
                "the transaction topic",
                "requests about transactions that are waiting for replicas",
            ),
            lambda: marker_metrics(self.markers),
            lambda: traffic_metrics(self.traffic, image.topics.by_name),
            lambda: telemetry_metrics(self.telemetry),
            lambda: certificate_metrics(self.contexts),
            lambda: handshake_metrics(self.encrypted),
            lambda: listener_metrics(self.listeners),
            lambda: rights_metrics(self.rights),
            lambda: refusal_metrics(self.peers),
        )
