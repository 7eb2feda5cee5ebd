"""When brokers did not serve, from their sessions.

A failure of a broker begins when it stops being unfenced, and lasts through whatever follows,
fencing, controlled shutdown and new registrations, until it is unfenced again or removed. A broker
that registers for the first time has not failed; one that a snapshot knows as fenced has.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import groupby
from typing import NamedTuple

from analytics.derive.bucket_rows import BucketRows, few
from analytics.derive.directory_failures import Failure, in_order
from analytics.tables import catalog as t
from analytics.tables.table import SNAPSHOT_TYPE

_UNFENCED = "unfenced"
_UNREGISTERED = "unregistered"
_SNAPSHOT = "snapshot"


class Session(NamedTuple):
    """A row of the table of sessions; times are microseconds since 1970."""

    broker: int
    state: str
    record_type: str | None
    from_offset: int
    from_time: int | None
    batch: int | None
    to_offset: int | None
    to_time: int | None
    ended_by: str | None


_COLUMNS = {
    "from_offset": "valid_from_offset",
    "from_time": "valid_from_time",
    "batch": "batch_base_offset",
    "to_offset": "valid_to_offset",
    "to_time": "valid_to_time",
}
"""Columns of the table that have other names there."""


def known_broker_failures(rows: BucketRows) -> list[Failure]:
    """Return the failures that the table of sessions tells of, in order."""
    names = [_COLUMNS.get(name, name) for name in Session._fields]
    found = few(rows, t.BROKER_SESSIONS, names)
    return broker_failures(Session(*(row[name] for name in names)) for row in found)


def broker_failures(sessions: Iterable[Session]) -> list[Failure]:
    """Return the failures that sessions tell of, in order."""
    in_time = sorted(sessions, key=lambda one: (one.broker, one.from_offset))
    found: list[Failure] = []
    for _, own in groupby(in_time, key=lambda one: one.broker):
        found += _of_one_broker(own)
    return in_order(found)


def _of_one_broker(sessions: Iterable[Session]) -> list[Failure]:
    found: list[Failure] = []
    is_down = False
    before: Session | None = None
    for session in sessions:
        if session.state == _UNFENCED:
            if is_down:
                found[-1] = _closed(found[-1], session.from_offset, session.from_time, _UNFENCED)
            is_down = False
        elif before is not None and before.state == _UNFENCED:
            found.append(_begun(session, before.ended_by))
            is_down = True
        elif before is None and session.record_type == SNAPSHOT_TYPE:
            found.append(_begun(session, _SNAPSHOT))
            is_down = True
        before = session
        if session.ended_by == _UNREGISTERED:
            assert session.to_offset is not None
            if not is_down:
                if session.state == _UNFENCED:
                    found.append(_removed(session, session.to_offset))
            else:
                found[-1] = _closed(found[-1], session.to_offset, session.to_time, _UNREGISTERED)
            is_down, before = False, None
    return found


def _begun(session: Session, began_by: str | None) -> Failure:
    return Failure(
        broker=session.broker,
        directory=None,
        detected_offset=session.from_offset,
        detected_time=session.from_time,
        batch=session.batch,
        back_offset=None,
        back_time=None,
        back_by=None,
        began_by=began_by,
    )


def _removed(session: Session, offset: int) -> Failure:
    """Return the failure of a broker that was removed while it served; it is over at once."""
    return Failure(
        broker=session.broker,
        directory=None,
        detected_offset=offset,
        detected_time=session.to_time,
        batch=None,
        back_offset=offset,
        back_time=session.to_time,
        back_by=_UNREGISTERED,
        began_by=_UNREGISTERED,
    )


def _closed(failure: Failure, offset: int, time: int | None, by: str) -> Failure:
    return replace(failure, back_offset=offset, back_time=time, back_by=by)
