"""PASS, FAIL or INCONCLUSIVE: the measured values against the expected ones.

A rehearsal proves something only if its fault had an effect, the cluster was well before, and
somebody sent messages to what it hit; else it is inconclusive, whatever its figures say. Nothing
softens an acknowledged message that is gone, and a transaction that is seen in part or never ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial

from jbodlab.vocabulary.durations import duration_text
from jbodlab.vocabulary.expressions import Expression, Metric
from jbodlab.vocabulary.ids import TRANSACTION_STATE_TOPIC, TopicPartition
from lab.rehearsal.facts import Facts, FaultFacts, WriterFacts
from lab.rehearsal.metrics import Measured, why_unknown
from lab.rehearsal.plan import Command, Objective, Plan, Streams
from lab.rehearsal.vocabulary import TRANSACTIONS

BEHIND_MAX = 0.05
"""Share of its schedule that a client may leave out."""
NOISE_MAX_NS = 200_000_000
MISCOUNTED = {
    "missing": "{count} words of the input were not counted by {name}",
    "excess": "{count} words were counted by {name} that are not in the input",
}
"""Of applications what fails a run likewise."""
UNSOFTENED = {
    "torn": "{count} transactions are not seen as they were answered",
    "stuck": "the last stable offset of {where} stands before the end after the full read",
}
"""Of transactions what fails a run, whatever there is to doubt."""


class Outcome(Enum):
    """The verdict, and the exit code of the command."""

    PASS = 0
    FAIL = 1
    INCONCLUSIVE = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """One comparison of an objective, or the whole of one with an "or".

    Attributes:
        metrics: The metrics of it.
        holds: None where the metric has no value.
        measured: As a person reads it.
    """

    metrics: tuple[Metric, ...]
    text: str
    holds: bool | None
    value: float | None
    measured: str
    is_warning: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The verdict with its reasons, one sentence each."""

    outcome: Outcome
    objectives: tuple[Held, ...]
    missed: tuple[str, ...]
    doubts: tuple[str, ...]
    warnings: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """The verdict in one sentence."""
        if self.outcome is Outcome.PASS:
            return f"PASS: all {len(self.objectives)} objectives are met"
        reasons = self.missed if self.outcome is Outcome.FAIL else self.doubts
        more = f", and {len(reasons) - 1} more" if len(reasons) > 1 else ""
        return f"{self.outcome.name}: {reasons[0]}{more}"


def judge(plan: Plan, facts: Facts) -> Judgement:
    """Judge a run."""
    lookup = Measured(facts)
    objectives = tuple(
        _held(required, objective, lookup)
        for objective in plan.objectives
        for required in objective.that.required
    )
    lost = (
        *_lost(plan, facts),
        *_torn(plan, facts, lookup),
        *_miscounted(plan, facts, lookup),
    )
    missed = tuple(
        f"expected {held.text}, measured {held.measured}"
        for held in objectives
        if held.holds is False and not held.is_warning
    )
    doubts = tuple(dict.fromkeys((*_doubts(plan, facts), *_not_measured(objectives, facts))))
    warnings = [
        f"{held.text}: {held.measured}" for held in objectives if held.is_warning and not held.holds
    ]
    if facts.noise_ns > NOISE_MAX_NS:
        warnings.append(
            "this machine was busy: a tick of 10 ms came "
            f"{duration_text(facts.noise_ns / 1e9)} late"
        )
    if lost:
        outcome = Outcome.FAIL
        of_transactions = (f"{TRANSACTIONS}.{field}" for field in UNSOFTENED)
        unsoftened = (".lost", *of_transactions, *(f".{field}" for field in MISCOUNTED))
        missed = (*lost, *(text for text in missed if not any(one in text for one in unsoftened)))
    elif doubts:
        outcome = Outcome.INCONCLUSIVE
    else:
        outcome = Outcome.FAIL if missed else Outcome.PASS
    return Judgement(
        outcome=outcome,
        objectives=objectives,
        missed=missed,
        doubts=doubts,
        warnings=tuple(warnings),
    )


def _held(required: Expression, objective: Objective, lookup: Measured) -> Held:
    measured = {
        each.metric: lookup.shown(each.metric, each.wanted.unit) for each in required.comparisons
    }
    values = [lookup(metric) for metric in measured]
    holds = required.holds(lookup)
    if len(measured) == 1:
        (shown,) = measured.values()
    else:
        shown = ", ".join(f"{metric} {value}" for metric, value in measured.items())
    return Held(
        metrics=tuple(measured),
        text=str(required),
        holds=None if None in values and not holds else holds,
        value=values[0] if len(values) == 1 else None,
        measured=shown,
        is_warning=objective.is_warning,
    )


