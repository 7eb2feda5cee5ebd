"""The fields of partition events by columns, behind those of the states that they change."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analytics.rare.states import LISTS, States
from analytics.read.arrays import Bools, Column
from analytics.read.lists import Codes, Ragged, concatenated, intern, ragged
from analytics.read.partition_events import PartitionEvents
from analytics.read.record_columns import DecodedColumns, Lists, Values, decode_columns
from jbodlab.metadata.records.schema import Record
from jbodlab.metadata.records.topic_records import (
    NO_LEADER_CHANGE,
    NO_RECOVERY_STATE_CHANGE,
    PartitionChangeRecord,
    PartitionRecord,
)

_FRAME_BYTES = 3
_ONE_BYTE = 0x7F
_CLASSES: dict[int, type[Record]] = {
    record.API_KEY: record for record in (PartitionRecord, PartitionChangeRecord)
}
_NO_CHANGE = {"leader": NO_LEADER_CHANGE, "leader_recovery_state": NO_RECOVERY_STATE_CHANGE}
_EPOCHS = ("leader_epoch", "partition_epoch")
_FIELDS = {"elr": "eligible_leader_replicas"}
"""Columns whose field in the records has another name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventColumns:
    """Rows of states, and behind them rows of events.

    Attributes:
        plain: Events that cannot be read by columns.
        whole: Rows that give every field: states, and PartitionRecords.
        version: Schema version of the record; of a state, 255.
        numbers: Fields of one number.
        present: For each field, which rows give it.
        distinct: The distinct lists of a field.
        list_codes: Which of them a row gives; meaningless where the field is not present.
    """

    plain: Bools
    whole: Bools
    version: Column
    numbers: dict[str, Column]
    present: dict[str, Bools]
    distinct: dict[str, Ragged]
    list_codes: dict[str, Codes]


def read_events(before: States, events: PartitionEvents) -> EventColumns:
    """Read the fields of events.

    Args:
        before: States; they become the first rows.
        events: Records of the two types about partitions.
    """
    reader = _Reader(before, events)
    reader.read()
    return reader.columns()


class _Reader:
    """Fills rows, one type and version of records after the other."""

    def __init__(self, before: States, events: PartitionEvents) -> None:
        self.events = events
        self.carried = len(before)
        size = self.carried + len(events)
        self.plain: Bools = np.zeros(size, dtype=np.bool_)
        self.whole: Bools = np.arange(size) < self.carried
        self.version = np.full(size, 255, dtype=np.uint8)
        self.numbers: dict[str, Column] = {}
        self.present: dict[str, Bools] = {}
        for name in (*_NO_CHANGE, *_EPOCHS):
            self.numbers[name] = np.zeros(size, dtype=np.int32)
            self.numbers[name][: self.carried] = before[name]
        for name in (*_NO_CHANGE, *LISTS):
            self.present[name] = self.whole.copy()
        self.pools = {name: [before.distinct(name)] for name in LISTS}
        self.pool_rows: dict[str, list[Column]] = {name: [] for name in LISTS}
        self.before = before

    def read(self) -> None:
        events = self.events
        if not len(events):
            return
        heads = [events.data.take(events.starts + i, mode="clip") for i in range(_FRAME_BYTES)]
        shape = heads[1].astype(np.int32) << 8 | heads[2]
        short = events.ends - events.starts < _FRAME_BYTES
        shape[short | (heads[0] != 1) | (heads[2] > _ONE_BYTE)] = -1
        self.version[self.carried :] = heads[2]
        for value in np.unique(shape).tolist():
            rows = np.nonzero(shape == value)[0]
            record_class = _CLASSES.get(value >> 8)
            if record_class is None:
                self.plain[self.carried + rows] = True
                continue
            starts = events.starts[rows] + _FRAME_BYTES
            decoded = decode_columns(
                record_class, value & 0xFF, events.data, starts, events.ends[rows]
            )
            self.plain[self.carried + rows] = decoded.plain
            self._take(decoded, self.carried + rows, record_class is PartitionChangeRecord)

    def _take(self, decoded: DecodedColumns, rows: Column, is_change: bool) -> None:
        every = np.ones(len(rows), dtype=np.bool_)
        self.whole[rows] = not is_change
        for name, no_change in _NO_CHANGE.items():
            values = _values(decoded, name)
            self.numbers[name][rows] = values
            self.present[name][rows] = values != no_change if is_change else every
        if not is_change:
            for name in _EPOCHS:
                self.numbers[name][rows] = _values(decoded, name)
        for name in LISTS:
            found = decoded.fields[_FIELDS.get(name, name)]
            assert isinstance(found, Lists)
            # In a change an absent list stays; in a whole state it is empty.
            present = found.present if is_change else every
            self.present[name][rows] = present
            if present.all():
                pool = ragged(found.offsets, found.values)
            else:
                # Absent lists have no elements: the others' offsets are right as they are.
                offsets = np.append(found.offsets[:-1][present], found.offsets[-1])
                pool = ragged(offsets, found.values)
            self.pools[name].append(pool)
            self.pool_rows[name].append(rows[present])

    def columns(self) -> EventColumns:
        distinct, list_codes = {}, {}
        for name in LISTS:
            found = intern(concatenated(self.pools[name]))
            codes = np.zeros(len(self.plain), dtype=np.int32)
            end = len(self.pools[name][0].offsets) - 1
            codes[: self.carried] = found.codes[:end][self.before.codes(name)]
            for rows in self.pool_rows[name]:
                codes[rows] = found.codes[end : end + len(rows)]
                end += len(rows)
            distinct[name], list_codes[name] = found.distinct, codes
        return EventColumns(
            plain=self.plain,
            whole=self.whole,
            version=self.version,
            numbers=self.numbers,
            present=self.present,
            distinct=distinct,
            list_codes=list_codes,
        )


def _values(decoded: DecodedColumns, name: str) -> Column:
    found = decoded.fields[name]
    assert isinstance(found, Values)
    return found.values
