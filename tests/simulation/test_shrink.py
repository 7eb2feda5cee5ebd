from __future__ import annotations

from msgspec.structs import replace

from tests.simulation import faults
from tests.simulation.plan import Event, Plan, draw
from tests.simulation.shrink import Failure, Shrinker


def test_only_what_a_failure_needs_is_left() -> None:
    plan = next(
        plan for plan in (draw(seed, faults.WEIGHTS) for seed in range(200)) if len(plan.events) > 7
    )
    culprits = (
        Event(at_ms=1234, fault="kill", choice=1, length_ms=777, after="isr"),
        Event(at_ms=4321, fault="eio", choice=2, length_ms=50),
    )
    plan = replace(plan, events=(*plan.events[:3], culprits[0], *plan.events[3:], culprits[1]))

    def run(tried: Plan) -> Failure:
        choices = {(event.fault, event.choice) for event in tried.events}
        return ("S2", "t0-0") if {("kill", 1), ("eio", 2)} <= choices else None

    small = Shrinker(run).shrink(plan)

    assert [event.fault for event in small.events] == ["kill", "eio"]
    assert [event.at_ms for event in small.events] == [1000, 4000]
    assert small.events[0].after == ""
    assert len(small.options.topics) == small.options.topics[0].partitions == 1
    assert small.options.producers == ()


def test_another_failure_is_not_the_same() -> None:
    plan = draw(5, faults.WEIGHTS)

    def run(tried: Plan) -> Failure:
        return ("S2", "t0-0") if tried.events == plan.events else ("S3", "t0-0")

    assert Shrinker(run).shrink(plan).events == plan.events


def test_a_plan_that_does_not_fail_stays_as_it_is() -> None:
    plan = draw(5, faults.WEIGHTS)

    assert Shrinker(lambda _: None).shrink(plan) == plan
