"""What became of brokers, for the question why a replica was lost.

A replica is lost because its log directory went offline, because its broker stopped, was fenced or
removed, or for a reason that the log does not tell. The broker's registration at the end of the
batch decides: the controller writes what a failure does to partitions in the batch of the failure,
or in those that follow at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

import numpy as np

from analytics.columns.arrays import Bools, Column, Longs
from analytics.history.lists import combinations
from jbodlab import directory_id as directory_ids
from jbodlab.ids import DirectoryId

DIRECTORY, CONTROLLED_SHUTDOWN, FENCED, UNREGISTERED, UNKNOWN = range(5)


class BrokerState(NamedTuple):
    """A registration, and the offsets from which and until which (exclusive) it held."""

    broker: int
    from_offset: int
    to_offset: int | None
    fenced: bool
    in_controlled_shutdown: bool
    directories: frozenset[bytes]


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
        for value in np.unique(broker).tolist():
            timeline = self._timelines.get(value)
            if timeline is None:
                continue
            rows = np.nonzero(broker == value)[0]
            place = np.searchsorted(timeline.begins, at[rows], side="right") - 1
            known = place >= 0
            known[known] = timeline.ends[place[known]] > at[rows[known]]
            found[rows[known]] = timeline.numbers[place[known]]
        return found

    def losses(self, broker: Column, directory: Column, at: Longs) -> Column:
        """Return why the replicas of some brokers were lost.

        Args:
            broker: The brokers.
            directory: Shape (n, 16): the directories of the replicas there.
            at: Last offset of the batch in which the replica was lost.

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
        return why

    def _is_offline(self, number: int, directory: UUID) -> bool:
        registered = self.states[number].directories
        return not directory_ids.is_online(
            DirectoryId(directory), [DirectoryId(UUID(bytes=raw)) for raw in registered]
        )
