"""What a step has found, as rows of tables in Arrow."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped] # it comes without types

from analytics.rare import isr_changes as isr
from analytics.rare import leadership as leaders
from analytics.rare import placement as places
from analytics.rare import shortages as short
from analytics.rare.bucket import Open, Produced
from analytics.rare.intervals import Intervals
from analytics.rare.isr_changes import IsrChanges
from analytics.rare.states import STILL, TYPES, States, Topics
from analytics.read.arrays import Bools, Column
from analytics.read.arrow_columns import (
    id_lists,
    id_texts,
    ids,
    int_lists,
    ints,
    longs,
    times,
    words,
)
from analytics.tables import catalog as t
from analytics.tables.table import Table

Rows = dict[Table, pa.Table]

_INTS = ("leader", "leader_epoch", "partition_epoch", "leader_recovery_state")
_LISTS = {
    "replicas": "replicas",
    "isr": "isr",
    "removing_replicas": "removing_replicas",
    "adding_replicas": "adding_replicas",
    "eligible_leader_replicas": "elr",
    "last_known_elr": "last_known_elr",
}


class RowMaker:
    """Makes rows; it keeps the texts of the topics."""

    def __init__(self, topics: Topics) -> None:
        self.topics = topics
        self.names: list[str] = []
        self.texts: list[str] = []

    def ended(self, found: Produced) -> Rows:
        """Return the rows of everything that has ended, and of changes."""
        states = found.states
        rows: Rows = {
            t.PARTITION_HISTORY: self.states(
                states.take(states["to_offset"] != STILL), t.PARTITION_HISTORY
            ),
            t.LEADERSHIP: self.leadership(found.leadership),
            t.REPLICA_PLACEMENT: self.placement(found.placement),
            t.OUTAGES: self.outages(found.shortages),
        }
        if found.isr is not None:
            rows[t.ISR_CHANGES] = self.isr_changes(states, found.isr)
        return rows

    def still(self, opened: Open) -> Rows:
        """Return the rows of what still holds."""
        rows: Rows = {
            t.PARTITION_HISTORY: self.states(opened.states, t.PARTITION_HISTORY),
            t.PARTITIONS: self.states(opened.states, t.PARTITIONS),
        }
        for table, intervals, make in (
            (t.LEADERSHIP, opened.leadership, self.leadership),
            (t.REPLICA_PLACEMENT, opened.placement, self.placement),
            (t.OUTAGES, opened.shortages, self.outages),
        ):
            if intervals is not None:
                rows[table] = make(intervals)
        return rows

    def states(self, states: States, table: Table) -> pa.Table:
        """Return states as rows of the history, or of the current partitions."""
        columns = self._topic(states["topic"]) | {"partition": ints(states["partition"])}
        columns |= {name: ints(states[name]) for name in _INTS}
        columns |= {name: int_lists(states.lists[source]) for name, source in _LISTS.items()}
        columns["directories"] = id_lists(states.lists["directories"])
        columns |= _valid_from(states.numbers)
        columns |= _valid_to(states.numbers)
        return _table(columns, table)

    def leadership(self, found: Intervals) -> pa.Table:
        """Return intervals of leaders."""
        columns = self._interval(found) | {
            "leader": ints(found["leader"]),
            "leader_epoch": ints(found["leader_epoch"]),
            "duration_ms": longs(*found.duration_ms()),
            "cause": words(found["cause"].astype(np.int32), leaders.CAUSES),
            "previous_leader": ints(found["previous_leader"]),
        }
        return _table(columns | _lost(found.columns), t.LEADERSHIP)

    def placement(self, found: Intervals) -> pa.Table:
        """Return intervals of replicas in directories."""
        columns = self._interval(found) | {
            "broker": ints(found["broker"]),
            "directory": ids(found["directory"]),
            "ended_by": words(_but_first(found["ended"]), places.ENDS),
        }
        return _table(columns, t.REPLICA_PLACEMENT)

    def outages(self, found: Intervals) -> pa.Table:
        """Return intervals of shortages."""
        still = found.is_open
        columns = self._topic(found["topic"]) | {
            "partition": ints(found["partition"]),
            "kind": words(found["kind"].astype(np.int32), short.KINDS),
            "from_offset": longs(found["from_offset"]),
            "from_time": times(found["from_time"]),
            "to_offset": longs(found["to_offset"], still),
            "to_time": times(found["to_time"], still),
            "duration_ms": longs(*found.duration_ms()),
            "cause": words(found["cause"].astype(np.int32), short.CAUSES),
        }
        return _table(columns | _lost(found.columns), t.OUTAGES)

    def isr_changes(self, states: States, found: IsrChanges) -> pa.Table:
        """Return changes of the replicas in sync."""
        at = {name: states[name][found.row] for name in ("topic", "partition", *_INTS)}
        moment = {
            name: states[name][found.row]
            for name in ("from_offset", "from_time", "from_type", "base")
        }
        since = _valid_from(moment)
        columns = self._topic(at["topic"]) | {
            "partition": ints(at["partition"]),
            "offset": since["valid_from_offset"],
            "time": since["valid_from_time"],
            "record_type": since["record_type"],
            "batch_base_offset": since["batch_base_offset"],
            "change": words(found.change.astype(np.int32), isr.CHANGES),
            "isr": int_lists(found.isr),
            "previous_isr": int_lists(found.previous_isr),
            "joined": int_lists(found.joined),
            "left": int_lists(found.left),
            "leader_epoch": ints(at["leader_epoch"]),
            "partition_epoch": ints(at["partition_epoch"]),
            "cause": words(found.cause.astype(np.int32), isr.CAUSES),
        }
        lost = {"broker": found.broker, "directory": found.directory}
        return _table(columns | _lost(lost), t.ISR_CHANGES)

    def _interval(self, found: Intervals) -> dict[str, pa.Array]:
        return (
            self._topic(found["topic"])
            | {"partition": ints(found["partition"])}
            | _valid_from(found.columns)
            | _valid_to(found.columns)
        )

    def _topic(self, numbers: Column) -> dict[str, pa.Array]:
        for topic in self.topics.all[len(self.names) :]:
            self.names.append(topic.name)
            self.texts += id_texts(np.frombuffer(topic.topic_id, dtype=np.uint8).reshape(1, 16))
        return {"topic": words(numbers, self.names), "topic_id": words(numbers, self.texts)}


def _valid_from(columns: Mapping[str, Column]) -> dict[str, pa.Array]:
    return {
        "valid_from_offset": longs(columns["from_offset"]),
        "valid_from_time": times(columns["from_time"]),
        "record_type": words(columns["from_type"].astype(np.int32), TYPES),
        "batch_base_offset": longs(columns["base"]),
    }


def _valid_to(columns: Mapping[str, Column]) -> dict[str, pa.Array]:
    still = columns["to_offset"] == STILL
    return {
        "valid_to_offset": longs(columns["to_offset"], still),
        "valid_to_time": times(columns["to_time"], still),
    }


def _lost(columns: Mapping[str, Column]) -> dict[str, pa.Array]:
    directory = columns["directory"]
    known: Bools = np.any(directory, axis=1)
    return {
        "broker": ints(columns["broker"]),
        "directory": ids(directory, known),
    }


def _but_first(codes: Column) -> Column:
    """Return codes in which the first, which stands for what has not ended, is null."""
    return np.where(codes == 0, -1, codes.astype(np.int32))


def _table(columns: Mapping[str, pa.Array], table: Table) -> pa.Table:
    names = [column.name for column in table.columns]
    return pa.table({name: columns[name] for name in names})
