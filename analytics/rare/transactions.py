"""Metadata transactions: which stretches of the log never took effect.

Begin opens, End publishes, Abort drops; they do not nest. What stands between a Begin and the end
of the log is not published either, since the next controller will abort it.

Source: KIP-868.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from analytics.read.batch_walk import Problem
from jbodlab.metadata.records.config_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
)

BEGIN = BeginTransactionRecord.NAME
END = EndTransactionRecord.NAME
ABORT = AbortTransactionRecord.NAME
MARKERS = (BEGIN, END, ABORT)


class Marker(NamedTuple):
    """A record that opens or closes a transaction."""

    offset: int
    type: str
    file: str


class Dropped(NamedTuple):
    """Offsets that have no effect, from `start` to `end`, exclusive."""

    start: int
    end: int


def dropped_stretches(
    markers: Iterable[Marker], end_offset: int
) -> tuple[list[Dropped], list[Problem]]:
    """Return what was aborted or left open, and markers that are out of place.

    Args:
        markers: In the order of offsets.
        end_offset: End of the log.
    """
    dropped: list[Dropped] = []
    problems: list[Problem] = []
    begin: Marker | None = None
    for marker in markers:
        if (marker.type == BEGIN) == (begin is not None):
            where = f"inside the one of {begin.offset}" if begin is not None else "outside of any"
            problems.append(
                Problem(
                    file=marker.file,
                    position=None,
                    offset=marker.offset,
                    kind="transaction",
                    message=f"{marker.type} {where} transaction",
                )
            )
        if begin is not None and marker.type != END:
            dropped.append(Dropped(begin.offset, marker.offset))
        begin = marker if marker.type == BEGIN else None
    if begin is not None:
        dropped.append(Dropped(begin.offset, end_offset))
    return dropped, problems
