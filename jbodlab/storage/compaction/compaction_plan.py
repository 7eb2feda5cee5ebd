"""Plan and results of a round of compaction as plain values, and the interface of compactors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec

from jbodlab.storage.compaction.compacted_batch import LastBatch, last_batches
from jbodlab.storage.compaction.compaction import DirtyRange
from jbodlab.storage.directory.filesystem import FileSystem
from jbodlab.storage.log.log_state import LogState
from jbodlab.storage.log.segments import ClosedSegment
from jbodlab.storage.log.transactions import AbortedTransaction
from jbodlab.vocabulary.errors import JbodlabError
from jbodlab.vocabulary.limits import FOLLOW_S
from jbodlab.vocabulary.threads import Flag
from jbodlab.vocabulary.token_bucket import TokenBucket

BURST_S = 0.05
"""Time for which an unused rate may be made up for; a thread never wakes exactly when it should."""

Throttle = Callable[[int], None]
"""Called with the bytes that were read or are written next; raises `CleaningStoppedError`."""


class CleanerDiedError(JbodlabError):
    """The process that made a round ended in the middle of it; the round was not cancelled."""


class CleaningStoppedError(JbodlabError):
    """The round was called off, or the log changed under it."""


class RoundPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The work on one log; a plain value.

    Attributes:
        folder: Partition directory of the log.
        closed: All closed segments from the log's start on.
        active_base: Base offset of the segment behind them.
        start_offset: Log start; no consumer reads records below it.
        first_dirty: See `compaction`.
        first_uncleanable: See `compaction`.
        aborted_counts: Base offset of each closed segment with an index of aborted transactions,
            and the number of its entries.
        aborted: Aborted transactions with markers in the active segment.
        producers: Last batches of the producers in the producer state, by id.
        now_ms: Milliseconds since 1970.
        keeps_deletes: Whether tombstones and markers stay also beyond their horizon.
        map_bytes: Memory of the offset map, bytes.
        map_load_factor: Part of the map's slots that may be used, 0 to 1.
    """

    folder: Path
    closed: tuple[ClosedSegment, ...]
    active_base: int
    start_offset: int
    first_dirty: int
    first_uncleanable: int
    aborted_counts: tuple[tuple[int, int], ...]
    aborted: tuple[AbortedTransaction, ...]
    producers: Mapping[int, LastBatch]
    now_ms: int
    keeps_deletes: bool
    delete_retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int
    map_bytes: int
    map_load_factor: float = 0.9

    @classmethod
    def of(
        cls,
        log: LogState,
        folder: Path,
        dirty: DirtyRange,
        *,
        now_ms: int,
        keeps_deletes: bool = False,
        map_bytes: int,
        map_load_factor: float = 0.9,
    ) -> RoundPlan:
        """Return the plan for a log in its present state."""
        config = log.config
        return cls(
            folder=folder,
            closed=tuple(log.closed),
            active_base=log.active.base_offset,
            start_offset=log.start_offset,
            first_dirty=dirty.first_dirty,
            first_uncleanable=dirty.first_uncleanable,
            aborted_counts=tuple(log.aborted_counts.items()),
            aborted=tuple(log.active.aborted),
            producers=last_batches(log.producers),
            now_ms=now_ms,
            keeps_deletes=keeps_deletes,
            delete_retention_ms=config.delete_retention_ms,
            segment_bytes=config.segment_bytes,
            segment_index_bytes=config.segment_index_bytes,
            index_interval_bytes=config.index_interval_bytes,
            map_bytes=map_bytes,
            map_load_factor=map_load_factor,
        )


class Mapped(NamedTuple):
    """The result of the first step.

    Attributes:
        end: Keys of all records below it are in the map; the log is clean up to there in the end.
        keys: How many there are.
        utilization: Which part of the map they take.
        groups: How many groups are to be cleaned.
        group_bytes_max: Size of the largest of them.
    """

    end: int
    keys: int
    utilization: float
    groups: int
    group_bytes_max: int


class CleanedSegment(NamedTuple):
    """A segment whose `.cleaned` files are in the partition directory and synced."""

    bounds: ClosedSegment
    aborted_count: int


class CleanedGroup(NamedTuple):
    """Segments and their replacements; both not empty, with the same first base offset."""

    former: tuple[ClosedSegment, ...]
    cleaned: tuple[CleanedSegment, ...]


class Rate:
    """How fast a round may go; set on one thread, followed on another.

    Attributes:
        bytes_per_second: Most bytes to read and to write; None is without limit.
    """

    def __init__(self, bytes_per_second: float | None = None) -> None:
        self.bytes_per_second = bytes_per_second


class Compactor(Protocol):
    """Makes the rounds of one directory, one after the other; its calls block."""

    def begin(self, fs: FileSystem, plan: RoundPlan, throttle: Throttle, rate: Rate) -> Mapped:
        """Begin a round; see `CompactionRound.begin`.

        Args:
            fs: The disk.
            plan: The work on the log.
            throttle: Keeps the rate of a compactor in this process.
            rate: Rate for a compactor in another process; it may change until the round ends.
        """

    def clean(self, number: int) -> CleanedGroup:
        """Clean a group of it; see `CompactionRound.clean`."""

    def close(self) -> None:
        """Release the compactor's resources."""


class RateThrottle:
    """A `Throttle` that keeps a rate.

    Args:
        stop: Raised when the round is called off.
        rate: May change at any time.
        monotonic_s: The clock.
    """

    def __init__(self, stop: Flag, rate: Rate, monotonic_s: Callable[[], float]) -> None:
        self._stop = stop
        self._rate = rate
        self._kept: float | None = None
        self._bucket: TokenBucket | None = None
        self._monotonic_s = monotonic_s

    def __call__(self, size: int) -> None:
        """Count bytes, and wait as long as the rate demands."""
        self._follow()
        if self._bucket is not None:
            self._bucket = self._bucket.taken(size, self._monotonic_s())
        while not self._stop.is_set():
            wait_s = 0.0 if self._bucket is None else self._bucket.debt_s(self._monotonic_s())
            if wait_s <= 0:
                return
            self._stop.wait(min(wait_s, FOLLOW_S))
            self._follow()
        raise CleaningStoppedError("cancelled")

    def _follow(self) -> None:
        """Apply the present rate, also to a wait that has begun."""
        rate, now_s = self._rate.bytes_per_second, self._monotonic_s()
        if rate == self._kept:
            return
        left = 0.0 if self._bucket is None else min(0.0, self._bucket.left(now_s))
        self._kept = rate
        self._bucket = (
            None
            if rate is None
            else TokenBucket.empty(max(1, rate), BURST_S, now_s).taken(-left, now_s)
        )
