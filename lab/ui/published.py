"""The published state: every browser gets the changes that it lacks, and nothing is queued.

Each section and each event carries the number of the publication that changed it last. A browser
that has seen number 7 needs all that is newer than 7: one comparison, whether it missed one
publication or a hundred.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

EVENTS_KEPT = 300


class Published:
    """All that the page knows, by number.

    Args:
        start: Tells this start of the server from others, whose numbers mean other things.

    Attributes:
        number: That of the last publication.
    """

    def __init__(self, start: str) -> None:
        assert "-" not in start
        self.number = 0
        self._start = start
        self._sections: dict[str, tuple[int, Any]] = {}
        self._events: deque[tuple[int, Any]] = deque(maxlen=EVENTS_KEPT)
        self._forgotten = 0
        """Number of the newest event that is not kept any more."""

    @property
    def id(self) -> str:
        """Text by which a browser tells which publication it has seen."""
        return f"{self._start}-{self.number}"

    def publish(self, sections: Mapping[str, Any], events: Iterable[Any] = ()) -> bool:
        """Take the newest of everything; returns whether anything is new."""
        changed = {
            name: value
            for name, value in sections.items()
            if name not in self._sections or self._sections[name][1] != value
        }
        new = list(events)
        if not changed and not new:
            return False
        self.number += 1
        for name, value in changed.items():
            self._sections[name] = (self.number, value)
        for event in new:
            if len(self._events) == self._events.maxlen:
                self._forgotten = self._events[0][0]
            self._events.append((self.number, event))
        return True

    def whole(self) -> dict[str, Any]:
        """Return everything."""
        return self._after(0, is_whole=True)

    def since(self, last_id: str) -> dict[str, Any]:
        """Return the changes since a browser's last state; everything if that state is unknown."""
        start, _, number = last_id.rpartition("-")
        is_ours = start == self._start and number.isascii() and number.isdecimal()
        seen = int(number) if is_ours and len(number) < 20 else 0
        is_whole = not self._forgotten <= seen <= self.number or seen == 0
        return self._after(0 if is_whole else seen, is_whole=is_whole)

    def _after(self, seen: int, *, is_whole: bool) -> dict[str, Any]:
        return {
            "id": self.id,
            "whole": is_whole,
            "sections": {
                name: value for name, (number, value) in self._sections.items() if number > seen
            },
            "events": [event for number, event in self._events if number > seen],
        }
