"""Figures that grow with a run: each message is looked at once, however often one asks.

A tally remembers how much of a growing sequence it has taken in. So a condition that is asked every
few milliseconds costs as much after ten minutes as it did at the start.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right, insort
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence
from itertools import pairwise
from typing import Generic, NamedTuple, Self, TypeVar

from lab.rehearsal.facts import Probe, Received, Sent

SETTLED_NS = 1_000_000_000
"""Acknowledgements of two producers may be read out of order by so much, and hardly by more."""
SAMPLES_MIN = 10
"""Of fewer values there is no percentile."""
_EXACT_BITS = 11
"""Latencies are counted with so many leading bits: they differ from the true ones by 0.1 %."""

T = TypeVar("T")
Spans = tuple[tuple[int, int | None], ...]
"""Spans of time; one that has not ended has no end."""


class Tally(ABC, Generic[T]):
    """Takes in a sequence that grows at its end."""

    def __init__(self) -> None:
        self.count = 0
        """How many it has taken in."""

    def take(self, series: Sequence[T]) -> Self:
        """Take in what is new."""
        for one in series[self.count :]:
            self.add(one)
        self.count = len(series)
        return self

    @abstractmethod
    def add(self, one: T) -> None:
        """Take in one."""


class Answers(Tally[Sent]):
    """Outcomes of messages."""

    def __init__(self) -> None:
        super().__init__()
        self.acked = 0
        self.unanswered = 0
        self.errors: Counter[int] = Counter()
        self.first_due: dict[int, int] = {}
        self.last_due: dict[int, int] = {}
        """When the first and the last message was due, by partition."""

    def add(self, one: Sent) -> None:
        """Count it by its answer."""
        self.acked += one.is_acked
        self.unanswered += one.done_ns < 0
        if one.error:
            self.errors[one.error] += 1
        due, partition = one.due_ns, one.partition
        self.first_due[partition] = min(due, self.first_due.get(partition, due))
        self.last_due[partition] = max(due, self.last_due.get(partition, due))


class InTime(Tally[Sent]):
    """Messages that were acknowledged within some time of their schedule."""

    def __init__(self, limit_ns: float) -> None:
        super().__init__()
        self.good = 0
        self._limit_ns = limit_ns

    def add(self, one: Sent) -> None:
        """Count it if it was in time."""
        self.good += one.is_acked and one.done_ns - one.due_ns <= self._limit_ns


class Windows(Tally[Sent]):
    """Equal windows of time, and those with an acknowledgement."""

    def __init__(self, begin_ns: int, window_ns: float) -> None:
        super().__init__()
        self._begin_ns, self._window_ns = begin_ns, window_ns
        self._with_acks: set[int] = set()
        self._last_due_ns = begin_ns

    def add(self, one: Sent) -> None:
        """Note the window of its acknowledgement."""
        self._last_due_ns = max(self._last_due_ns, one.due_ns)
        if one.is_acked:
            self._with_acks.add(int((one.done_ns - self._begin_ns) // self._window_ns))

    @property
    def share(self) -> float | None:
        """The share of windows with an acknowledgement; None before the first is whole."""
        # The last window is not whole, and whoever counted it would blame the end of the run.
        whole = int((self._last_due_ns - self._begin_ns) // self._window_ns)
        late = sum(each >= whole for each in self._with_acks)
        return (len(self._with_acks) - late) / whole if whole else None


class Latencies(Tally[Sent]):
    """How long acknowledgements took, from the schedule on.

    Args:
        side: `inside` or `outside` of the spans; empty: all.
        spans: When a fault was there.
    """

    def __init__(self, side: str, spans: Spans) -> None:
        super().__init__()
        self._side, self._spans = side, spans
        self._counts: Counter[int] = Counter()
        self._longest: dict[int, int] = {}
        """By bucket its longest latency, which stands for all of them."""

    def add(self, one: Sent) -> None:
        """Count its latency, if it is on this side."""
        if one.is_acked:
            self._count(one.due_ns, one.done_ns)

    def add_probe(self, one: Probe) -> None:
        """Count the latency of a good probe likewise."""
        self._count(one.due_ns, one.done_ns)

    def _count(self, due_ns: int, done_ns: int) -> None:
        if not self._is_meant(due_ns):
            return
        latency_ns = done_ns - due_ns
        shift = max(0, latency_ns.bit_length() - _EXACT_BITS)
        bucket = latency_ns >> shift << shift
        self._counts[bucket] += 1
        self._longest[bucket] = max(latency_ns, self._longest.get(bucket, 0))

    def percentile_ns(self, share: float) -> int | None:
        """Return the smallest latency that so large a share does not exceed; None: too few."""
        total = self._counts.total()
        if not total or (share < 1 and total < SAMPLES_MIN):
            return None
        left = max(1, math.ceil(share * total))
        for bucket in sorted(self._counts):
            left -= self._counts[bucket]
            if left <= 0:
                return self._longest[bucket]
        raise AssertionError("a share above 1")

    def _is_meant(self, at_ns: int) -> bool:
        if not self._side:
            return True
        is_inside = any(
            begin <= at_ns and (end is None or at_ns <= end) for begin, end in self._spans
        )
        return is_inside == (self._side == "inside")


class Receipts(Tally[Received]):
    """The longest stretch between two messages that a consumer got of one partition."""

    def __init__(self) -> None:
        super().__init__()
        self.longest_ns: int | None = None
        self._last_ns: dict[int, int] = {}

    def add(self, one: Received) -> None:
        """Measure the time since the message before it."""
        before = self._last_ns.get(one.partition)
        if before is not None:
            self.longest_ns = max(self.longest_ns or 0, one.at_ns - before)
        self._last_ns[one.partition] = one.at_ns


class Hole(NamedTuple):
    """A stretch without an acknowledgement; one that is open has not ended when it is measured."""

    begin_ns: int
    end_ns: int
    is_open: bool

    @property
    def length_ns(self) -> int:
        """How long it is."""
        return self.end_ns - self.begin_ns


class Acks:
    """The acknowledgements of one partition, and the longest hole between them."""

    def __init__(self) -> None:
        self.times: list[int] = []
        """In order."""
        self._measured: dict[tuple[int, int | None], tuple[int, Hole | None]] = {}
        """By span: how many times are settled, and the longest hole between them."""

    def add(self, at_ns: int) -> None:
        """Take in one."""
        if not self.times or at_ns >= self.times[-1]:
            self.times.append(at_ns)
            return
        if at_ns < self.times[-1] - SETTLED_NS:
            self._measured.clear()
        insort(self.times, at_ns)

    def first_since(self, at_ns: int) -> int | None:
        """Return the first one from a moment on."""
        found = bisect_left(self.times, at_ns)
        return self.times[found] if found < len(self.times) else None

    def longest(self, begin_ns: int, until_ns: int | None, now_ns: int) -> Hole | None:
        """Return the longest hole between two acknowledgements that touches a span of time.

        Args:
            begin_ns: Begin of the span.
            until_ns: Its end; None while it lasts.
            now_ns: End of what is measured: a hole that is longer counts up to here, and is open.
        """
        key, times = (begin_ns, until_ns), self.times
        if not times:
            return None
        position, best = self._measured.get(key, (bisect_right(times, begin_ns), None))
        end_ns = now_ns if until_ns is None else min(until_ns, now_ns)
        settled = bisect_left(times, min(times[-1] - SETTLED_NS, end_ns))
        if settled > position:
            best = _longest(times, position, settled, best, end_ns, now_ns)
            position = settled
            self._measured[key] = position, best
        return _longest(times, position, len(times), best, end_ns, now_ns)


def _longest(
    times: Sequence[int], begin: int, end: int, best: Hole | None, end_ns: int, now_ns: int
) -> Hole | None:
    """Return the longest hole that ends with one of some times, or the best one so far."""
    for position in range(max(begin, 1), end):
        early, late = times[position - 1], times[position]
        if early >= end_ns:
            break
        hole = Hole(early, min(late, now_ns), late > now_ns)
        if best is None or hole.length_ns > best.length_ns:
            best = hole
    return best


class Partitions:
    """The acknowledgements of all partitions, from all producers.

    Attributes:
        acks: By topic and partition.
    """

    def __init__(self) -> None:
        self.acks: dict[tuple[str, int], Acks] = defaultdict(Acks)
        self._taken: Counter[Hashable] = Counter()

    def take(self, series: Iterable[tuple[Hashable, str, Sequence[Sent]]]) -> None:
        """Take in what is new of some sequences: each has a name, a topic, and messages."""
        new = []
        for name, topic, sent in series:
            new += [
                (one.done_ns, topic, one.partition)
                for one in sent[self._taken[name] :]
                if one.is_acked
            ]
            self._taken[name] = len(sent)
        for done_ns, topic, partition in sorted(new):
            self.acks[topic, partition].add(done_ns)


def longest_of(times: Sequence[int]) -> int | None:
    """Return the longest time between two moments."""
    return max((late - early for early, late in pairwise(sorted(times))), default=None)
