"""What the rules say about a call, for a supervisor: as `verdict` in shim.c for the library."""

from __future__ import annotations

import fnmatch
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from fault_injection.preload.control import Control
from fault_injection.preload.rules import WAIT_S_MAX, ArmedRule, CallClass

_MASK = 2**64 - 1
_MILLION = 1_000_000
_WAIT_NS_MAX = WAIT_S_MAX * 1_000_000_000
_WAIT_STEP_S = 0.005

Place = tuple[CallClass, str]
"""A file that a call is about, and the classes that the call is of there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What becomes of a call.

    Attributes:
        errno: It fails with this; 0: it is made.
        wait_until_ns: Not before then, unless the rules change meanwhile; None: now.
    """

    errno: int
    wait_until_ns: int | None
    places: Sequence[Place] = ()
    begun_ns: int = 0
    state: int = 0
    decided: dict[int, int | None] = field(default_factory=dict)
    """By counters: the number of the call among those seen, None where it is spared."""


class Judge:
    """Follows a control file."""

    def __init__(self, control: Control) -> None:
        self._control = control
        self._lock = threading.Lock()

    @property
    def is_armed(self) -> bool:
        """Whether any rule is in force."""
        return bool(self._control.state & 0xFFFF)

    def is_same(self, verdict: Verdict) -> bool:
        """Return whether the rules are still those that a verdict came from."""
        return self._control.state == verdict.state

    @property
    def state(self) -> int:
        """Tells the rules in force from all others that ever are."""
        return self._control.state

    def answer(self, places: Sequence[Place]) -> int:
        """Hold up a call that has just been made as long as rules say; returns its errno."""
        return self.outwait(self.begin(places, time.monotonic_ns()))

    def outwait(self, verdict: Verdict) -> int:
        """Wait until a call may go on, at once where the rules change; returns its errno."""
        while verdict.wait_until_ns is not None:
            while self.is_same(verdict) and time.monotonic_ns() < verdict.wait_until_ns:
                left_s = (verdict.wait_until_ns - time.monotonic_ns()) / 1e9
                time.sleep(max(0.0, min(_WAIT_STEP_S, left_s)))
            verdict = self.go_on(verdict, time.monotonic_ns())
        return verdict.errno

    def begin(self, places: Sequence[Place], now_ns: int) -> Verdict:
        """Judge a call that has just been made."""
        return self._judge(
            Verdict(errno=0, wait_until_ns=None, places=places, begun_ns=now_ns), now_ns
        )

    def go_on(self, verdict: Verdict, now_ns: int) -> Verdict:
        """Judge a call again that has waited: by the rules of now, from when it began."""
        return self._judge(verdict, now_ns)

    def _judge(self, verdict: Verdict, now_ns: int) -> Verdict:
        state = self._control.state
        decided = dict(verdict.decided)
        due_ns = begun_ns = verdict.begun_ns
        for armed in self._control.in_force:
            rule = armed.rule
            if armed.until_ns and now_ns >= armed.until_ns:
                continue
            if not any(_concerns(armed, place) for place in verdict.places):
                continue
            if armed.counter not in decided:
                decided[armed.counter] = self._count(armed, begun_ns)
            number = decided[armed.counter]
            if number is None:
                continue
            limit_ns = begun_ns + _WAIT_NS_MAX
            if armed.until_ns:
                limit_ns = min(limit_ns, armed.until_ns)
            due_ns += round(rule.delay_ms * 1e6)
            if rule.jitter_ms:
                due_ns += _mixed(~rule.seed & _MASK, number) % round(rule.jitter_ms * 1e6)
            wait_ns = min(max(due_ns, armed.hang_until_ns), limit_ns)
            if now_ns < wait_ns or rule.errno:
                waits = wait_ns if now_ns < wait_ns else None
                return replace(
                    verdict,
                    errno=0 if waits else rule.errno,
                    wait_until_ns=waits,
                    state=state,
                    decided=decided,
                )
        return replace(verdict, errno=0, wait_until_ns=None, state=state, decided=decided)

    def _count(self, armed: ArmedRule, now_ns: int) -> int | None:
        rule = armed.rule
        with self._lock:
            found = self._control.counters_of(armed.counter)
            number = found.seen
            is_broken = _mixed(rule.seed, number) % _MILLION < round(
                rule.percent * _MILLION / 100
            ) and bool(
                rule.errno or rule.delay_ms or rule.jitter_ms or now_ns < armed.hang_until_ns
            )
            counted = replace(found, seen=number + 1)
            if is_broken:
                first_ns = found.first_ns or now_ns
                counted = replace(
                    counted, broken=found.broken + 1, first_ns=first_ns, last_ns=now_ns
                )
            self._control.write_counters(armed.counter, counted)
        return number if is_broken else None


def _concerns(armed: ArmedRule, place: Place) -> bool:
    classes, path = place
    rule = armed.rule
    if not classes & rule.calls:
        return False
    directory = str(rule.directory)
    if path != directory and not path.startswith(f"{directory}/"):
        return False
    # Only `*` and `?` are wildcards.
    pattern = rule.name.replace("[", "[[]")
    return fnmatch.fnmatchcase(path.rpartition("/")[2], pattern)


def _mixed(seed: int, number: int) -> int:
    """splitmix64, as in shim.c."""
    value = (seed + (number + 1) * 0x9E3779B97F4A7C15) & _MASK
    value = ((value ^ value >> 30) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ value >> 27) * 0x94D049BB133111EB) & _MASK
    return value ^ value >> 31
