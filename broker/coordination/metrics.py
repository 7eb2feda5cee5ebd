"""The metrics of the group coordinator.

Source: `CoordinatorRuntimeMetrics` of Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from broker.coordination.coordinator_service import CoordinatorService
from jbodlab.runtime.metrics import Metric, by_label, rows, values


def group_metrics(coordinator: CoordinatorService[Any, Any]) -> Iterator[Metric]:
    """Yield the metrics of the groups that the broker coordinates."""
    counts = coordinator.shard_counts.items()
    yield from rows(
        by_label("state", {state.name.lower(): count for state, count in counts}),
        (
            "kafka_server_group_coordinator_metrics_num_partitions",
            "partitions of the offsets topic whose groups this broker coordinates",
            float,
        ),
    )
    yield from values(
        (
            "jbodlab_group_coordinator_waiting_requests",
            "group requests that are waiting for other members or for replicas",
            coordinator.waiting_count,
        )
    )
