"""Makes a history that fails smaller, as long as it fails in the same way.

First events are left out, by halves, quarters and so on; then the cluster shrinks; then what is
left gets round times. The same way is the same checker about the same subject.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from msgspec.structs import replace

from tests.simulation.plan import Plan

RUNS_MAX = 200
SECONDS_MAX = 120.0

Failure = tuple[str, str] | None
"""Checker and subject."""


class Shrinker:
    """Tries smaller plans; `run` runs one, and returns its failure."""

    def __init__(self, run: Callable[[Plan], Failure]) -> None:
        self._run = run
        self._runs = 0
        self._end_s = time.monotonic() + SECONDS_MAX

    def shrink(self, plan: Plan) -> Plan:
        """Return a plan that fails as the given one does, and is no larger."""
        wanted = self._run(plan)
        if wanted is None:
            return plan
        plan = self._without_events(plan, wanted)
        for smaller in (_fewer_options, _rounder_events):
            while found := next((p for p in smaller(plan) if self._fails(p, wanted)), None):
                plan = found
        return plan

    def _without_events(self, plan: Plan, wanted: Failure) -> Plan:
        size = len(plan.events)
        while size >= 1:
            position = 0
            while position < len(plan.events):
                rest = plan.events[:position] + plan.events[position + size :]
                smaller = replace(plan, events=rest)
                if self._fails(smaller, wanted):
                    plan = smaller
                else:
                    position += size
            size //= 2
        return plan

    def _fails(self, plan: Plan, wanted: Failure) -> bool:
        if self._runs >= RUNS_MAX or time.monotonic() > self._end_s:
            return False
        self._runs += 1
        return self._run(plan) == wanted


def _fewer_options(plan: Plan) -> Iterator[Plan]:
    options = plan.options
    smaller: list[dict[str, Any]] = []
    for name in ("producers", "groups", "topics"):
        found = getattr(options, name)
        if len(found) > (name == "topics"):
            smaller += [{name: _with(found, number)} for number in range(len(found))]
    for number, topic in enumerate(options.topics):
        if topic.partitions > 1:
            half = replace(topic, partitions=topic.partitions // 2)
            smaller.append({"topics": _with(options.topics, number, half)})
    most = max((topic.replication_factor for topic in options.topics), default=1)
    least = {"brokers": most, "directories": 1, "consumers": 1}
    smaller += [{n: getattr(options, n) - 1} for n in least if getattr(options, n) > least[n]]
    plain = {"is_fifo": True, "loss": "none", "is_ordered": True}
    smaller += [{n: plain[n]} for n in plain if getattr(options, n) != plain[n]]
    for fields in smaller:
        yield replace(plan, options=replace(options, **fields))


def _rounder_events(plan: Plan) -> Iterator[Plan]:
    for number, event in enumerate(plan.events):
        rounder: list[dict[str, Any]] = [{"after": ""}] if event.after else []
        for step in (1000, 100):
            for name in ("at_ms", "length_ms"):
                value = getattr(event, name)
                if value % step:
                    rounder.append({name: value - value % step})
        for fields in rounder:
            yield replace(plan, events=_with(plan.events, number, replace(event, **fields)))


def _with(items: tuple[Any, ...], number: int, *others: Any) -> tuple[Any, ...]:
    """Return items with others in the place of one, or none."""
    return (*items[:number], *others, *items[number + 1 :])
