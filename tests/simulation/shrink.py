"""Makes a history that fails smaller, as long as it fails in the same way.

First events are left out, by halves, quarters and so on; then the cluster shrinks; then what is
left gets round times. The same way is the same checker about the same subject.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.simulation.plan import Event, Options, Plan

RUNS_MAX = 200
SECONDS_MAX = 120.0

Failure = tuple[str, str] | None
"""Checker and subject."""


class Shrinker:
    """Tries smaller plans.

    Args:
        run: Runs a plan; returns its failure.
        tell: Told of each smaller plan that still fails.
    """

    def __init__(
        self, run: Callable[[Plan], Failure], tell: Callable[[Plan], object] = lambda _plan: None
    ) -> None:
        self._run = run
        self._tell = tell
        self._runs = 0
        self._end_s = time.monotonic() + SECONDS_MAX

    def shrink(self, plan: Plan) -> Plan:
        """Return a plan that fails as the given one does, and is no larger."""
        wanted = self._run(plan)
        if wanted is None:
            return plan
        plan = self._without_events(plan, wanted)
        for smaller in (_fewer_options, _rounder_events):
            while (found := self._first(smaller(plan), wanted)) is not None:
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

    def _first(self, plans: Iterator[Plan], wanted: Failure) -> Plan | None:
        return next((plan for plan in plans if self._fails(plan, wanted)), None)

    def _fails(self, plan: Plan, wanted: Failure) -> bool:
        if self._runs >= RUNS_MAX or time.monotonic() > self._end_s:
            return False
        self._runs += 1
        if self._run(plan) != wanted:
            return False
        self._tell(plan)
        return True


def _fewer_options(plan: Plan) -> Iterator[Plan]:
    options = plan.options
    for number in range(len(options.producers)):
        left = options.producers[:number] + options.producers[number + 1 :]
        yield _with(plan, replace(options, producers=left))
    for number, topic in enumerate(options.topics):
        if len(options.topics) > 1:
            topics = options.topics[:number] + options.topics[number + 1 :]
            producers = tuple(each for each in options.producers if each.topic != topic.name)
            yield _with(plan, replace(options, topics=topics, producers=producers))
        if topic.partitions > 1:
            less = replace(topic, partitions=topic.partitions // 2)
            topics = (*options.topics[:number], less, *options.topics[number + 1 :])
            yield _with(plan, replace(options, topics=topics))
    most = max((topic.replication_factor for topic in options.topics), default=1)
    if options.brokers > most:
        yield _with(plan, replace(options, brokers=options.brokers - 1))
    if options.directories > 1:
        yield _with(plan, replace(options, directories=options.directories - 1))
    if options.consumers > 1:
        yield _with(plan, replace(options, consumers=1))
    for plain in ({"is_fifo": True}, {"loss": "none"}, {"is_ordered": True}):
        if any(getattr(options, name) != value for name, value in plain.items()):
            yield _with(plan, replace(options, **plain))


def _rounder_events(plan: Plan) -> Iterator[Plan]:
    for number, event in enumerate(plan.events):
        for rounder in _rounder(event):
            events = (*plan.events[:number], rounder, *plan.events[number + 1 :])
            yield replace(plan, events=events)


def _rounder(event: Event) -> Iterator[Event]:
    if event.after:
        yield replace(event, after="")
    for step in (1000, 100):
        for name in ("at_ms", "length_ms"):
            value = getattr(event, name)
            if value % step:
                yield replace(event, **{name: value - value % step})


def _with(plan: Plan, options: Options) -> Plan:
    return replace(plan, options=options)
