"""Which moves would take the worst away, as a reassignment.

Three steps, each over what the one before has left:

1. A partition that one lost directory would make unavailable, or take the last copy of, gets
   another replica in the place of one that is offline, or a second one where it has one.
2. A partition with all replicas in one rack gets one of them into another rack.
3. As long as a move makes the worst pair of directories take less, and no other pair as much, the
   smallest partition that allows it leaves one of the two.

A replica goes to a directory that takes replicas and has room for it, first to another one of its
own broker. A move never lets the replicas of a partition be in fewer racks. A replica that lags
behind in its own directory needs no move: it is left out.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, islice
from typing import TYPE_CHECKING

from jbodlab.picture.cluster_picture import SERVING
from jbodlab.vocabulary.reassignment_file import ANY_LOG_DIR, file_value
from jbodlab.what_if.cluster import Cluster, PartitionModel
from jbodlab.what_if.kinds import Effect
from jbodlab.what_if.losses import Effects, holders

if TYPE_CHECKING:
    from jbodlab.cli.results import Assignment

PAIR_MOVES_MAX = 1000
"""How many moves the third step makes at most."""
PARTITIONS_TRIED_MAX = 50
"""How many partitions of a pair are looked at for one move."""
DIRECTORIES_TRIED_MAX = 16
"""How many directories of other brokers are looked at for one replica."""
ROOM_SHARE = 0.98
"""This part of the space that may still be written is filled at most."""

_Weight = tuple[int, int, int]
_Pair = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionMove:
    """One partition of the reassignment.

    Attributes:
        partition: As it will be.
        changed: Places of the replicas that are copied.
        size_bytes: Size of the replica; None where sizes are not known.
        why: As the end of a sentence.
    """

    partition: PartitionModel
    changed: tuple[int, ...]
    size_bytes: int | None
    why: str


def moves(cluster: Cluster) -> tuple[list[PartitionMove], Cluster]:
    """Return moves, the fewest bytes first, and the cluster after all of them."""
    planning = _Planning(cluster)
    planning.complete()
    planning.spread_over_racks()
    planning.spread_over_directories()
    found = sorted(planning.made(), key=lambda move: (move.size_bytes or 0, move.partition.name))
    return found, replace(cluster, moved=planning.partitions)


def reassignment(cluster: Cluster, planned: Sequence[PartitionMove]) -> Assignment:
    """Return moves as `kafka-reassign-partitions` reads them, in their order."""
    return file_value(
        (
            move.partition.topic,
            move.partition.index,
            move.partition.replicas,
            [
                (cluster.directories[number].path or ANY_LOG_DIR)
                if place in move.changed
                else ANY_LOG_DIR
                for place, number in enumerate(move.partition.directories)
            ],
        )
        for move in planned
    )


class _Planning:
    def __init__(self, cluster: Cluster) -> None:
        self.partitions = list(cluster.placed)
        self._cluster = cluster
        self._effects = Effects()
        self._why: dict[int, str] = {}
        self._coming: dict[int, int] = defaultdict(int)
        # Of a broker that is not alive the rack may be unknown; it is none.
        self._rack = {
            one.broker_id: one.rack
            for one in cluster.brokers
            if one.rack is not None or one.registration == SERVING
        }
        self._held: dict[int, int] = defaultdict(int)
        for partition in self.partitions:
            for number in partition.directories:
                self._held[number] += 1
        self._broken = {one.broker for one in cluster.directories if not one.is_online}
        """Brokers that copy nothing between their directories: nobody knows what is offline."""
        self._moved_since_ranked = DIRECTORIES_TRIED_MAX
        self._open = [
            number
            for number, one in enumerate(cluster.directories)
            if one.is_online and one.takes and cluster.by_id[one.broker].registration == SERVING
        ]
        self._open_set = frozenset(self._open)

    def made(self) -> Iterator[PartitionMove]:
        """Yield what has changed."""
        for at, why in self._why.items():
            before, after = self._cluster.placed[at], self.partitions[at]
            changed = tuple(
                place
                for place in range(len(after.replicas))
                if place >= len(before.replicas)
                or after.directories[place] != before.directories[place]
            )
            size = _size(before) * len(changed) if before.sizes else None
            yield PartitionMove(partition=after, changed=changed, size_bytes=size, why=why)

    def complete(self) -> None:
        """Give another replica to what one lost directory would make unavailable."""
        for at, partition in enumerate(self.partitions):
            if _is_reassigned(partition):
                continue
            risk = self._risk(partition)
            if not any(risk):
                continue
            for place, alive in enumerate(partition.alive):
                if not alive:
                    self._put(at, place, "it replaces a replica that is offline")
            last_copy, leaderless, _ = risk
            if len(partition.replicas) == 1 and (last_copy or leaderless):
                self._put(at, 1, "it has one replica")

    def spread_over_racks(self) -> None:
        """Move a replica out of the rack that has all replicas of a partition."""
        if len(set(self._rack.values())) < 2 or None in self._rack.values():
            return
        for at, partition in enumerate(self.partitions):
            if _is_reassigned(partition):
                continue
            if len(partition.replicas) < 2 or len(self._racks_of(partition.replicas)) > 1:
                continue
            place = _last_follower(partition)
            taken = self._rack.get(partition.replicas[0])
            self._put(at, place, f"all of its replicas are in rack {taken}", leaving=taken)

    def spread_over_directories(self) -> None:
        """Lower what the worst pair of directories takes."""
        loads: dict[_Pair, list[int]] = defaultdict(lambda: [0, 0, 0])
        members: dict[_Pair, set[int]] = defaultdict(set)
        for at, partition in enumerate(self.partitions):
            for pair, weight in self._weights(partition).items():
                members[pair].add(at)
                _add(loads[pair], weight, 1)
        heap = [(_negated(load), pair) for pair, load in loads.items()]
        heapq.heapify(heap)
        left = PAIR_MOVES_MAX
        while heap and left:
            key, pair = heapq.heappop(heap)
            if key != _negated(loads[pair]):
                continue
            moved = self._lowered(pair, loads, members)
            if moved is None:
                # Nothing helps the worst one: what is less bad is left as it is.
                return
            left -= 1
            at, after = moved
            before = self._weights(self.partitions[at])
            self._settle(at, after, "the worst pair of directories takes less")
            now = self._weights(after)
            for one in {*before, *now}:
                _add(loads[one], before.get(one, (0, 0, 0)), -1)
                _add(loads[one], now.get(one, (0, 0, 0)), 1)
                (members[one].add if one in now else members[one].discard)(at)
                heapq.heappush(heap, (_negated(loads[one]), one))

    def _lowered(
        self, pair: _Pair, loads: Mapping[_Pair, list[int]], members: Mapping[_Pair, set[int]]
    ) -> tuple[int, PartitionModel] | None:
        """Return the smallest partition that can leave a pair, and where it goes."""
        worst = tuple(loads[pair])
        some = heapq.nsmallest(
            PARTITIONS_TRIED_MAX,
            (at for at in members[pair] if at not in self._why),
            key=lambda at: (_size(self.partitions[at]), at),
        )
        for at in some:
            partition = self.partitions[at]
            if _is_reassigned(partition):
                continue
            before = self._weights(partition)
            best: tuple[tuple[object, ...], PartitionModel] | None = None
            for place in self._places_in(partition, pair):
                for number in self._candidates(partition, place):
                    after = self._moved(partition, place, number)
                    now = self._weights(after)
                    new = [
                        _plus(loads.get(one, (0, 0, 0)), now[one]) for one in now.keys() - before
                    ]
                    highest = max(new, default=(0, 0, 0))
                    if pair in now or highest >= worst:
                        continue
                    own = self._cluster.directories[number].broker == partition.replicas[place]
                    leads = partition.leader == partition.replicas[place]
                    rank = (highest, not own, leads, self._held[number], number)
                    if best is None or rank < best[0]:
                        best = rank, after
            if best is not None:
                return at, best[1]
        return None

    def _candidates(self, partition: PartitionModel, place: int) -> Iterator[int]:
        """Yield where a replica may go: within its broker, or to the emptiest directories."""
        broker = partition.replicas[place]
        own = [one for one in self._cluster.online[broker] if one in self._open_set]
        yield from self._fitting(partition, place, own)
        others = self._fitting(partition, place, self._emptiest())
        yield from islice((one for one in others if one not in own), DIRECTORIES_TRIED_MAX)

    def _emptiest(self) -> Sequence[int]:
        """Return the directories that take replicas, those with few replicas first.

        The order is made anew from time to time, not after each move.
        """
        if self._moved_since_ranked >= DIRECTORIES_TRIED_MAX:
            self._moved_since_ranked = 0
            self._open.sort(key=lambda number: (self._held[number], number))
        return self._open

    def _places_in(self, partition: PartitionModel, pair: _Pair) -> list[int]:
        return [
            place
            for place, held in enumerate(holders(self._cluster, partition))
            if not set(held).isdisjoint(pair)
        ]

    def _put(self, at: int, place: int, why: str, leaving: str | None = None) -> None:
        """Put a replica at a place of a partition into the best directory there is, if any.

        Args:
            at: Number of the partition.
            place: Place of the replica; behind the last one for a new replica.
            why: For the move.
            leaving: The rack into which it shall not go.
        """
        partition = self.partitions[at]
        others = [one for it, one in enumerate(partition.replicas) if it != place]
        racks = self._racks_of(others)
        second = None
        for number in self._fitting(partition, place, self._emptiest()):
            broker = self._cluster.directories[number].broker
            rack = self._rack[broker]
            if broker in partition.replicas or (leaving is not None and rack == leaving):
                continue
            if rack is None or rack not in racks:
                self._settle(at, self._moved(partition, place, number), why)
                return
            second = number if second is None else second
        if second is not None:
            self._settle(at, self._moved(partition, place, second), why)

    def _settle(self, at: int, after: PartitionModel, why: str) -> None:
        before = self.partitions[at]
        for number in after.directories:
            if number not in before.directories:
                self._held[number] += 1
                self._coming[number] += _size(before)
        self._moved_since_ranked += 1
        self.partitions[at] = after
        self._why.setdefault(at, why)

    def _fitting(
        self, partition: PartitionModel, place: int, among: Sequence[int]
    ) -> Iterator[int]:
        """Yield directories into which a replica may go from its place."""
        others = {broker for at, broker in enumerate(partition.replicas) if at != place}
        racks = self._racks_of(partition.replicas)
        for number in among:
            directory = self._cluster.directories[number]
            if directory.broker in others or number in partition.directories:
                continue
            if directory.broker in partition.replicas and directory.broker in self._broken:
                continue
            if len(self._racks_of([*others, directory.broker])) < len(racks):
                continue
            room = directory.usable_bytes
            if room is None or self._coming[number] + _size(partition) <= room * ROOM_SHARE:
                yield number

    def _racks_of(self, brokers: Sequence[int]) -> set[str | None]:
        return {self._rack[broker] for broker in brokers if broker in self._rack}

    def _risk(self, partition: PartitionModel) -> _Weight:
        """Return the worst that the loss of one replica does to a partition."""
        kind = self._cluster.kind(partition)
        found = [
            self._effects.of(kind, (place,)) for place, alive in enumerate(partition.alive) if alive
        ]
        return max(map(_weight, found), default=(0, 0, 0))

    def _weights(self, partition: PartitionModel) -> dict[_Pair, _Weight]:
        """Return what a partition adds to each pair that has two of its replicas."""
        found: dict[_Pair, _Weight] = {}
        kind = self._cluster.kind(partition)
        held = holders(self._cluster, partition)
        for one, other in combinations(range(len(held)), 2):
            if not held[one] or not held[other]:
                continue
            both = self._effects.of(kind, (one, other))
            weight = _weight(both)
            if any(weight):
                for first in held[one]:
                    for second in held[other]:
                        found[min(first, second), max(first, second)] = weight
        return found

    def _moved(self, partition: PartitionModel, place: int, number: int) -> PartitionModel:
        """Return a partition once the copy of a replica in another directory is in sync."""
        broker = self._cluster.directories[number].broker
        replicas, directories = list(partition.replicas), list(partition.directories)
        alive, sizes = list(partition.alive), list(partition.sizes)
        former = replicas[place] if place < len(replicas) else None
        replicas[place : place + 1] = [broker]
        directories[place : place + 1] = [number]
        alive[place : place + 1] = [True]
        if sizes:
            sizes[place : place + 1] = [_size(partition)]
        isr = tuple(one for one in partition.isr if one != former)
        return PartitionModel(
            topic=partition.topic,
            index=partition.index,
            replicas=tuple(replicas),
            leader=broker if partition.leader == former else partition.leader,
            isr=tuple(one for one in replicas if one in isr or one == broker),
            directories=tuple(directories),
            alive=tuple(alive),
            sizes=tuple(sizes),
        )


def _size(partition: PartitionModel) -> int:
    return max(partition.sizes, default=0)


def _is_reassigned(partition: PartitionModel) -> bool:
    return bool(partition.adding or partition.removing)


def _last_follower(partition: PartitionModel) -> int:
    followers = [at for at, one in enumerate(partition.replicas) if one != partition.leader]
    return followers[-1]


def _weight(found: Effect) -> _Weight:
    return int(found.last_copy), int(found.leaderless), int(found.below_min_isr)


def _add(load: list[int], weight: _Weight, sign: int) -> None:
    for at, value in enumerate(weight):
        load[at] += sign * value


def _plus(load: Sequence[int], weight: _Weight) -> _Weight:
    a, b, c = (one + other for one, other in zip(load, weight, strict=True))
    return a, b, c


def _negated(load: Sequence[int]) -> _Weight:
    a, b, c = (-value for value in load)
    return a, b, c
