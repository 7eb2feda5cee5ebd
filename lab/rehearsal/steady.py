"""Conditions that are missing for the steady state that a plan wants before its first fault."""

from __future__ import annotations

from collections.abc import Mapping

from jbodlab.vocabulary.expressions import MetricName
from lab.plan.plan import Command, Plan, Writers
from lab.rehearsal.facts import Facts, WriterFacts
from lab.rehearsal.metrics import Measured
from lab.rehearsal.schedule import values_of


def missing(plan: Plan, facts: Facts, ended: Mapping[str, str]) -> str:
    """Return what is missing, by what was seen lately; empty if nothing is.

    Args:
        plan: The plan with the conditions.
        facts: Of the time for which the state has to hold.
        ended: Clients that have ended by themselves, with the last thing they said.
    """
    for name, why in ended.items():
        return f"{name} has ended: {why}"
    for load in plan.load:
        if isinstance(load, Command) and load.probe and not load.is_foreground:
            probes = facts.commands[load.name].probes
            if not probes or not probes[-1].is_good:
                return f"{load.name} does not answer its probe"
    partitions = {topic.name: topic.partitions for topic in plan.topics}
    for writer in plan.writers:
        if found := _silent(facts.writers[writer.name], writer, partitions[writer.topic]):
            return found
    measured = Measured(facts)
    if not plan.steady.that and measured(MetricName("", "isr_full")) != 1:
        return "not every replica is in sync"
    for expression in plan.steady.that:
        if not expression.holds(measured):
            return f"expected {expression}; {values_of(expression, measured)}"
    return ""


def _silent(facts: WriterFacts, writer: Writers, partitions: int) -> str:
    """Return which producer has no acknowledgement of a partition yet; empty if all have."""
    acked = {one.partition for one in facts.sent if one.is_acked}
    wanted = min(partitions, writer.keys)
    if not acked:
        # One that was acknowledged later than so is no sign of a steady state.
        return f"no message of {writer.name} was acknowledged in time"
    # At a low rate not every partition has its turn in so short a time.
    if writer.rate > 20 * wanted and len(acked) < wanted:
        return f"{writer.name}: only {len(acked)} of {wanted} partitions acknowledge messages"
    return ""
