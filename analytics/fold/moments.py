"""Time between two moments of the log."""

from __future__ import annotations

from analytics.fold.key_history import Moment

MICROSECONDS_PER_MS = 1000


def duration_ms(since: Moment, until: Moment | None) -> int | None:
    """Return the milliseconds between two moments, None if an end or a time is not known."""
    if until is None or until.time is None or since.time is None:
        return None
    return (until.time - since.time) // MICROSECONDS_PER_MS
