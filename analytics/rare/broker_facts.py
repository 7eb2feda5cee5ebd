"""What became of brokers, for the question why a replica was lost.

A replica is lost because its log directory went offline, because its broker stopped, was fenced or
removed, or for a reason that the log does not tell. The broker's registration at the end of the
batch decides: the controller writes what a failure does to partitions before the record of the
failure, in its batch. Where that batch is full, the record stands in a later one; and a replica
that stops to fetch may fall out of the ISR before its broker's session ends. So where the
registration says nothing yet, what it says within `LOSS_WINDOW_MS` counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

import numpy as np

from analytics.read.arrays import Bools, Column, Longs, groups
from analytics.read.lists import combinations
from analytics.read.partition_events import NO_TIME
from jbodlab.vocabulary import directory_id as directory_ids
from jbodlab.vocabulary.ids import DirectoryId

LOSS_WINDOW_MS = 30_000
"""How long after a replica left its broker's fate still explains that: Kafka's default of
`replica.lag.time.max.ms`, more than three sessions of a broker."""
_US_PER_MS = 1000

DIRECTORY, CONTROLLED_SHUTDOWN, FENCED, UNREGISTERED, UNKNOWN = range(5)


class BrokerState(NamedTuple):
    """A registration, and the offsets from which and until which (exclusive) it held."""

    broker: int
    from_offset: int
    to_offset: int | None
    fenced: bool
    in_controlled_shutdown: bool
    directories: frozenset[bytes]
    from_time: int | None = None
    """Microseconds since 1970."""
    to_time: int | None = None


class _Loss(NamedTuple):
    """What took a replica away, and when, in microseconds since 1970."""

    why: int
    time: int


@dataclass(frozen=True, slots=True)
class _Timeline:
    """One broker's registrations: where they begin and end, and their indices."""

    begins: Longs
    ends: Longs
    numbers: Longs


class BrokerFacts:
    """All registrations of all brokers; their number does not grow with what partitions do."""

    def __init__(self, states: Sequence[BrokerState]) -> None:
        self.states = sorted(states)
        self.fenced: Bools = np.array([s.fenced for s in self.states], dtype=np.bool_)
        self.stopping: Bools = np.array(
            [s.in_controlled_shutdown for s in self.states], dtype=np.bool_
        )
        self._timelines: dict[int, _Timeline] = {}
        numbers: dict[int, list[int]] = {}
        for number, state in enumerate(self.states):
            numbers.setdefault(state.broker, []).append(number)
        for broker, own in numbers.items():
            begins = np.array([self.states[n].from_offset for n in own], dtype=np.int64)
            ends = [self.states[n].to_offset for n in own]
            for_ever = np.iinfo(np.int64).max
            self._timelines[broker] = _Timeline(
                begins,
                np.array([for_ever if end is None else end for end in ends], dtype=np.int64),
                np.array(own, dtype=np.int64),
            )

    def find(self, broker: Column, at: Longs) -> Longs:
        """Return the index of the registration of each broker that held at an offset, or -1."""
        found = np.full(len(broker), -1, dtype=np.int64)
        for rows in groups(broker):
            timeline = self._timelines.get(int(broker[rows[0]]))
            if timeline is None:
                continue
            place = np.searchsorted(timeline.begins, at[rows], side="right") - 1
            known = place >= 0
            known[known] = timeline.ends[place[known]] > at[rows[known]]
            found[rows[known]] = timeline.numbers[place[known]]
        return found

    def losses(
        self,
        broker: Column,
        directory: Column,
        at: Longs,
        time: Longs,
        may_follow: Bools | None = None,
    ) -> Column:
        """Return why the replicas of some brokers were lost.

        Args:
            broker: The brokers.
            directory: Shape (n, 16): the directories of the replicas there.
            at: Last offset of the batch in which the replica was lost.
            time: Of that batch, microseconds since 1970 or NO_TIME.
            may_follow: Which losses a later record may explain; None = all of them.

        Returns:
            DIRECTORY, CONTROLLED_SHUTDOWN, FENCED, UNREGISTERED or UNKNOWN.
        """
        state = self.find(broker, at)
        why = np.full(len(broker), UNKNOWN, dtype=np.uint8)
        why[state < 0] = UNREGISTERED
        known = np.nonzero(state >= 0)[0]
        number = state[known]
        found = np.where(self.fenced[number], FENCED, UNKNOWN).astype(np.uint8)
        found[self.stopping[number]] = CONTROLLED_SHUTDOWN
        why[known] = found
        active = known[found == UNKNOWN]
        if len(active):
            halves = np.ascontiguousarray(directory[active]).view(np.int32).reshape(-1, 4)
            pairs = combinations(state[active], *halves.T)
            rows = active[pairs.rows]
            offline = [
                self._is_offline(number, UUID(bytes=raw.tobytes()))
                for number, raw in zip(state[rows].tolist(), directory[rows], strict=True)
            ]
            is_offline = np.array(offline, dtype=np.bool_)[pairs.codes]
            why[active[is_offline]] = DIRECTORY
        unexplained = (why == UNKNOWN) & (time != NO_TIME)
        if may_follow is not None:
            unexplained &= may_follow
        rows = np.nonzero(unexplained)[0]
        if len(rows):
            why[rows] = self._soon_after(state[rows], directory[rows], time[rows])
        return why

    def _soon_after(self, state: Longs, directory: Column, time: Longs) -> Column:
        """Return why replicas were lost that were in use still when they left."""
        halves = np.ascontiguousarray(directory).view(np.int32).reshape(-1, 4)
        pairs = combinations(state, *halves.T)
        next_losses = [
            self._next_loss(number, UUID(bytes=raw.tobytes()))
            for number, raw in zip(state[pairs.rows].tolist(), directory[pairs.rows], strict=True)
        ]
        found = np.array([UNKNOWN if one is None else one.why for one in next_losses])[pairs.codes]
        lost_us = np.array([0 if one is None else one.time for one in next_losses])[pairs.codes]
        window_us = LOSS_WINDOW_MS * _US_PER_MS
        return np.where(lost_us - time <= window_us, found, UNKNOWN).astype(np.uint8)

    def _next_loss(self, number: int, directory: UUID) -> _Loss | None:
        """Return what took a replica away first, after a registration in which it was in use."""
        before = self.states[number]
        own = self._timelines[before.broker].numbers
        for later in range(number + 1, int(own[-1]) + 1):
            state = self.states[later]
            is_gap = before.to_offset is not None and before.to_offset < state.from_offset
            if is_gap:
                break
            why = self._why_lost(later, directory)
            if why is not None:
                return None if state.from_time is None else _Loss(why, state.from_time)
            before = state
        if before.to_offset is None or before.to_time is None:
            return None
        return _Loss(UNREGISTERED, before.to_time)

    def _why_lost(self, number: int, directory: UUID) -> int | None:
        if self.stopping[number]:
            return CONTROLLED_SHUTDOWN
        if self.fenced[number]:
            return FENCED
        return DIRECTORY if self._is_offline(number, directory) else None

    def _is_offline(self, number: int, directory: UUID) -> bool:
        registered = self.states[number].directories
        return not directory_ids.is_online(
            DirectoryId(directory), [DirectoryId(UUID(bytes=raw)) for raw in registered]
        )
