"""The state of a shard that has records: what is written, and what of it is committed.

A row is named by its kind, its group, and what else there is; its value is a frozen one. Changes
go to `written` when their records are appended, and to `committed` when the high watermark passes
them. Decisions read the one, answers to readers the other. There is no way back from written:
records that were appended vanish with the replica only, and then the shard vanishes, too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, KeysView, Mapping, Sequence
from enum import IntEnum
from itertools import chain
from types import MappingProxyType
from typing import Any, NamedTuple

from jbodlab.vocabulary.large_dict import LargeDict


class Row(IntEnum):
    """Kinds of rows; the numbers are those of the record types, where there is one."""

    OFFSET = 1
    """Rest: topic, partition. Value: `replay.StoredOffset`."""
    CLASSIC = 2
    """A classic group. Value: `GroupMetadataValue`, as are the following those of their records."""
    EPOCH = 3
    """A group of KIP-848, and so EPOCH is what says that a group is one."""
    MEMBER = 5
    """Rest: member id."""
    TARGET_EPOCH = 6
    TARGET = 7
    """Rest: member id."""
    CURRENT = 8
    """Rest: member id."""
    REGEX = 16
    """Rest: regular expression."""
    PENDING = 100
    """An offset of a transaction that is open. Rest: topic, partition, producer id."""


CONSUMER_ROWS = (Row.EPOCH, Row.MEMBER, Row.TARGET_EPOCH, Row.TARGET, Row.CURRENT, Row.REGEX)


class RowKey(NamedTuple):
    """Names a row."""

    row: Row
    group: str
    rest: tuple[Hashable, ...] = ()


class RowChange(NamedTuple):
    """A row has a new value; None takes it away."""

    key: RowKey
    value: Any


Observer = Callable[[RowKey, Any, Any], None]
"""Told of the old and the new value of a row, to keep an index that is derived from the rows."""

_NO_ROWS: Mapping[Any, Any] = MappingProxyType({})


class Table:
    """Rows by kind and group; those of a group, and few groups, are in the order they came in."""

    def __init__(self) -> None:
        self._kinds: dict[Row, LargeDict[str, dict[tuple[Hashable, ...], Any]]] = {
            row: LargeDict() for row in Row
        }
        self.observers: list[Observer] = []

    def get(self, row: Row, group: str, *rest: Hashable) -> Any:
        """Return the value of a row; None if there is none."""
        rows = self._kinds[row].get(group)
        return None if rows is None else rows.get(rest)

    def rows(self, row: Row, group: str) -> Mapping[tuple[Any, ...], Any]:
        """Return the rows of a kind that a group has, under the rest of their keys."""
        return self._kinds[row].get(group, _NO_ROWS)

    def groups(self, row: Row) -> KeysView[str]:
        """Return the groups that have a row of a kind."""
        return self._kinds[row].keys()

    def parts(self, row: Row) -> int:
        """Return in how many parts the groups with a row of a kind are; few are in one."""
        return len(self._kinds[row].parts)

    def groups_of_part(self, row: Row, number: int) -> tuple[str, ...]:
        """Return the groups of a part; none of one that there is no longer."""
        return tuple(chain(*self._kinds[row].parts[number : number + 1]))

    def apply(self, changes: Iterable[RowChange]) -> None:
        """Change rows."""
        for key, value in changes:
            groups = self._kinds[key.row]
            rows = groups.get(key.group)
            if rows is None:
                if value is None:
                    continue
                rows = groups[key.group] = {}
            old = rows.get(key.rest)
            if value is not None:
                rows[key.rest] = value
            elif old is not None:
                del rows[key.rest]
                if not rows:
                    del groups[key.group]
            if old is None and value is None:
                continue
            for observer in self.observers:
                observer(key, old, value)

    def __eq__(self, other: object) -> bool:
        """Compare all rows."""
        return isinstance(other, Table) and self._kinds == other._kinds

    __hash__ = None  # type: ignore[assignment]


class Tables:
    """All written rows, and how much of them is committed."""

    def __init__(self) -> None:
        self.written = Table()
        self.committed = Table()
        self._pending: deque[tuple[int, Sequence[RowChange]]] = deque()
        self._loaded_to = 0

    def loaded(self) -> None:
        """Hear that all that has been written so far was read at the load."""
        self._loaded_to = self._pending[-1][0] if self._pending else 0

    @property
    def is_behind_load(self) -> bool:
        """Whether something is not committed yet that was read at the load.

        The former leader may have acknowledged it.
        """
        return bool(self._pending) and self._pending[0][0] <= self._loaded_to

    def write(self, end_offset: int, changes: Sequence[RowChange]) -> None:
        """Take changes of records that were appended, or read at the load.

        Args:
            end_offset: Offset behind the last of the records.
            changes: Changes by the records.
        """
        assert not self._pending or self._pending[-1][0] <= end_offset
        self.written.apply(changes)
        if changes:
            self._pending.append((end_offset, changes))

    def committed_up_to(self, offset: int) -> None:
        """Take the changes into the committed table whose records end at an offset or before."""
        while self._pending and self._pending[0][0] <= offset:
            self.committed.apply(self._pending.popleft()[1])
