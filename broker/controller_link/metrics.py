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
        (
            "kafka_server_AssignmentsManager_QueuedReplicaToDirAssignments",
            "replicas whose directory the controller has not accepted yet",
            assignments.pending_count,
        ),
        (
            "kafka_server_KafkaServer_BrokerState",
            "0 not running, 1 starting, 2 recovery, 3 running, 6 controlled shutdown, 7 stopping",
            lifecycle.state,
        ),
    )


def metadata_metrics(image: MetadataImage, failures: int, now_ms: int) -> Iterator[Metric]:
    """Yield the metrics of the metadata that the broker applied.

    Args:
        image: The newest image.
        failures: How often a listener raised.
        now_ms: Milliseconds since 1970.
    """
    yield from values(
        (
            "last_applied_record_offset",
            "last offset of the metadata log that was applied",
            image.offset,
        ),
        (
            "last_applied_record_timestamp",
            "append time of the last applied metadata record, ms since 1970",
            image.timestamp_ms,
        ),
        (
            "last_applied_record_lag_ms",
            "time since the last applied metadata record was appended",
            max(0, now_ms - image.timestamp_ms),
        ),
        (
            "metadata_apply_error_count",
            "times that a part of the broker failed to apply metadata; it is retried",
            failures,
        ),
        prefix=PREFIX,
    )
