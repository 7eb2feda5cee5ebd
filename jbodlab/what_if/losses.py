"""What every loss would take: of each directory, broker and rack, and of pairs of directories.

A partition is looked at once. What the loss of its replicas does is counted for all that holds
them: for the directory of a replica, for the directories without which its broker stops, for its
broker and its rack. What a pair takes is the sum of what its two directories take, and a
difference for each partition that has replicas in both.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import TypeVar

from jbodlab.what_if.cluster import ANYWHERE, Cluster, Partition
from jbodlab.what_if.kinds import NOBODY, Effect, Kind, effect

PAIRS_MAX = 10
"""How many of the worst pairs are told."""

COUNTS = ("last_copies", "leaderless", "below_min_isr", "unclean", "leaders_moved")
"""What is counted of a loss, the worst first."""

_Counts = tuple[int, int, int, int, int]
Pair = tuple[int, int]
_Key = TypeVar("_Key")


@dataclass(slots=True, kw_only=True)
class Loss:
    """What a loss takes.

    Attributes:
        name: What is lost.
        racks: The racks of what is lost; empty where brokers have none.
        replicas: How many are lost.
        moved_to: How many leaders move to each broker.
        held_bytes: Bytes of the replicas; None where they are not known.
        copy_bytes: Those of them that can be copied again, from a leader that is left.
        takes_broker: Whether a broker stops with the directory.
        undescribed: Replicas of which it is not known what their loss does.
    """

    name: str
    racks: tuple[str, ...] = ()
    replicas: int = 0
    last_copies: int = 0
    leaderless: int = 0
    below_min_isr: int = 0
    unclean: int = 0
    leaders_moved: int = 0
    moved_to: Counter[int] = field(default_factory=Counter)
    held_bytes: int | None = 0
    copy_bytes: int | None = 0
    takes_broker: bool = False
    undescribed: int = 0

    @property
    def counts(self) -> _Counts:
        """The values of COUNTS; of two losses the greater ones are worse."""
        return (
            self.last_copies,
            self.leaderless,
            self.below_min_isr,
            self.unclean,
            self.leaders_moved,
        )

    @property
    def is_harmless(self) -> bool:
        """Whether every partition stays available and whole, as far as it is known."""
        return not any(self.counts[:4]) and not self.undescribed

    def add(self, partition: Partition, places: Sequence[int], found: Effect) -> None:
        """Count one partition with the lost replicas at places."""
        self.replicas += len(places)
        self.last_copies += found.last_copy
        self.leaderless += found.leaderless
        self.below_min_isr += found.below_min_isr
        self.unclean += found.unclean
        if found.moves_leader:
            self.leaders_moved += 1
            self.moved_to[partition.replicas[found.leader]] += 1
        if not partition.sizes:
            self.held_bytes = self.copy_bytes = None
        elif self.held_bytes is not None and self.copy_bytes is not None:
            size = sum(partition.sizes[place] for place in places)
            self.held_bytes += size
            if found.leader != NOBODY:
                self.copy_bytes += size


@dataclass(frozen=True, slots=True, kw_only=True)
class Losses:
    """What every loss would take, the worst first.

    Attributes:
        directories: By their numbers.
        brokers: By their ids.
        racks: By their names; empty where brokers have none.
        pairs: The worst pairs of directories of different brokers, by their numbers.
    """

    directories: Mapping[int, Loss]
    brokers: Mapping[int, Loss]
    racks: Mapping[str, Loss]
    pairs: Mapping[Pair, Loss]


class Effects:
    """The effects of losses; each is asked for once."""

    def __init__(self) -> None:
        self._known: dict[tuple[Kind, tuple[int, ...]], Effect] = {}

    def of(self, kind: Kind, lost: tuple[int, ...]) -> Effect:
        """Return what the loss of the replicas at places does to a partition of a kind."""
        key = (kind, lost)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = effect(kind, lost)
        return found


def losses(cluster: Cluster, pairs_max: int = PAIRS_MAX) -> Losses:
    """Return what every loss would take.

    Args:
        cluster: The cluster; who is offline already is not lost again.
        pairs_max: How many pairs are told.
    """
    counting = _Counting(cluster)
    for partition in cluster.partitions:
        counting.take(partition)
    return Losses(
        directories=_worst_first(counting.directories),
        brokers=_worst_first(counting.brokers),
        racks=_worst_first(counting.racks),
        pairs=dict(_pairs(cluster, counting, pairs_max)),
    )


def holders(cluster: Cluster, partition: Partition) -> list[Sequence[int]]:
    """Return the online directories without which each replica is lost.

    They are its own one and those without which its broker stops.
    """
    found: list[Sequence[int]] = []
    for broker, own in zip(partition.replicas, partition.directories, strict=True):
        stoppers = cluster.stoppers.get(broker, ())
        if own == ANYWHERE or own in stoppers or not cluster.directories[own].is_online:
            found.append(stoppers)
        else:
            found.append([own, *stoppers])
    return found


class _Counting:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._effects = Effects()
        rack = {one.broker: one.rack for one in cluster.brokers.values()}
        self._rack = rack
        self.brokers = {
            broker: Loss(name=f"broker-{broker}", racks=_named(rack[broker]))
            for broker in cluster.brokers
        }
        self.directories = {
            number: Loss(
                name=one.name,
                racks=_named(rack[one.broker]),
                takes_broker=cluster.takes_broker(number),
            )
            for number, one in enumerate(cluster.directories)
            if one.is_online
        }
        for number, loss in self.directories.items():
            one = cluster.directories[number]
            self.brokers[one.broker].undescribed += one.undescribed
            loss.undescribed = one.undescribed
        for number, loss in self.directories.items():
            if loss.takes_broker:
                broker = cluster.directories[number].broker
                loss.undescribed = self.brokers[broker].undescribed
        self.racks = {
            name: Loss(
                name=f"rack {name}",
                racks=(name,),
                undescribed=sum(self.brokers[broker].undescribed for broker in brokers),
            )
            for name, brokers in cluster.racks.items()
        }
        self.differences: dict[Pair, list[int]] = {}
        """For pairs with partitions in both: what differs from the sum, in the order of COUNTS."""
        self._differences: dict[tuple[Kind, int, int], list[tuple[int, int]] | None] = {}

    def take(self, partition: Partition) -> None:
        """Count one partition for everything that holds a replica of it."""
        cluster, effects = self._cluster, self._effects
        kind = cluster.kind(partition)
        held = holders(cluster, partition)
        by_rack: dict[str, list[int]] = {}
        for place, broker in enumerate(partition.replicas):
            if broker not in self.brokers:
                continue
            found = effects.of(kind, (place,))
            self.brokers[broker].add(partition, (place,), found)
            for number in held[place]:
                self.directories[number].add(partition, (place,), found)
            rack = self._rack[broker]
            if rack is not None:
                by_rack.setdefault(rack, []).append(place)
        for rack, places in by_rack.items():
            self.racks[rack].add(partition, places, effects.of(kind, tuple(places)))
        for one, other in combinations(range(len(held)), 2):
            difference = self._difference(kind, one, other)
            if difference is None:
                continue
            for first in held[one]:
                for second in held[other]:
                    pair = (first, second) if first < second else (second, first)
                    sums = self.differences.setdefault(pair, [0, 0, 0, 0, 0])
                    for at, value in difference:
                        sums[at] += value

    def _difference(self, kind: Kind, one: int, other: int) -> list[tuple[int, int]] | None:
        key = (kind, one, other)
        if key not in self._differences:
            both = _counts(self._effects.of(kind, (one, other)))
            first = _counts(self._effects.of(kind, (one,)))
            second = _counts(self._effects.of(kind, (other,)))
            values = [
                (at, value)
                for at in range(len(COUNTS))
                if (value := both[at] - first[at] - second[at])
            ]
            self._differences[key] = values or None
        return self._differences[key]


def _counts(found: Effect) -> _Counts:
    return (
        found.last_copy,
        found.leaderless,
        found.below_min_isr,
        found.unclean,
        found.moves_leader,
    )


def _named(rack: str | None) -> tuple[str, ...]:
    return () if rack is None else (rack,)


def _worst_first(found: Mapping[_Key, Loss]) -> dict[_Key, Loss]:
    def rank(item: tuple[_Key, Loss]) -> tuple[tuple[int, ...], str]:
        return tuple(-count for count in item[1].counts), item[1].name

    return dict(sorted(found.items(), key=rank))


def _pairs(cluster: Cluster, counting: _Counting, pairs_max: int) -> Iterator[tuple[Pair, Loss]]:
    """Yield the worst pairs of directories of different brokers, the worst first."""
    single = {number: loss.counts for number, loss in counting.directories.items()}
    broker = {number: cluster.directories[number].broker for number in single}
    worst: list[tuple[_Counts, Pair]] = []

    def consider(counts: _Counts, pair: Pair) -> None:
        entry = (counts, (-pair[0], -pair[1]))
        if len(worst) < pairs_max:
            heapq.heappush(worst, entry)
        elif entry > worst[0]:
            heapq.heapreplace(worst, entry)

    for pair, difference in counting.differences.items():
        consider(_sum(single[pair[0]], single[pair[1]], difference), pair)
    ranked = sorted(single, key=lambda number: single[number], reverse=True)
    for at, one in enumerate(ranked):
        for other in ranked[at + 1 :]:
            counts = _sum(single[one], single[other])
            # The pairs that follow are no worse than this one.
            if len(worst) == pairs_max and counts < worst[0][0]:
                break
            pair = (min(one, other), max(one, other))
            if broker[one] != broker[other] and pair not in counting.differences:
                consider(counts, pair)
    for counts, (one, other) in sorted(worst, reverse=True):
        if any(counts[:4]):
            yield (-one, -other), _pair(counting, (-one, -other), counts)


def _pair(counting: _Counting, pair: Pair, counts: _Counts) -> Loss:
    one, other = (counting.directories[number] for number in pair)
    return Loss(
        name=f"{one.name} + {other.name}",
        racks=tuple(sorted({*one.racks, *other.racks})),
        replicas=one.replicas + other.replicas,
        held_bytes=_total(one.held_bytes, other.held_bytes),
        copy_bytes=None,
        undescribed=one.undescribed + other.undescribed,
        last_copies=counts[0],
        leaderless=counts[1],
        below_min_isr=counts[2],
        unclean=counts[3],
        leaders_moved=counts[4],
    )


def _sum(one: _Counts, other: _Counts, difference: Sequence[int] = (0, 0, 0, 0, 0)) -> _Counts:
    a, b, c, d, e = (x + y + z for x, y, z in zip(one, other, difference, strict=True))
    return a, b, c, d, e


def _total(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other
