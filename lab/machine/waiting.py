"""Waiting for a condition, never for a time; what runs out says what it waited for."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol, TypeVar
from weakref import WeakValueDictionary

T = TypeVar("T")

POLL_MIN_S = 0.01
POLL_MAX_S = 0.25


class NotInTimeError(AssertionError):
    """Something did not happen before its deadline."""


class Witness(Protocol):
    """Somebody who can tell what was going on."""

    def last_words(self) -> str:
        """Return what was seen last, as text of whole lines."""


witnesses: WeakValueDictionary[int, Witness] = WeakValueDictionary()
"""Witnesses that are asked when a wait runs out, by their `id`: every cluster that is not closed.

Threads add some while others ask, so only `valuerefs`, which is a list, is gone through.
"""


def wait_for(
    what: str,
    condition: Callable[[], T | None],
    deadline_s: float = 30.0,
    *,
    last_seen: Callable[[], object] | None = None,
) -> T:
    """Wait until a condition holds.

    Args:
        what: Name of the awaited state, for the error.
        condition: Asked again and again, no more than half of the time; holds when it is true.
        deadline_s: Longest time to wait.
        last_seen: Tells, for the error, what stood in the way.

    Returns:
        The condition's result.

    Raises:
        NotInTimeError: it did not hold within the deadline.
    """
    end = time.monotonic() + deadline_s
    pause_s = POLL_MIN_S
    while True:
        began = time.monotonic()
        value = condition()
        if value:
            return value
        now = time.monotonic()
        if now > end:
            lines = [f"{what} did not happen within {deadline_s:g} s"]
            if last_seen is not None:
                lines.append(f"last seen: {last_seen()}")
            known = [reference() for reference in witnesses.valuerefs()]
            lines += [witness.last_words() for witness in known if witness is not None]
            raise NotInTimeError("\n".join(lines))
        # A condition that takes long to find out would else keep the machine from getting there.
        time.sleep(min(POLL_MAX_S, max(pause_s, now - began)))
        pause_s = min(POLL_MAX_S, pause_s * 1.3)
