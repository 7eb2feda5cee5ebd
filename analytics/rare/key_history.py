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
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from analytics.tables.table import SNAPSHOT_TYPE
from jbodlab.metadata.records import frame
from jbodlab.metadata.records.schema import Record
from jbodlab.vocabulary.errors import ReplayError

Row = dict[str, object]
"""Columns of `rare_history`."""


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
    def moment(self) -> Moment:
        """The moment that the snapshot stands for."""
        return Moment(self.offset, self.time, SNAPSHOT_TYPE, self.offset, self.offset)


@dataclass(slots=True)
class History:
    """The rows that folding a key gives."""

    rows: list[Row] = field(default_factory=list)

    def add(self, kind: str, columns: Row) -> None:
        """Add a row."""
        self.rows.append({"kind": kind, **columns})

    def problem(self, file: str, offset: int, kind: str, message: str) -> None:
        """Add the row of a problem."""
        columns: Row = {"file": file, "offset": offset, "problem": kind, "message": message}
        self.add("problem", columns)


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
