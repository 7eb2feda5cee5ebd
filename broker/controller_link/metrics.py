"""The metrics of a broker's life at the controller, and of the metadata that it applied.

Source: `AssignmentsManager`, `BrokerServer`, `BrokerServerMetrics` of Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Iterator

from broker.controller_link.assignment_sender import AssignmentSender
from broker.controller_link.broker_life import BrokerLife
from jbodlab.metadata.image.metadata_image import MetadataImage
from jbodlab.runtime.metrics import Metric, values

PREFIX = "kafka_server_broker_metadata_metrics_"


def life_metrics(assignments: AssignmentSender, lifecycle: BrokerLife) -> Iterator[Metric]:
    """Yield the metrics of what the broker reports to the controller."""
    yield from values(
        {
            "AssignmentsManager_QueuedReplicaToDirAssignments": assignments.pending_count,
            "KafkaServer_BrokerState": lifecycle.state,
        },
        prefix="kafka_server_",
    )


def metadata_metrics(image: MetadataImage, failures: int, now_ms: int) -> Iterator[Metric]:
    """Yield the metrics of the metadata that the broker applied.

    Args:
        image: The newest image.
        failures: How often a listener raised.
        now_ms: Milliseconds since 1970.
    """
    yield from values(
        {
            "last_applied_record_offset": image.offset,
            "last_applied_record_timestamp": image.timestamp_ms,
            "last_applied_record_lag_ms": max(0, now_ms - image.timestamp_ms),
            "metadata_apply_error_count": failures,
        },
        prefix=PREFIX,
    )
