"""Proposals: replicas dealt out over brokers in turn, and over racks first.

The first replicas go round the brokers from a random start. The others of a partition follow at a
distance that grows by one whenever the first replicas have gone all the way round, so that the
followers of one broker are not all on the same other one. With racks the brokers are ordered so
that neighbours are in different racks, and a rack gets a second replica only when every rack has
one (KIP-36).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from jbodlab.kafka_admin.errors import AdminError


def propose(
    partitions: Sequence[int],
    replication_factor: int,
    brokers: Mapping[int, str | None],
    *,
    start: int,
    shift: int,
) -> dict[int, tuple[int, ...]]:
    """Return the brokers of each partition, the preferred leader first.

    Args:
        partitions: Their indexes.
        replication_factor: Replicas of each.
        brokers: Those that may be used, each with its rack; None for all means no racks.
        start: Where to begin, any number.
        shift: Distance of the second replicas at first, any number.

    Raises:
        AdminError: there are too few brokers, or only some of them have a rack.
    """
    racks = {broker: rack for broker, rack in brokers.items() if rack is not None}
    if racks and len(racks) != len(brokers):
        raise AdminError(
            "only some brokers have a rack; --ignore-racks makes a proposal without racks"
        )
    if replication_factor > len(brokers):
        raise AdminError(
            f"replication factor {replication_factor} needs as many brokers, got {len(brokers)}"
        )
    ring = _alternating(racks) if racks else sorted(brokers)
    found = {}
    for count, partition in enumerate(sorted(partitions)):
        first = (start + count) % len(ring)
        chosen = [ring[first]]
        if replication_factor > 1:
            distance = (shift + count // len(ring)) % (len(ring) - 1)
            followers = [
                ring[(first + 1 + (distance + k) % (len(ring) - 1)) % len(ring)]
                for k in range(len(ring) - 1)
            ]
            while len(chosen) < replication_factor:
                chosen.append(_next(followers, chosen, racks))
        found[partition] = tuple(chosen)
    return found


def _next(followers: Sequence[int], chosen: Sequence[int], racks: Mapping[int, str]) -> int:
    """Return the next broker in turn, of the rack that holds the fewest replicas so far."""
    used = Counter(racks.get(broker) for broker in chosen)
    left = [broker for broker in followers if broker not in chosen]
    return min(left, key=lambda broker: used[racks.get(broker)])


def _alternating(racks: Mapping[int, str]) -> list[int]:
    """Return the brokers so that neighbours are in different racks, as far as that goes."""
    by_rack: dict[str, list[int]] = defaultdict(list)
    for broker in sorted(racks):
        by_rack[racks[broker]].append(broker)
    rows = [by_rack[rack] for rack in sorted(by_rack)]
    deepest = max(map(len, rows))
    return [row[k] for k in range(deepest) for row in rows if k < len(row)]
