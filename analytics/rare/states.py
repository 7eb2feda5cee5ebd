"""States of partitions by columns.

A row is one state of one partition with the moment from which and until which it holds. Rows are in
the order of topic (by name, then id), partition and moment, so that a state's predecessor is the
row above it, if that is of the same partition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from analytics.read.arrays import Bools, Column, Longs
from analytics.read.lists import (
    ID_BYTES,
    Codes,
    Interned,
    Ragged,
    combinations,
    intern,
    merged,
)
from analytics.tables.table import SNAPSHOT_TYPE
from jbodlab.metadata.records.topic_records import (
    ClearElrRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
)

NUMBERS: Mapping[str, type[np.generic]] = {
    "topic": np.int32,
    "partition": np.int32,
    "leader": np.int32,
    "leader_epoch": np.int32,
    "partition_epoch": np.int32,
    "leader_recovery_state": np.int32,
    "from_offset": np.int64,
    "from_time": np.int64,
    "from_type": np.uint8,
    "base": np.int64,
    "last": np.int64,
    "to_offset": np.int64,
    "to_time": np.int64,
    "ended": np.uint8,
    "old": np.bool_,
}
"""Columns of one number per row.

`topic` is an index into `Topics`; `from_type` an index into `TYPES`; `base` and `last` are the
first and last offset of the batch that made the state; `to_offset` is STILL while it holds, `ended`
an index into `ENDS`; `old` are states that an earlier step has returned already as still holding.
"""

INT_LISTS = ("replicas", "isr", "removing_replicas", "adding_replicas", "elr", "last_known_elr")
LISTS = (*INT_LISTS, "directories")

TYPES = (
    PartitionRecord.NAME,
    PartitionChangeRecord.NAME,
    ClearElrRecord.NAME,
    SNAPSHOT_TYPE,
    RemoveTopicRecord.NAME,
)
"""Record types of the moment from which a state holds."""
FROM_PARTITION, FROM_CHANGE, FROM_CLEAR_ELR, FROM_SNAPSHOT, _ = range(len(TYPES))

STILL = -1
ENDS = ("still", "changed", "deleted", "snapshot")
"""How a state ended: not yet, by the next one, with its topic, because a snapshot lacks it."""
ENDS_STILL, ENDS_CHANGED, ENDS_DELETED, ENDS_SNAPSHOT = range(len(ENDS))


class Topic(NamedTuple):
    """A topic's identity; names that come back get another id."""

    name: str
    topic_id: bytes


class Topics:
    """The topics that a task has met, each with its number."""

    def __init__(self) -> None:
        self.all: list[Topic] = []
        self._numbers: dict[Topic, int] = {}

    def number(self, topic: Topic) -> int:
        """Return the number of a topic, a new one if it was not met before."""
        found = self._numbers.get(topic)
        if found is None:
            found = self._numbers[topic] = len(self.all)
            self.all.append(topic)
        return found

    def ranks(self) -> Longs:
        """Return for each number the place of the topic in the order of names and ids."""
        order = sorted(range(len(self.all)), key=self.all.__getitem__)
        ranks = np.zeros(len(order), dtype=np.int64)
        ranks[order] = np.arange(len(order))
        return ranks


@dataclass(frozen=True, slots=True)
class States:
    """Rows of states; see `NUMBERS` and `LISTS` for the columns."""

    numbers: dict[str, Column]
    lists: dict[str, Interned]

    def __len__(self) -> int:
        return len(self.numbers["topic"])

    def __getitem__(self, name: str) -> Column:
        return self.numbers[name]

    def codes(self, name: str) -> Codes:
        """Return which of the distinct lists each row has."""
        return self.lists[name].codes

    def distinct(self, name: str) -> Ragged:
        """Return the distinct lists of a column."""
        return self.lists[name].distinct

    def list_lengths(self, name: str) -> Longs:
        """Return the number of elements of a list in each row."""
        column = self.lists[name]
        return column.distinct.lengths[column.codes]

    def list_of(self, name: str, rows: Column) -> Ragged:
        """Return the lists of some rows."""
        column = self.lists[name]
        return column.distinct.take(column.codes[rows])

    def take(self, rows: Column) -> States:
        """Return some of the rows, given by numbers or as a mask."""
        return States(
            {name: column[rows] for name, column in self.numbers.items()},
            {name: Interned(part.codes[rows], part.distinct) for name, part in self.lists.items()},
        )

    def compacted(self) -> States:
        """Return the same rows without the lists that none of them has."""
        return States(self.numbers, {name: _compact(part) for name, part in self.lists.items()})

    def replaced(self, **numbers: Column) -> States:
        """Return the rows with other numbers in some columns."""
        return States({**self.numbers, **numbers}, self.lists)

    @property
    def first(self) -> Bools:
        """Rows that the row above did not change into: another partition's, or a new life's."""
        topic, partition, ended = self["topic"], self["partition"], self["ended"]
        first = np.ones(len(topic), dtype=np.bool_)
        if len(topic):
            first[1:] = (
                (topic[1:] != topic[:-1])
                | (partition[1:] != partition[:-1])
                | (ended[:-1] != ENDS_CHANGED)
            )
        return first

    @property
    def end(self) -> Longs:
        """Until when each state holds, as far as it is known: `to_offset`, or a very large one."""
        to_offset = self["to_offset"]
        return np.where(to_offset == STILL, np.iinfo(np.int64).max, to_offset)


def no_states() -> States:
    """Return no rows."""
    no_codes = np.zeros(0, dtype=np.int32)
    no_offsets = np.zeros(1, dtype=np.int64)
    numbers: dict[str, Column] = {name: np.zeros(0, dtype=kind) for name, kind in NUMBERS.items()}
    lists = {
        name: Interned(no_codes, Ragged(no_offsets, np.zeros(0, dtype=np.int32)))
        for name in INT_LISTS
    }
    ids = np.zeros((0, ID_BYTES), dtype=np.uint8)
    lists["directories"] = Interned(no_codes, Ragged(no_offsets, ids))
    return States(numbers, lists)


def joined(parts: Sequence[States]) -> States:
    """Return the rows of several, one behind the other."""
    parts = [part for part in parts if len(part)] or list(parts[:1])
    if len(parts) == 1:
        return parts[0]
    return States(
        {name: np.concatenate([part[name] for part in parts]) for name in NUMBERS},
        {name: merged([part.lists[name] for part in parts]) for name in LISTS},
    )


def ordered(states: States, topics: Topics) -> States:
    """Return the rows in their order."""
    key = partition_keys(states["topic"], states["partition"], topics.ranks())
    return states.take(np.lexsort((states["from_offset"], key)))


def partition_keys(topic: Column, partition: Column, ranks: Longs) -> Longs:
    """Return a number per row that is the same for the rows of a partition, in their order."""
    keys: Longs = (ranks[topic] << 32) | (partition.astype(np.int64) & 0xFFFFFFFF)
    return keys


def _compact(part: Interned) -> Interned:
    found = combinations(part.codes)
    distinct = part.distinct.take(part.codes[found.rows])
    again = intern(distinct)  # rows were distinct, so that the codes are 0, 1, 2, ...
    return Interned(again.codes[found.codes], again.distinct)
