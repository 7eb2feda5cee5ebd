"""Notices that a directory or a broker was lost, and their times: one sentence for each source."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from jbodlab.picture.places import Place
from lab.watch.events import Event
from lab.watch.server_log import LOG

METRICS, ANSWERS, METADATA, SILENCE = (
    "metrics (JMX)",
    "DescribeLogDirs",
    "metadata log",
    "no answer",
)
"""The names of the sources besides `LOG`, as people read them."""

SOURCES: Mapping[tuple[str, str], str] = MappingProxyType(
    {
        ("broker", "offline"): LOG,
        ("jmx", "offline"): METRICS,
        ("metric", "offline"): ANSWERS,
        ("metadata", "offline"): METADATA,
        ("metadata", "fenced"): METADATA,
        ("metric", "silent"): SILENCE,
    }
)
"""The source of an event, by its `source` and `kind`; events of other kinds notice no loss."""

OF_BROKER = (LOG, METRICS)
"""Sources that tell what a broker noticed of a directory, the surest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """A source tells for the first time that a place is lost.

    Attributes:
        by: The name of the source.
        t_ns: When it was so, by the monotonic clock.
        err_ns: How far off that may be.
    """

    place: Place
    by: str
    t_ns: int
    err_ns: int

    def after_s(self, begin_ns: int) -> float:
        """Return how long after a moment that was."""
        return max(0.0, (self.t_ns - begin_ns) / 1e9)


def notices(places: Collection[Place], since_ns: int, events: Iterable[Event]) -> list[Notice]:
    """Return the first notice by each source of each place that was lost, in order of time.

    Args:
        places: Places that a fault hit.
        since_ns: When it took effect.
        events: Events that were seen.
    """
    found: dict[tuple[Place, str], Notice] = {}
    for event in events:
        by = SOURCES.get((event.source, event.kind))
        if by is None or event.place not in places or event.t_ns + event.err_ns < since_ns:
            continue
        assert event.place is not None
        new = Notice(place=event.place, by=by, t_ns=event.t_ns, err_ns=event.err_ns)
        before = found.get((new.place, by))
        if before is None or new.t_ns < before.t_ns:
            found[new.place, by] = new
    return sorted(found.values(), key=lambda one: one.t_ns)


def surest(
    places: Iterable[Place], found: Iterable[Notice], sources: Sequence[str], *, has_metadata: bool
) -> dict[Place, Notice | None]:
    """Return for each place that a fault hit the notice of the surest source that has one.

    A node is lost when the controller fences it. Where its log cannot be read, that is taken from
    the node's silence.

    Args:
        places: Places that the fault hit.
        found: All notices of it.
        sources: Names of sources for a directory, the surest first.
        has_metadata: Whether the metadata log is read.
    """
    known = {(one.place, one.by): one for one in found}
    of_node = METADATA if has_metadata else SILENCE
    return {
        place: next(
            (
                known[place, by]
                for by in (sources if place.directory else (of_node,))
                if (place, by) in known
            ),
            None,
        )
        for place in places
    }
