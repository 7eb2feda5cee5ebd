"""The metrics of coordinators.

Source: `CoordinatorRuntimeMetrics` of Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from broker.coordination.coordinator_service import CoordinatorService
from jbodlab.runtime.metrics import Metric, by_label, rows, values


def coordinator_metrics(coordinator: CoordinatorService[Any, Any], kind: str) -> Iterator[Metric]:
    """Yield the metrics of the coordinators of one kind.

    Args:
        coordinator: Those of this broker.
        kind: `group` or `transaction`.
    """
    counts = coordinator.shard_counts.items()
    yield from rows(
        by_label("state", {state.name.lower(): count for state, count in counts}),
        {f"kafka_server_{kind}_coordinator_metrics_num_partitions": float},
    )
    yield from values({f"jbodlab_{kind}_coordinator_waiting_requests": coordinator.waiting_count})
