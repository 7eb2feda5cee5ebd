"""Which partition of `__consumer_offsets` a group belongs to, and so which broker coordinates it.

Source: `org.apache.kafka.coordinator.group.GroupCoordinatorService.partitionFor`.
"""

from __future__ import annotations

import struct

_INT_MIN = -(1 << 31)


def coordinator_partition(key: str, partition_count: int) -> int:
    """Return the partition of a group, or of a transactional id.

    Args:
        key: Id of the group.
        partition_count: Partitions that the topic has; the configuration may name another number.
    """
    assert partition_count > 0
    code = java_hash(key)
    # Java's abs(-2^31) is negative; Kafka takes 0 instead.
    return (0 if code == _INT_MIN else abs(code)) % partition_count


def java_hash(text: str) -> int:
    """Return `String.hashCode` of Java: over UTF-16 units, in 32 bits with a sign."""
    raw = text.encode("utf-16-be", "surrogatepass")
    code = 0
    for unit in struct.unpack(f">{len(raw) // 2}H", raw):
        code = (31 * code + unit) & 0xFFFFFFFF
    return code - (1 << 32) if code & 0x80000000 else code
