"""Events of all that is watched, on one clock, and samples of the cluster.

All times are nanoseconds of the monotonic clock, which every process of a machine shares.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from jbodlab.picture.places import Place
from jbodlab.vocabulary.ids import TopicPartition

SAMPLES_MAX = 3_600
"""Samples of the clocks that are kept: an hour, as one is taken each second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened.

    Attributes:
        source: `fault`, `client`, `broker` (its log), `controller`, `metadata` (the metadata log),
            `metric` (what is polled as a client), `jmx` (metrics of Kafka's brokers) or `action`.
        kind: Kind of event, such as `offline`, `leader`, `isr`, `fenced`, `injected`.
        text: The same for people.
        place: The directory or node that it is about.
        partition: The partition that it is about.
        ref: The entry of the timeline that it belongs to.
        err_ns: How far off `t_ns` may be; order within that is unknown.
        data: Values by name, as JSON has them.
    """

    t_ns: int
    source: str
    kind: str
    text: str = ""
    place: Place | None = None
    partition: TopicPartition | None = None
    ref: str = ""
    err_ns: int = 0
    data: Mapping[str, Any] = field(default_factory=dict)


def join(*streams: Iterable[Event]) -> list[Event]:
    """Return the events of all sources as one timeline."""
    return sorted((event for stream in streams for event in stream), key=lambda event: event.t_ns)


class Clock:
    """Wall clocks in logs, as times of the monotonic clock: an offset, and how sure it is.

    The offset is sampled again and again, since the wall clock may be set while a run lasts.
    """

    def __init__(self) -> None:
        self._offsets: deque[tuple[int, int]] = deque(maxlen=SAMPLES_MAX)

    def sample(self, monotonic_ns: int, wall_ns: int) -> None:
        """Take notice of both clocks in one moment."""
        self._offsets.append((wall_ns, monotonic_ns - wall_ns))

    def monotonic(self, wall_ns: int) -> int:
        """Return a wall time on the monotonic clock, by the sample that is nearest to it."""
        return wall_ns + min(self._offsets, key=lambda one: abs(one[0] - wall_ns))[1]

    @property
    def spread_ns(self) -> int:
        """How far the samples lie apart: no time of a log is surer than that."""
        offsets = [offset for _, offset in self._offsets]
        return max(offsets, default=0) - min(offsets, default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The cluster as it was polled in a moment."""

    t_ns: int
    isr_full: float
    online_dirs: int
    offline_partitions: int
    under_replicated: int
