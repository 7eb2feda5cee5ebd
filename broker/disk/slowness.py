"""Whether a log directory responds too slowly: compared with the others, or with a threshold.

Nothing is done only to measure. The thread's normal work is timed: probes (create, write, sync and
remove a small file) and appends. Flushes of closed segments are not timed, because their duration
depends on the segment more than on the disk. The rules:

* Between two evaluations each kind of work gives one *value*, the median of its durations. The
  window contains the values of the last seconds, and their median decides: one long call does not
  make a directory slow, but half of all calls do.
* Time in which this process itself was paused (stopped, on a busy machine, or while another thread
  held the interpreter) is deducted: `without_stalls`.
* A directory is slow when this median reaches the threshold, or is several times that of the
  broker's other directories; never below a minimum. If all directories are slow, none is an
  outlier.
* Several evaluations in a row must agree. The limits for leaving SLOW are lower.

Times are seconds of a monotonic clock; limits are ms, as configured.
"""

from __future__ import annotations

import statistics
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

import msgspec

from broker.bounds.limits import SAMPLES_MAX

VALUES_MIN = 4
"""So many values must be in a window before anything is said."""

LOOKS_IN_A_ROW = 3
"""So many looks must agree before a directory becomes slow, or is slow no longer."""

LEAVE_SLOW_FACTOR = 0.5
"""A slow directory is slow no longer below this part of the limits that made it so."""


class TimedWork(StrEnum):
    """Kinds of work that are timed; each is compared with the same of other directories only."""

    PROBE = "probe"
    APPEND = "append"


class Sample(NamedTuple):
    """One call on a directory's thread."""

    begun_s: float
    ended_s: float


class Stall(NamedTuple):
    """A time in which this process could not do what it wanted to."""

    begun_s: float
    ended_s: float


class SlowSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Named after the keys `log.dir.slow.*`.

    Attributes:
        threshold_ms: From here on a directory is slow, whatever its peers do; 0 or less: never.
        outlier_factor: So many times slower than its peers is an outlier; 0 or less: never.
        min_ms: Below this nothing is slow.
        window_ms: Length of the window.
        policy: `report`, or `move`: leaders move away from a slow directory; in any case.
    """

    threshold_ms: int = 1_000
    outlier_factor: float = 5.0
    min_ms: int = 100
    window_ms: int = 10_000
    policy: str = "report"

    @property
    def moves_leaders(self) -> bool:
        """Whether leaders move away from a slow directory."""
        return self.policy.lower() == "move"


class IoSamples:
    """Where a directory's thread notes its calls, until the loop takes them; bounded."""

    def __init__(self) -> None:
        # Appending to a deque and taking from it need no lock between two threads.
        self._noted: Mapping[TimedWork, deque[Sample]] = {
            work: deque(maxlen=SAMPLES_MAX) for work in TimedWork
        }

    def note(self, work: TimedWork, begun_s: float, ended_s: float) -> None:
        """Note a call that has ended; on the directory's thread."""
        self._noted[work].append(Sample(begun_s, ended_s))

    def take(self) -> dict[TimedWork, list[Sample]]:
        """Return what was noted since the last time; on the loop."""
        return {
            work: [noted.popleft() for _ in range(len(noted))]
            for work, noted in self._noted.items()
        }


def without_stalls(sample: Sample, stalls: Sequence[Stall]) -> float:
    """Return how many seconds a call took, without the time in which this process stood still.

    Args:
        sample: The call.
        stalls: In the order of time; there may be many more of them than concern this call.
    """
    taken_s = sample.ended_s - sample.begun_s
    first = bisect_right(stalls, sample.begun_s, key=lambda stall: stall.ended_s)
    for stall in map(stalls.__getitem__, range(first, len(stalls))):
        if stall.begun_s >= sample.ended_s:
            break
        taken_s -= min(sample.ended_s, stall.ended_s) - max(sample.begun_s, stall.begun_s)
    return max(0.0, taken_s)


class LatencyWindow:
    """The values of one directory in the last seconds."""

    def __init__(self, window_ms: int) -> None:
        self._window_s = window_ms / 1000
        self._values: dict[TimedWork, deque[tuple[float, float]]] = {
            work: deque() for work in TimedWork
        }
        self.medians_ms: dict[TimedWork, float] = {}
        """The median of each kind of work that was seen often enough."""

    def add(
        self, samples: Mapping[TimedWork, Sequence[Sample]], stalls: Iterable[Stall], now_s: float
    ) -> None:
        """Take in the calls since the last look, and the stalls in the order of time."""
        in_order = list(stalls)
        for work, values in self._values.items():
            found = samples.get(work, ())
            if found:
                value = statistics.median(without_stalls(sample, in_order) for sample in found)
                values.append((now_s, value))
            while values and values[0][0] <= now_s - self._window_s:
                values.popleft()
        self.medians_ms = {
            work: statistics.median(value for _, value in values) * 1000
            for work, values in self._values.items()
            if len(values) >= VALUES_MIN
        }


class SlowWatch:
    """Whether one directory is slow."""

    def __init__(self, settings: SlowSettings) -> None:
        self.is_slow = False
        self.cause = ""
        """The numbers behind the last change."""
        self._settings = settings
        self._in_a_row = 0

    def looked(
        self, own: Mapping[TimedWork, float], peers: Sequence[Mapping[TimedWork, float]]
    ) -> bool:
        """Judge by the present medians.

        Args:
            own: Of this directory, in ms.
            peers: Of each other online directory of this broker.

        Returns:
            Whether the directory became slow, or ceased to be.
        """
        if not own:
            # Nothing was seen; what was said last stays said.
            return False
        factor = LEAVE_SLOW_FACTOR if self.is_slow else 1.0
        found = excess(own, peers, self._settings, factor)
        if bool(found) == self.is_slow:
            self._in_a_row = 0
            return False
        self._in_a_row += 1
        if self._in_a_row < LOOKS_IN_A_ROW:
            return False
        self._in_a_row = 0
        self.is_slow = not self.is_slow
        self.cause = found or ", ".join(
            f"{work.value} takes {own[work]:.1f} ms" for work in TimedWork if work in own
        )
        return True


def excess(
    own: Mapping[TimedWork, float],
    peers: Sequence[Mapping[TimedWork, float]],
    settings: SlowSettings,
    factor: float = 1.0,
) -> str:
    """Return why a directory is over the limits; empty if it is not.

    Args:
        own: Medians of the directory in ms.
        peers: Those of the other directories.
        settings: The limits.
        factor: By which the limits are multiplied.
    """
    for work, median_ms in own.items():
        taken = f"{work.value} takes {median_ms:.1f} ms"
        threshold_ms = max(settings.threshold_ms, settings.min_ms) * factor
        if settings.threshold_ms > 0 and median_ms >= threshold_ms:
            return f"{taken}; threshold: {threshold_ms:g} ms"
        others = [peer[work] for peer in peers if work in peer]
        if settings.outlier_factor <= 0 or not others:
            continue
        # The lower one of two in the middle: half of the peers may be slow themselves.
        usual_ms = statistics.median_low(others)
        limit_ms = max(settings.outlier_factor * usual_ms, settings.min_ms) * factor
        if median_ms >= limit_ms:
            return (
                f"{taken}; median of the other directories: {usual_ms:.1f} ms; limit: "
                f"{limit_ms:.1f} ms"
            )
    return ""
