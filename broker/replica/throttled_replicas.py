"""Which replicas of a topic are throttled while they are copied between brokers (KIP-73)."""

from __future__ import annotations

import msgspec


class ThrottledReplicas(msgspec.Struct, frozen=True):
    """Which replicas of a topic are throttled.

    Attributes:
        pairs: Partitions with brokers; None for all.
    """

    pairs: frozenset[tuple[int, int]] | None = frozenset()

    def covers(self, partition: int, broker_id: int) -> bool:
        """Return whether the replica of a broker is throttled."""
        return self.pairs is None or (partition, broker_id) in self.pairs
