"""Decides on a call by the rules, for a disk: as `verdict` in shim.c for the library."""

from __future__ import annotations

import fnmatch
import threading
import time
from collections.abc import Sequence
from dataclasses import replace

from fault_injection.preload.control import Control
from fault_injection.preload.rules import WAIT_S_MAX, ArmedRule, CallClass

_MASK = 2**64 - 1
_MILLION = 1_000_000
_WAIT_NS_MAX = WAIT_S_MAX * 1_000_000_000
_WAIT_STEP_S = 0.005

Place = tuple[CallClass, str]
"""A file that a call is about, and the classes that the call is of there."""


class Judge:
    """Follows a control file."""

    def __init__(self, control: Control) -> None:
        self._control = control
        self._lock = threading.Lock()

    @property
    def is_armed(self) -> bool:
        """Whether any rule is in force."""
        return bool(self._control.state & 0xFFFF)

    @property
    def state(self) -> int:
        """Tells the rules in force from all others that ever are."""
        return self._control.state

    def answer(self, places: Sequence[Place]) -> int:
        """Hold up a call that has just been made as long as rules say; returns its errno.

        Whenever rules change it is judged again by the new ones, from when it began.
        """
        begun_ns = time.monotonic_ns()
        decided: dict[int, int | None] = {}
        while True:
            state = self.state
            errno, until_ns = self._verdict(places, begun_ns, decided)
            if until_ns is None:
                return errno
            while self.state == state and (left_ns := until_ns - time.monotonic_ns()) > 0:
                time.sleep(min(_WAIT_STEP_S, left_ns / 1e9))

    def _verdict(
        self, places: Sequence[Place], begun_ns: int, decided: dict[int, int | None]
    ) -> tuple[int, int | None]:
        """Return the errno of a call, and until when it waits for that, None for no longer.

        Args:
            places: Calls that it is about.
            begun_ns: When it began.
            decided: By counters: the number of the call among those seen, None where it is spared.
        """
        due_ns, now_ns = begun_ns, time.monotonic_ns()
        for armed in self._control.in_force:
            rule = armed.rule
            if armed.until_ns and now_ns >= armed.until_ns:
                continue
            if not any(_concerns(armed, place) for place in places):
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
            if now_ns < wait_ns:
                return 0, wait_ns
            if rule.errno:
                return rule.errno, None
        return 0, None

    def _count(self, armed: ArmedRule, now_ns: int) -> int | None:
        rule = armed.rule
        with self._lock:
            found = self._control.counters_of(armed.counter)
            number = found.seen
            is_broken = (
                number >= rule.after
                and (number - rule.after) % rule.every == 0
                and _mixed(rule.seed, number) % _MILLION < round(rule.percent * _MILLION / 100)
                and bool(
                    rule.errno or rule.delay_ms or rule.jitter_ms or now_ns < armed.hang_until_ns
                )
                and (rule.limit is None or found.broken < rule.limit)
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
