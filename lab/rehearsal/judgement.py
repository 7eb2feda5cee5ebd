"""PASS, FAIL or INCONCLUSIVE: the measured values against the expected ones.

A rehearsal proves something only if its fault had an effect, the cluster was well before, and
somebody sent messages to what it hit; else it is inconclusive, whatever its figures say. Nothing
softens an acknowledged message that is gone, and a transaction that is seen in part or never ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from jbodlab.vocabulary.durations import duration_text
from jbodlab.vocabulary.expressions import Expression, MetricName
from jbodlab.vocabulary.ids import TRANSACTION_STATE_TOPIC, TopicPartition
from lab.findings import Finding, Kind, Outcome, Weight, outcome, texts
from lab.plan.plan import Command, Exit, Objective, Plan, Streams
from lab.plan.vocabulary import TRANSACTIONS
from lab.rehearsal.facts import Facts, FaultFacts, WriterFacts
from lab.rehearsal.metrics import Measured, why_unknown

BEHIND_MAX = 0.05
"""Share of its schedule that a client may leave out."""
NOISE_MAX_NS = 200_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """One comparison of an objective, or the whole of one with an "or".

    Attributes:
        metrics: The metrics of it.
        holds: None where the metric has no value.
        measured: As a person reads it.
    """

    metrics: tuple[MetricName, ...]
    text: str
    holds: bool | None
    value: float | None
    measured: str
    is_warning: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The objectives with what was measured, and what was found; breaches come first."""

    objectives: tuple[Held, ...]
    findings: tuple[Finding, ...]

    @property
    def outcome(self) -> Outcome:
        """The verdict."""
        return outcome(self.findings)

    @property
    def missed(self) -> tuple[str, ...]:
        """Findings that fail the run, one sentence each."""
        return tuple(texts(self.findings, Weight.BREACH, Weight.MISS))

    @property
    def doubts(self) -> tuple[str, ...]:
        """Why the run proves nothing, likewise."""
        return tuple(texts(self.findings, Weight.DOUBT))

    @property
    def warnings(self) -> tuple[str, ...]:
        """Findings that do not change the verdict, likewise."""
        return tuple(texts(self.findings, Weight.WARNING))

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
    breaches = dict(_breaches(plan, facts, lookup))
    missed = (
        Finding(
            kind=Kind.WARNED if held.is_warning else Kind.MISSED,
            subject=held.text,
            why=held.measured,
        )
        for held in objectives
        # An objective that is a breach is told once.
        if (held.is_warning and not held.holds)
        or (held.holds is False and not breaches.keys() & set(held.metrics))
    )
    found = (
        *breaches.values(),
        *missed,
        *_doubts(plan, facts),
        *_not_measured(objectives, facts),
        *_busy(facts),
    )
    return Judgement(objectives=objectives, findings=tuple(dict.fromkeys(found)))


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


def _breaches(plan: Plan, facts: Facts, lookup: Measured) -> Iterator[tuple[MetricName, Finding]]:
    """Yield what nothing softens, by its metric, unless the plan says that it may be."""
    for metric, kind, subject in _unsoftened(plan, facts):
        count = lookup(metric)
        if count and not _is_allowed(plan, metric, count):
            yield metric, Finding(kind=kind, subject=subject, count=int(count))


def _unsoftened(plan: Plan, facts: Facts) -> Iterator[tuple[MetricName, Kind, str]]:
    for name in facts.writers:
        yield MetricName(name, "lost"), Kind.LOST, name
    if plan.has_transactions:
        yield MetricName(TRANSACTIONS, "torn"), Kind.TORN, TRANSACTIONS
        where = ", ".join(map(str, facts.stuck or ()))
        yield MetricName(TRANSACTIONS, "stuck"), Kind.STUCK, where
    for name, streams in facts.streams.items():
        # One that has not begun proves nothing.
        if streams.counted is not None and streams.counted.counted:
            yield MetricName(name, "missing"), Kind.MISSING, name
            yield MetricName(name, "excess"), Kind.EXCESS, name


def _is_allowed(plan: Plan, metric: MetricName, count: float) -> bool:
    """Return whether the objectives of a plan are about a metric, and admit a value of it."""
    allowed = [
        comparison
        for objective in plan.objectives
        if not objective.is_warning
        for required in objective.that.required
        for comparison in required.comparisons
        if len(required.comparisons) == 1 and comparison.metric == metric
    ]
    return bool(allowed) and all(each.holds(lambda _: count) for each in allowed)


def _doubts(plan: Plan, facts: Facts) -> Iterator[Finding]:
    yield from facts.broken_off
    explained = bool(facts.stuck) or any(
        found.kind in (Kind.DELETED, Kind.NOT_READ) for found in facts.broken_off
    )
    for name, writer in facts.writers.items():
        if writer.failure:
            yield Finding(kind=Kind.ENDED, subject=name, why=writer.failure)
        # One that waits for its commit sends nothing meanwhile, and that is the cluster's doing.
        elif writer.due and writer.transactions is None and _is_behind(writer):
            yield Finding(
                kind=Kind.BEHIND,
                subject=name,
                count=writer.due - len(writer.sent),
                why=f"{len(writer.sent)} of {writer.due}",
            )
        elif not any(one.is_acked for one in writer.sent):
            yield Finding(kind=Kind.UNANSWERED, subject=name)
        if writer.verdict is not None and writer.verdict.unread and not explained:
            yield Finding(kind=Kind.UNREAD, subject=name, count=writer.verdict.unread)
    for name, reader in facts.readers.items():
        if reader.failure:
            yield Finding(kind=Kind.ENDED, subject=name, why=reader.failure)
    for name, streams in facts.streams.items():
        if streams.counted is not None and not streams.counted.counted:
            yield Finding(kind=Kind.NOTHING_COUNTED, subject=name)
    for entry in plan.faults:
        fault = facts.faults.get(entry.name)
        if fault is not None and (fault.problem or fault.injected_ns is not None):
            yield from _doubts_of(fault, plan, facts)
        else:
            why = ""
            if isinstance(plan.end.instant, Exit):
                why = f": {plan.end.instant.name} ended before it was due, so nothing was tested"
            yield Finding(kind=Kind.NEVER_INJECTED, subject=entry.name, why=why)


def _is_behind(writer: WriterFacts) -> bool:
    return 1 - len(writer.sent) / writer.due > BEHIND_MAX


def _doubts_of(fault: FaultFacts, plan: Plan, facts: Facts) -> Iterator[Finding]:
    if fault.problem:
        yield Finding(kind=Kind.NOT_INJECTED, subject=fault.name, why=fault.problem)
        return
    if fault.counts and not fault.calls_broken:
        yield Finding(kind=Kind.NO_EFFECT, subject=fault.name)
    where = ", ".join(map(str, fault.places))
    if not fault.touched:
        yield Finding(kind=Kind.NOTHING_HIT, subject=fault.name, why=where)
    elif not _sent_meanwhile(fault, plan, facts):
        yield Finding(kind=Kind.NOTHING_SENT, subject=fault.name, why=where)


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


def _not_measured(objectives: Sequence[Held], facts: Facts) -> Iterator[Finding]:
    for held in objectives:
        if held.holds is None and not held.is_warning:
            why = dict.fromkeys(why_unknown(metric, facts) for metric in held.metrics)
            yield Finding(kind=Kind.NOT_MEASURED, subject=held.text, why=", ".join(why))


def _busy(facts: Facts) -> Iterator[Finding]:
    if facts.noise_ns > NOISE_MAX_NS:
        yield Finding(kind=Kind.BUSY, why=duration_text(facts.noise_ns / 1e9))
