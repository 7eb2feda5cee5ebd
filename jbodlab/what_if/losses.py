"""Effect of every loss: of each directory, broker and rack, and of pairs of directories.

A partition is looked at once. The effect of a loss of its replicas is counted for all that hold
them: for the directory of a replica, for the directories without which its broker stops, for its
broker and its rack. The effect of a pair is the sum of the effects of its two directories, and a
difference for each partition that has replicas in both.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import TypeVar

from jbodlab.what_if.cluster import ANYWHERE, Cluster, PartitionModel
from jbodlab.what_if.kinds import NOBODY, Effect, PartitionKind, effect

PAIRS_MAX = 10
"""How many of the worst pairs are told."""

COUNTS = ("last_copies", "leaderless", "below_min_isr", "unclean", "leaders_moved")
"""Counts of a loss, the worst first."""

_COUNT_BITS = 32
_COUNT_MASK = 2**_COUNT_BITS - 1
_Counts = tuple[int, int, int, int, int]
Pair = tuple[int, int]
_Key = TypeVar("_Key")


@dataclass(slots=True, kw_only=True)
class Loss:
    """Effect of a loss.

    Attributes:
        name: The object that is lost.
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

    def add(self, partition: PartitionModel, places: Sequence[int], found: Effect) -> None:
        """Count one partition with the lost replicas at places."""
        leader, _, moves_leader, leaderless, below_min_isr, last_copy, unclean = found
        self.replicas += len(places)
        self.last_copies += last_copy
        self.leaderless += leaderless
        self.below_min_isr += below_min_isr
        self.unclean += unclean
        if moves_leader:
            self.leaders_moved += 1
            self.moved_to[partition.replicas[leader]] += 1
        sizes = partition.sizes
        if not sizes:
            self.held_bytes = self.copy_bytes = None
        elif self.held_bytes is not None and self.copy_bytes is not None:
            for place in places:
                self.held_bytes += sizes[place]
                if leader != NOBODY:
                    self.copy_bytes += sizes[place]

    def include(self, other: Loss) -> None:
        """Count all that another loss counts, of other replicas of the same broker."""
        self.replicas += other.replicas
        self.last_copies += other.last_copies
        self.leaderless += other.leaderless
        self.below_min_isr += other.below_min_isr
        self.unclean += other.unclean
        self.leaders_moved += other.leaders_moved
        self.moved_to += other.moved_to
        self.held_bytes = _total(self.held_bytes, other.held_bytes)
        self.copy_bytes = _total(self.copy_bytes, other.copy_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Losses:
    """Effects of all losses, the worst first.

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
        self._known: dict[PartitionKind, dict[tuple[int, ...], Effect]] = {}

    def of_kind(self, kind: PartitionKind) -> dict[tuple[int, ...], Effect]:
        """Return what is known of a kind, by the places that are lost."""
        known = self._known.get(kind)
        if known is None:
            known = {(place,): effect(kind, (place,)) for place in range(kind.replicas)}
            self._known[kind] = known
        return known

    def of(self, kind: PartitionKind, lost: tuple[int, ...]) -> Effect:
        """Return what the loss of the replicas at places does to a partition of a kind."""
        known = self.of_kind(kind)
        found = known.get(lost)
        if found is None:
            found = known[lost] = effect(kind, lost)
        return found


def losses(cluster: Cluster, pairs_max: int = PAIRS_MAX) -> Losses:
    """Return what every loss would take.

    Args:
        cluster: The cluster; who is offline already is not lost again.
        pairs_max: How many pairs are told.
    """
    counting = _Counting(cluster)
    for partition in cluster.placed:
        counting.take(partition)
    counting.finish()
    return Losses(
        directories=_worst_first(counting.directories),
        brokers=_worst_first(counting.brokers),
        racks=_worst_first(counting.racks),
        pairs=dict(_pairs(cluster, counting, pairs_max)),
    )


def holders(cluster: Cluster, partition: PartitionModel) -> list[Sequence[int]]:
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
    """Counts by cells: a directory, or what a broker has in none that is known and online."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._effects = Effects()
        self._rack = {one.broker_id: one.rack for one in cluster.brokers}
        self._cells: dict[int, Loss] = {}
        self._by_cells: dict[Pair, int] = {}
        self._by_kind: dict[PartitionKind, list[tuple[int, int, int]]] = {}
        self.racks = {name: Loss(name=f"rack {name}", racks=(name,)) for name in cluster.racks}
        self.brokers: dict[int, Loss] = {}
        self.directories: dict[int, Loss] = {}
        self.differences: dict[Pair, int] = {}
        """For pairs with partitions in both: what differs from the sum of both, packed."""

    def take(self, partition: PartitionModel) -> None:
        """Count one partition for everything that holds a replica of it."""
        kind = self._cluster.kind(partition)
        known = self._effects.of_kind(kind)
        cells = [
            self._cell(broker, own)
            for broker, own in zip(partition.replicas, partition.directories, strict=True)
        ]
        for place, cell in enumerate(cells):
            if cell is None:
                continue
            loss = self._cells.get(cell)
            if loss is None:
                loss = self._cells[cell] = Loss(name="")
            loss.add(partition, (place,), known[place,])
        if self.racks:
            self._take_racks(partition, kind)
        for one, other, difference in self._differences(kind):
            first, second = cells[one], cells[other]
            if first is None or second is None:
                continue
            pair = (first, second) if first < second else (second, first)
            self._by_cells[pair] = self._by_cells.get(pair, 0) + difference

    def finish(self) -> None:
        """Make the losses of what was counted by cells."""
        cluster = self._cluster
        for broker in cluster.by_id:
            loss = Loss(name=f"broker-{broker}", racks=_named(self._rack[broker]))
            for cell in (*cluster.online[broker], _elsewhere(broker)):
                loss.include(self._cells.get(cell, Loss(name="")))
            self.brokers[broker] = loss
        for directory in cluster.directories:
            self.brokers[directory.broker].undescribed += directory.undescribed
        for number, one in enumerate(cluster.directories):
            if one.is_online:
                own = replace(self._cells.get(number, Loss(name="")), undescribed=one.undescribed)
                takes_broker = number in cluster.stoppers[one.broker]
                self.directories[number] = replace(
                    self.brokers[one.broker] if takes_broker else own,
                    name=one.name,
                    racks=_named(self._rack[one.broker]),
                    takes_broker=takes_broker,
                )
        for name, brokers in cluster.racks.items():
            self.racks[name].undescribed = sum(self.brokers[one].undescribed for one in brokers)
        for (one_cell, other_cell), difference in self._by_cells.items():
            for first in self._holders(one_cell):
                for second in self._holders(other_cell):
                    pair = (first, second) if first < second else (second, first)
                    self.differences[pair] = self.differences.get(pair, 0) + difference

    def _take_racks(self, partition: PartitionModel, kind: PartitionKind) -> None:
        by_rack: dict[str, tuple[int, ...]] = {}
        for place, broker in enumerate(partition.replicas):
            rack = self._rack.get(broker)
            if rack is not None:
                by_rack[rack] = (*by_rack.get(rack, ()), place)
        for rack, places in by_rack.items():
            self.racks[rack].add(partition, places, self._effects.of(kind, places))

    def _cell(self, broker: int, own: int) -> int | None:
        if broker not in self._rack:
            return None
        if own == ANYWHERE or not self._cluster.directories[own].is_online:
            return _elsewhere(broker)
        return own

    def _holders(self, cell: int) -> Sequence[int]:
        if cell < 0:
            return self._cluster.stoppers[_broker_of(cell)]
        stoppers = self._cluster.stoppers[self._cluster.directories[cell].broker]
        return stoppers if cell in stoppers else [cell, *stoppers]

    def _differences(self, kind: PartitionKind) -> list[tuple[int, int, int]]:
        """Return by how much the loss of two places differs from the sum of both losses."""
        found = self._by_kind.get(kind)
        if found is None:
            found = self._by_kind[kind] = []
            for one, other in combinations(range(kind.replicas), 2):
                both, first, second = (
                    _packed(_counts(self._effects.of(kind, places)))
                    for places in ((one, other), (one,), (other,))
                )
                if both != first + second:
                    found.append((one, other, both - first - second))
        return found


def _elsewhere(broker: int) -> int:
    """Return the cell of the replicas of a broker that are in no online directory."""
    return -1 - broker


def _broker_of(cell: int) -> int:
    return -1 - cell


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


def _packed(counts: _Counts) -> int:
    """Return counts as one number: sums, differences and the order are those of the counts."""
    packed = 0
    for count in counts:
        packed = (packed << _COUNT_BITS) + count
    return packed


def _unpacked(packed: int) -> _Counts:
    a, b, c, d, e = (
        packed >> _COUNT_BITS * at & _COUNT_MASK for at in range(len(COUNTS) - 1, -1, -1)
    )
    return a, b, c, d, e


def _pairs(cluster: Cluster, counting: _Counting, pairs_max: int) -> Iterator[tuple[Pair, Loss]]:
    """Yield the worst pairs of directories of different brokers, the worst first."""
    single = {number: _packed(loss.counts) for number, loss in counting.directories.items()}
    broker = {number: cluster.directories[number].broker for number in single}
    both = (
        (single[pair[0]] + single[pair[1]] + difference, (-pair[0], -pair[1]))
        for pair, difference in counting.differences.items()
    )
    worst = heapq.nlargest(pairs_max, both)
    heapq.heapify(worst)
    ranked = sorted(single, key=lambda number: single[number], reverse=True)
    for at, one in enumerate(ranked):
        for other in ranked[at + 1 :]:
            packed = single[one] + single[other]
            # The pairs that follow are no worse than this one.
            if len(worst) == pairs_max and packed < worst[0][0]:
                break
            pair = (min(one, other), max(one, other))
            if broker[one] == broker[other] or pair in counting.differences:
                continue
            entry = (packed, (-pair[0], -pair[1]))
            if len(worst) < pairs_max:
                heapq.heappush(worst, entry)
            else:
                heapq.heappushpop(worst, entry)
    for packed, (first, second) in sorted(worst, reverse=True):
        counts = _unpacked(packed)
        if any(counts[:4]):
            yield (-first, -second), _pair(counting, (-first, -second), counts)


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


def _total(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other
