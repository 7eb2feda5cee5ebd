"""All metrics of a broker: one list of what its rooms declare."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from broker.assemblies.controller_link import ControllerLink
from broker.assemblies.coordinators import Coordinators
from broker.assemblies.disks import Disks
from broker.assemblies.encryption import Encryption
from broker.assemblies.replicas import Replicas
from broker.clients.traffic import traffic_metrics
from broker.compaction.metrics import cleaner_metrics
from broker.config import BrokerConfig
from broker.controller_link.metrics import life_metrics, metadata_metrics
from broker.coordination.metrics import coordinator_metrics
from broker.disk.upkeep import directory_metrics
from broker.moves.metrics import move_metrics
from broker.replica.registry import replica_metrics
from broker.telemetry.clients import TelemetryClients
from broker.telemetry.metrics import telemetry_metrics
from broker.transaction_markers.metrics import marker_metrics
from jbodlab.peers.client_security import refusal_metrics
from jbodlab.runtime.metrics import Metric, each_by_itself
from jbodlab.server.listener import Listener
from jbodlab.server.listener_counts import listener_metrics
from jbodlab.server.listener_tls import handshake_metrics
from jbodlab.server.rights import Rights, rights_metrics
from jbodlab.server.tls_watch import certificate_metrics


def broker_metrics(
    config: BrokerConfig,
    *,
    wall_ms: Callable[[], int],
    disks: Disks,
    link: ControllerLink,
    replicas: Replicas,
    coordinators: Coordinators,
    encryption: Encryption,
    telemetry: TelemetryClients,
    listeners: Sequence[Listener],
    rights: Rights,
) -> Iterator[Metric]:
    """Return all metrics of a broker as they are now; on the event loop."""
    image, now_ms = link.feed.image, wall_ms()
    manager = replicas.manager
    return each_by_itself(
        lambda: directory_metrics(disks.log_dirs, disks.conditions),
        lambda: replica_metrics(
            manager.registry,
            manager.isr_changes,
            config.transactions.transaction_max_timeout_ms,
            now_ms,
        ),
        lambda: move_metrics(manager.moves),
        lambda: cleaner_metrics(disks.cleaner, disks.log_dirs, now_ms),
        lambda: life_metrics(link.assignments, link.life),
        lambda: metadata_metrics(image, link.publisher.failure_count, now_ms),
        lambda: coordinator_metrics(coordinators.groups, "group"),
        lambda: coordinator_metrics(coordinators.transactions, "transaction"),
        lambda: marker_metrics(coordinators.transactions.markers),
        lambda: traffic_metrics(replicas.traffic, image.topics.by_name),
        lambda: telemetry_metrics(telemetry),
        lambda: certificate_metrics(encryption.watch.contexts),
        lambda: handshake_metrics([*encryption.listeners.values()]),
        lambda: listener_metrics(listeners),
        lambda: rights_metrics(rights),
        lambda: refusal_metrics(encryption.peers),
    )
