"""Tells a run live: each step, and what was seen of the cluster, in the order of time.

Sightings come from several sides, each a little late. So a line waits for those that happened
before it and are not known yet.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace

from lab.watch.events import Event

HOLD_BACK_NS = 80_000_000
TOGETHER_NS = 10_000_000
"""News of leaders, and reports of one offline directory, that are no further apart are one line."""

Tell = Callable[[Event], None]
"""Is told of an event; its text is what a person reads."""

_STEPS = ("fault", "action", "client")
"""Sources that the run writes itself."""
_SHOWN = {
    ("broker", "offline"): "directory offline at the broker: {place} ({cause})",
    ("metadata", "offline"): "reported to the controller: {text}",
    ("metadata", "leader"): "new leader elected: broker {leader} for {partitions}",
    ("metadata", "no leader"): "no leader for {partitions}",
    ("metadata", "fenced"): "{text}",
    ("metadata", "controller"): "{text}",
    ("metadata", "unfenced"): "{text}",
    ("jmx", "offline"): "{text}",
    ("metric", "offline"): "{text}",
    ("metric", "online"): "{text}",
    ("metric", "leader"): "clients see the new leader: broker {leader} for {partitions}",
    ("metric", "silent"): "{text}",
    ("metric", "answers"): "{text}",
}


class Telling:
    """Takes events from any thread, and tells them from one.

    Args:
        tell: Is told of each event that a person wants to read.
    """

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._new: deque[Event] = deque()
        self._waiting: list[tuple[int, int, Event]] = []
        self._count = 0

    def add(self, events: Iterable[Event]) -> None:
        """Take events, from any thread."""
        self._new.extend(events)

    def tell_until(self, now_ns: float) -> None:
        """Tell what happened so long before now that nothing earlier is to be expected."""
        while self._new:
            event = self._new.popleft()
            if event.source in _STEPS or _kind(event) in _SHOWN:
                self._count += 1
                heapq.heappush(self._waiting, (event.t_ns, self._count, event))
        due: list[Event] = []
        while self._waiting and self._waiting[0][0] < now_ns - HOLD_BACK_NS:
            due.append(heapq.heappop(self._waiting)[2])
        for together in _joined(due):
            self._tell(replace(together[0], text=_text(together)))

    def tell_all(self) -> None:
        """Tell what is left."""
        self.tell_until(float("inf"))


def _joined(events: Iterable[Event]) -> list[list[Event]]:
    """Group news of leaders, and reports of one offline directory, that came at once."""
    found: list[list[Event]] = []
    for event in events:
        if (group := _group_of(event, found)) is None:
            found.append([event])
        else:
            group.append(event)
    return found


def _group_of(event: Event, groups: list[list[Event]]) -> list[Event] | None:
    if event.kind in ("leader", "offline"):
        for group in groups[::-1]:
            if event.t_ns - group[0].t_ns > TOGETHER_NS:
                return None
            if _kind(event) == _kind(group[0]) and _is_same_news(event, group[0]):
                return group
    return None


def _is_same_news(event: Event, other: Event) -> bool:
    return event.data == other.data if event.kind == "leader" else event.place == other.place


def _kind(event: Event) -> tuple[str, str]:
    if event.kind == "leader" and event.data["leader"] < 0:
        return event.source, "no leader"
    return event.source, event.kind


def _text(events: list[Event]) -> str:
    first = events[0]
    if first.source in _STEPS:
        return first.text
    return (
        _SHOWN[_kind(first)]
        .format(
            text=first.text,
            place=first.place,
            # Without the path behind it, which is long and below that directory.
            cause=str(first.data.get("cause", "")).partition(": '")[0],
            leader=first.data.get("leader"),
            partitions=", ".join(sorted(str(event.partition) for event in events)),
        )
        .removesuffix(" ()")
    )
