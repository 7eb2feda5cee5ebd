"""The metrics of replicas.

Source: `ReplicaManager` of Apache Kafka. Its OfflineReplicaCount is always 0 by mistake; here it is
what its name says.
"""

from __future__ import annotations

from collections.abc import Iterator

from broker.replica.leading import IsrChanges
from broker.replica.partition import Partition
from broker.replica.registry.registry import ReplicaRegistry
from jbodlab.runtime.metrics import Metric, values

PREFIX = "kafka_server_ReplicaManager_"
LATE_AFTER_MS = 300_000
"""A transaction is late if it had no record for so much longer than any may last (KIP-664)."""


def replica_metrics(
    registry: ReplicaRegistry, changes: IsrChanges, transaction_max_timeout_ms: int, now_ms: int
) -> Iterator[Metric]:
    """Yield the metrics of all replicas of the broker.

    Args:
        registry: The replicas.
        changes: How often the ISR of partitions led here changed.
        transaction_max_timeout_ms: How long a transaction may last.
        now_ms: Milliseconds since 1970.
    """
    late_before_ms = now_ms - transaction_max_timeout_ms - LATE_AFTER_MS
    partitions = list(registry.partitions())
    led = [partition for partition in partitions if partition.leader is not None]
    yield from values(
        {
            "PartitionCount": len(partitions),
            "OfflineReplicaCount": sum(each.is_without_log for each in partitions),
            "LeaderCount": len(led),
            "UnderReplicatedPartitions": sum(map(_is_under_replicated, led)),
            "UnderMinIsrPartitionCount": sum(_spare_isr(each) < 0 for each in led),
            "AtMinIsrPartitionCount": sum(_spare_isr(each) == 0 for each in led),
            "ReassigningPartitions": sum(map(_is_reassigning, led)),
            "PartitionsWithLateTransactionsCount": sum(
                _has_late_transaction(each, late_before_ms) for each in led
            ),
            "IsrShrinks_total": changes.shrinks,
            "IsrExpands_total": changes.expands,
        },
        prefix=PREFIX,
    )


def _is_under_replicated(partition: Partition) -> bool:
    """Return whether the ISR of a led partition is not full; replicas being added do not count."""
    assert partition.leader is not None
    registration = partition.registration
    adding = len(registration.adding_replicas)
    return len(partition.leader.isr) < len(registration.replicas) - adding


def _is_reassigning(partition: Partition) -> bool:
    registration = partition.registration
    return bool(registration.adding_replicas or registration.removing_replicas)


def _has_late_transaction(partition: Partition, before_ms: int) -> bool:
    """Return whether the oldest open transaction of a partition has no newer record."""
    oldest = None if partition.log is None else partition.log.producers.oldest_open_timestamp
    return oldest is not None and 0 < oldest < before_ms


def _spare_isr(partition: Partition) -> int:
    assert partition.leader is not None
    return len(partition.leader.isr) - partition.min_isr