def _lost(plan: Plan, facts: Facts) -> Iterator[str]:
    """Name the producers of which more messages are gone than the plan says may be."""
    for name, writer in facts.writers.items():
        count = 0 if writer.verdict is None else writer.verdict.lost
        if count and not _is_allowed(plan, Metric(name, "lost"), count):
            yield f"{count} of the acknowledged messages of {name} were lost"


def _torn(plan: Plan, facts: Facts, lookup: Measured) -> Iterator[str]:
    """Name what became of transactions and may not, unless the plan says so."""
    if not plan.has_transactions:
        return
    for field, text in UNSOFTENED.items():
        metric = Metric(TRANSACTIONS, field)
        count = lookup(metric)
        if count and not _is_allowed(plan, metric, count):
            where = ", ".join(map(str, facts.stuck or ())) if field == "stuck" else ""
            yield text.format(count=int(count), where=where)


def _miscounted(plan: Plan, facts: Facts, lookup: Measured) -> Iterator[str]:
    """Name the applications that have not counted what is there, unless the plan says so."""
    for name, streams in facts.streams.items():
        if streams.counted is None or not streams.counted.counted:
            # It has not begun, which proves nothing.
            continue
        for field, text in MISCOUNTED.items():
            metric = Metric(name, field)
            count = lookup(metric)
            if count and not _is_allowed(plan, metric, count):
                yield text.format(count=int(count), name=name)


def _is_allowed(plan: Plan, metric: Metric, count: float) -> bool:
    """Return whether the objectives of a plan are about a metric, and admit a value of it."""
    allowed = [
        comparison
        for objective in plan.objectives
        if not objective.is_warning
        for required in objective.that.required
        for comparison in required.comparisons
        if len(required.comparisons) == 1 and comparison.metric == metric
    ]
    lookup = partial(_always, float(count))
    return bool(allowed) and all(each.holds(lookup) for each in allowed)


def _always(value: float, _: Metric) -> float:
    return value


def _doubts(plan: Plan, facts: Facts) -> Iterator[str]:
    yield from facts.broken_off
    for name, writer in facts.writers.items():
        if writer.failure:
            yield f"{name} ended before the end of the run: {writer.failure}"
        # One that waits for its commit sends nothing meanwhile, and that is the cluster's doing.
        elif writer.due and writer.transactions is None and _behind(writer) > BEHIND_MAX:
            yield (
                f"{name} fell behind its own schedule: {len(writer.sent)} of {writer.due} messages "
                "were sent"
            )
        elif not any(one.is_acked for one in writer.sent):
            yield f"{name}: no message was acknowledged"
    for name, reader in facts.readers.items():
        if reader.failure:
            yield f"{name} ended before the end of the run: {reader.failure}"
    for name, command in facts.commands.items():
        if command.failure:
            yield f"{name}: {command.failure}"
    for name, streams in facts.streams.items():
        if streams.counted is not None and not streams.counted.counted:
            yield f"{name} has counted nothing"
    for entry in plan.faults:
        fault = facts.faults.get(entry.name)
        if fault is None:
            yield f"{entry.name} was never injected"
        else:
            yield from _doubts_of(fault, plan, facts)


def _behind(writer: WriterFacts) -> float:
    return 1 - len(writer.sent) / writer.due


def _doubts_of(fault: FaultFacts, plan: Plan, facts: Facts) -> Iterator[str]:
    if fault.problem:
        yield f"{fault.name}: {fault.problem}"
        return
    if fault.counts and not fault.calls_broken:
        yield f"{fault.name} had no effect: the broker made no call that it breaks"
    where = ", ".join(map(str, fault.places))
    if not fault.touched:
        yield f"{fault.name} proves nothing: {where} has no partition of the plan's topics"
    elif not _sent_meanwhile(fault, plan, facts):
        yield f"nothing was sent to the partitions of {where} while {fault.name} was in effect"


def _sent_meanwhile(fault: FaultFacts, plan: Plan, facts: Facts) -> bool:
    begin, end = fault.injected_ns or 0, fault.healed_ns or facts.end_ns
    touched = set(fault.touched)
    coordinates = any(partition.topic == TRANSACTION_STATE_TOPIC for partition in touched)
    if any(isinstance(load, Command | Streams) for load in plan.load) and fault.growth:
        return True
    return any(
        begin <= one.sent_ns <= end
        for writer in facts.writers.values()
        for one in writer.sent
        if TopicPartition(writer.topic, one.partition) in touched
        or (coordinates and writer.transactions is not None)
    )


def _not_measured(objectives: Sequence[Held], facts: Facts) -> Iterator[str]:
    for held in objectives:
        if held.holds is None and not held.is_warning:
            why = dict.fromkeys(why_unknown(metric, facts) for metric in held.metrics)
            yield f"cannot judge {held.text}: {', '.join(why)}"
