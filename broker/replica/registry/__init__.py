"""All replicas of this broker, the ISRs that they propose, and their metrics."""

from broker.replica.registry.isr_updates import IsrUpdates
from broker.replica.registry.metrics import replica_metrics
from broker.replica.registry.registry import ReplicaRegistry

__all__ = ["IsrUpdates", "ReplicaRegistry", "replica_metrics"]
