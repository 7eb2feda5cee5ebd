"""A replica that leads: followers, ISR, high watermark."""

from broker.replica.leading.in_sync import InSyncReplicas, IsrChanges
from broker.replica.leading.isr import effective_min_isr
from broker.replica.leading.leader_state import LeaderState
from broker.replica.leading.transaction_guards import Guard

__all__ = ["Guard", "InSyncReplicas", "IsrChanges", "LeaderState", "effective_min_isr"]
