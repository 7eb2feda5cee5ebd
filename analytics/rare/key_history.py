"""State history of one key, folded from its records in offset order.

A key is a topic or a broker. The effect of a record on a state is defined in
`jbodlab.metadata.image`; here states become rows with the moment from which and until which they
hold.

A snapshot that the replay meets on its way is held against the state reached so far. Where they
disagree, the snapshot is what a restarted node would believe: its state is taken over, and the
disagreement becomes a row. The snapshot from which a replay starts has nothing to disagree with.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, Protocol, TypeVar

from analytics.tables.table import SNAPSHOT_TYPE
from jbodlab.metadata.records import frame
from jbodlab.metadata.records.schema import Record
from jbodlab.vocabulary.errors import ReplayError

K = TypeVar("K")
V = TypeVar("V")

Row = dict[str, object]
"""A row of the history: its kind, and the columns below the name of that kind."""


class Event(NamedTuple):
    """One record that concerns a key."""

    key: str
    replay_offset: int
    """Its offset in the log; of a record in a snapshot, the end offset of that."""
    snapshot: bool
    offset: int
    time: int | None
    batch_base_offset: int
    batch_last_offset: int
    file: str
    type: str
    value: bytes

    @property
    def position(self) -> int:
        """Its place in the order of replay, in which a snapshot stands before its end offset."""
        return self.replay_offset * 2 + (not self.snapshot)

    @property
    def record(self) -> Record:
        """The record itself."""
        return frame.decode(self.value).record

    @property
    def version(self) -> int:
        """Schema version of the record."""
        return frame.decode(self.value).version


class Moment(NamedTuple):
    """Since when or until when something holds; the time is microseconds since 1970."""

    offset: int
    time: int | None
    record_type: str
    batch_base_offset: int
    batch_last_offset: int

    @classmethod
    def of(cls, event: Event) -> Moment:
        """Return the moment of a record of the log."""
        return cls(
            event.replay_offset,
            event.time,
            event.type,
            event.batch_base_offset,
            event.batch_last_offset,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Sync:
    """A snapshot that the replay meets."""

    offset: int
    time: int | None
    file: str
    is_base: bool
    """Whether the replay starts from it, and states before it are unknown."""

    @property
    def position(self) -> int:
        """Its place in the order of replay."""
        return self.offset * 2

    @property
    def moment(self) -> Moment:
        """The moment that the snapshot stands for."""
        return Moment(self.offset, self.time, SNAPSHOT_TYPE, self.offset, self.offset)


@dataclass(slots=True)
class History:
    """The rows that folding a key gives."""

    rows: list[Row] = field(default_factory=list)

    def add(self, kind: str, columns: Row) -> None:
        """Add a row."""
        self.rows.append({"kind": kind, kind: columns})

    def problem(self, file: str, offset: int, kind: str, message: str) -> None:
        """Add the row of a problem."""
        columns: Row = {"file": file, "offset": offset, "kind": kind, "message": message}
        self.add("problem", columns)


class Held(Generic[K, V]):
    """Values by key, each since a moment; one that ends, or that still holds, becomes a row.

    Args:
        history: Gets the rows.
        kind: Their kind.
        columns: The columns of a key and its value.
    """

    def __init__(self, history: History, kind: str, columns: Callable[[K, V], Row]) -> None:
        self.history = history
        self.kind = kind
        self.columns = columns
        self.values: dict[K, tuple[V, Moment]] = {}

    def get(self, key: K) -> V | None:
        """Return the value that holds, None without one."""
        known = self.values.get(key)
        return None if known is None else known[0]

    def become(self, key: K, value: V | None, moment: Moment, **how: object) -> None:
        """Take the next value of a key; an equal one changes nothing.

        Args:
            key: The key.
            value: None ends the one that holds.
            moment: From when on.
            how: Columns that say how the value before ended.
        """
        if self.get(key) == value:
            return
        if key in self.values:
            self._add(key, moment, how)
            del self.values[key]
        if value is not None:
            self.values[key] = (value, moment)

    def finish(self, **how: object) -> None:
        """Add the rows of what still holds."""
        for key in self.values:
            self._add(key, None, how)

    def _add(self, key: K, until: Moment | None, how: Row) -> None:
        value, since = self.values[key]
        self.history.add(self.kind, {**self.columns(key, value), **how, **interval(since, until)})


class KeyFold(Protocol):
    """The state of one key."""

    history: History

    def replay(self, event: Event) -> None:
        """Apply a record of the log; raises ReplayError if it does not fit."""

    def sync(self, sync: Sync, events: list[Event]) -> None:
        """Compare with, and take over, what a snapshot says about the key."""

    def finish(self) -> None:
        """Emit the states that still hold."""


def interval(since: Moment, until: Moment | None) -> Row:
    """Return the columns that say from when and until when a state holds."""
    return {
        "valid_from_offset": since.offset,
        "valid_from_time": since.time,
        "record_type": since.record_type,
        "batch_base_offset": since.batch_base_offset,
        "batch_last_offset": since.batch_last_offset,
        "valid_to_offset": None if until is None else until.offset,
        "valid_to_time": None if until is None else until.time,
        "to_record_type": None if until is None else until.record_type,
    }


def duration_ms(since: Moment, until: Moment | None) -> int | None:
    """Return the milliseconds between two moments, None if an end or a time is not known."""
    if until is None or until.time is None or since.time is None:
        return None
    return (until.time - since.time) // 1000


def advance(state: KeyFold, events: Iterable[Event], syncs: Iterable[Sync]) -> None:
    """Replay sorted events of one key, and hold its state against the snapshots on the way."""
    ahead = deque(syncs)
    of_snapshot: list[Event] = []
    for event in events:
        while ahead and (ahead[0].offset, False) < (event.replay_offset, not event.snapshot):
            state.sync(ahead.popleft(), of_snapshot)
            of_snapshot = []
        if event.snapshot:
            of_snapshot.append(event)
            continue
        try:
            state.replay(event)
        except ReplayError as error:
            text = f"{event.type}: {error}"
            state.history.problem(event.file, event.offset, "replay", text)
    while ahead:
        state.sync(ahead.popleft(), of_snapshot)
        of_snapshot = []
