"""Uniform assignor: as many partitions for each member as the subscriptions allow, few changes.

Three steps. Every member keeps what it was to have and may still have. The other partitions are
drafted: the member with the fewest partitions takes the next one, from its own rack if it can, and
first from topics that few others want. Then, as long as a member has at least two more than another
that could take one over, the one with most gives one to the one with fewest.

With equal subscriptions the numbers differ by one at most, and no more partitions change hands than
that needs. Members with equal subscriptions form a *party*; partitions that the same parties want
and that have replicas in the same racks form a *kind* and are as good as one another, so the steps
look at kinds, of which there are few, and not at partitions.

Source: KIP-848, "uniform". The result for unequal subscriptions is not that of Apache Kafka.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from broker.groups.consumer.assignors.question import Question, Subscriber
from broker.groups.consumer.group import Target
from jbodlab.vocabulary.ids import TopicId, TopicIdPartition


class _Kind(NamedTuple):
    parties: tuple[int, ...]
    racks: tuple[str, ...]


def assign_uniformly(question: Question) -> Mapping[str, Target]:
    """Return what each member shall have; every member is named."""
    draft = _Draft(question)
    draft.keep_previous()
    draft.hand_out()
    draft.even_out()
    return draft.result()


class _Draft:
    """Shares in the making; members are numbered in the order of their ids."""

    def __init__(self, question: Question) -> None:
        self._members: list[Subscriber] = sorted(
            question.subscribers, key=lambda each: each.member_id
        )
        self._party_of: list[int] = []
        numbers: dict[frozenset[TopicId], int] = {}
        for member in self._members:
            self._party_of.append(numbers.setdefault(member.topics, len(numbers)))
        wanted_by: dict[TopicId, list[int]] = defaultdict(list)
        for topics, party in numbers.items():
            for topic_id in topics:
                wanted_by[topic_id].append(party)
        self._kind_of: dict[TopicIdPartition, _Kind] = {}
        self._left: dict[_Kind, list[TopicIdPartition]] = defaultdict(list)
        for topic_id in sorted(wanted_by, reverse=True):
            parties = tuple(wanted_by[topic_id])
            topic = question.topics[topic_id]
            for partition in reversed(topic.partitions()):
                kind = _Kind(parties, tuple(sorted(topic.racks[partition.partition])))
                self._kind_of[partition] = kind
                self._left[kind].append(partition)
        self._kinds_of_party = self._scarce_first(len(numbers))
        self._loads = [0] * len(self._members)
        self._shares: list[dict[_Kind, list[TopicIdPartition]]] = [
            defaultdict(list) for _ in self._members
        ]
        self._lightest: list[list[tuple[int, int]]] = [[] for _ in numbers]

    def _scarce_first(self, party_count: int) -> list[list[_Kind]]:
        sizes = [0] * party_count
        for party in self._party_of:
            sizes[party] += 1
        kinds: list[list[_Kind]] = [[] for _ in range(party_count)]
        for kind in sorted(self._left, key=lambda k: (sum(sizes[p] for p in k.parties), k)):
            for party in kind.parties:
                kinds[party].append(kind)
        return kinds

    def keep_previous(self) -> None:
        """Let every member keep what it was to have, as far as it still wants it."""
        taken: set[TopicIdPartition] = set()
        for number, member in enumerate(self._members):
            for partition in sorted(member.previous, reverse=True):
                kind = self._kind_of.get(partition)
                if kind is None or self._party_of[number] not in kind.parties:
                    continue
                if partition not in taken:
                    taken.add(partition)
                    self._give(number, kind, partition)
        if taken:
            for kind, partitions in self._left.items():
                self._left[kind] = [each for each in partitions if each not in taken]

    def hand_out(self) -> None:
        """Give out what nobody has, one at a time, to whoever has the fewest."""
        heap = [(load, number) for number, load in enumerate(self._loads)]
        heapq.heapify(heap)
        while heap:
            _, number = heap[0]
            kind = self._next_kind(number)
            if kind is None:
                heapq.heappop(heap)
                continue
            self._give(number, kind, self._left[kind].pop())
            heapq.heapreplace(heap, (self._loads[number], number))

    def _next_kind(self, number: int) -> _Kind | None:
        rack = self._members[number].rack
        first = None
        for kind in self._kinds_of_party[self._party_of[number]]:
            if not self._left[kind]:
                continue
            if rack is None or rack in kind.racks:
                return kind
            first = first or kind
        return first

    def even_out(self) -> None:
        """Move single partitions from those with most to those with fewest, until it is even."""
        for number, load in enumerate(self._loads):
            self._note(number, load)
        moved = True
        while moved:
            moved = False
            heap = [(-load, number) for number, load in enumerate(self._loads)]
            heapq.heapify(heap)
            while heap:
                load, giver = heapq.heappop(heap)
                if -load != self._loads[giver]:
                    continue
                move = self._best_move(giver)
                if move is None:
                    continue
                kind, taker = move
                self._loads[giver] -= 1
                self._give(taker, kind, self._shares[giver][kind].pop())
                for number in (giver, taker):
                    self._note(number, self._loads[number])
                    heapq.heappush(heap, (-self._loads[number], number))
                moved = True

    def _best_move(self, giver: int) -> tuple[_Kind, int] | None:
        best: tuple[tuple[int, int, _Kind], int] | None = None
        for kind, partitions in self._shares[giver].items():
            if not partitions:
                continue
            taker = self._lightest_of(kind)
            load = self._loads[taker]
            if load + 1 >= self._loads[giver]:
                continue
            nearness = self._is_near(giver, kind) - self._is_near(taker, kind)
            rank = (load, nearness, kind)
            if best is None or rank < best[0]:
                best = rank, taker
        return None if best is None else (best[0][2], best[1])

    def _is_near(self, number: int, kind: _Kind) -> int:
        return int(self._members[number].rack in kind.racks)

    def _lightest_of(self, kind: _Kind) -> int:
        def lightest(party: int) -> tuple[int, int]:
            heap = self._lightest[party]
            while heap[0][0] != self._loads[heap[0][1]]:
                heapq.heappop(heap)
            return heap[0]

        return min(map(lightest, kind.parties))[1]

    def _note(self, number: int, load: int) -> None:
        heapq.heappush(self._lightest[self._party_of[number]], (load, number))

    def _give(self, number: int, kind: _Kind, partition: TopicIdPartition) -> None:
        self._shares[number][kind].append(partition)
        self._loads[number] += 1

    def result(self) -> Mapping[str, Target]:
        """Return the shares by member id."""
        return {
            member.member_id: frozenset(_joined(share))
            for member, share in zip(self._members, self._shares, strict=True)
        }


def _joined(share: Mapping[_Kind, list[TopicIdPartition]]) -> Iterator[TopicIdPartition]:
    for partitions in share.values():
        yield from partitions
