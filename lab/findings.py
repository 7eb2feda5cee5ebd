"""Findings against a run, as values: a kind, a subject, a count and its unit.

The verdict is decided from the findings alone. Text, JSON, JUnit, page and exit code print them;
none of these decides anything from a sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from jbodlab.cli.results import FoundInRun


class Weight(Enum):
    """Effect of a finding on the verdict."""

    BREACH = "breach"
    """It fails the run, whatever there is to doubt."""
    MISS = "miss"
    """It fails the run where nothing is to be doubted."""
    DOUBT = "doubt"
    """The run proves nothing."""
    WARNING = "warning"
    """The verdict is what it would be without it."""


class Outcome(Enum):
    """The verdict, and the exit code of the command."""

    PASS = 0
    FAIL = 1
    INCONCLUSIVE = 2


def _of(weight: Weight) -> Callable[..., tuple[Weight, str, str, str]]:
    """Return what declares a kind of a weight: by its sentence, its unit and its rule."""
    return lambda text, unit="", rule="": (weight, unit, text, rule)


_breach, _miss, _doubt, _warning = map(_of, Weight)


class Kind(Enum):
    """Kinds of findings: weight, unit of the count, sentence, and the condition that must hold."""

    LOST = _breach(
        "{count} of the acknowledged messages of {subject} were lost",
        unit="messages",
        rule="nothing is lost",
    )
    TORN = _breach(
        "{count} transactions are not seen as they were answered",
        unit="transactions",
        rule="transactions are seen as they were answered",
    )
    STUCK = _breach(
        "the last stable offset of {subject} stands before the end after the full read",
        unit="partitions",
        rule="last stable offsets reach the end",
    )
    MISSING = _breach(
        "{count} words of the input were not counted by {subject}",
        unit="words",
        rule="every word is counted",
    )
    EXCESS = _breach(
        "{count} words were counted by {subject} that are not in the input",
        unit="words",
        rule="no word is counted twice",
    )

    MISSED = _miss("expected {subject}, measured {why}")
    ABORTED = _miss("aborted: expected {subject}; {why}", rule="the run is not aborted")

    NOT_STEADY = _doubt("no steady state within {why}")
    SKIPPED = _doubt("{subject} was not carried out: {why}")
    NOT_DONE = _doubt("{subject} could not be carried out: {why}")
    NOT_REVERTED = _doubt("{subject} could not be reverted: {why}")
    NOT_INJECTED = _doubt("{subject}: {why}")
    NEVER_INJECTED = _doubt("{subject} was never injected{why}")
    NO_EFFECT = _doubt("{subject} had no effect: the broker made no call that it breaks")
    NOTHING_HIT = _doubt("{subject} proves nothing: {why} has no partition of the plan's topics")
    NOTHING_SENT = _doubt(
        "nothing was sent to the partitions of {why} while {subject} was in effect"
    )
    ENDED = _doubt("{subject} ended before the end of the run: {why}")
    BEHIND = _doubt(
        "{subject} fell behind its own schedule: {why} messages were sent", unit="messages"
    )
    UNANSWERED = _doubt("{subject}: no message was acknowledged")
    NOTHING_COUNTED = _doubt("{subject} has counted nothing")
    NO_END = _doubt("{subject}, the end of the load, did not come within {why}")
    NO_LEADER = _doubt("no leader after the end: {subject}", unit="partitions")
    DELETED = _doubt("topic {subject} was deleted during the run")
    NOT_READ = _doubt("could not be read to the end: {subject}", unit="partitions")
    UNREAD = _doubt("{count} acknowledged messages of {subject} could not be read", unit="messages")
    NOT_MEASURED = _doubt("cannot judge {subject}: {why}")

    WARNED = _warning("{subject}: {why}")
    BUSY = _warning("this machine was busy: a tick of 10 ms came {why} late")

    def __new__(cls, *_: object) -> Self:
        """Two kinds may say the same, and are two all the same: else one would be an alias."""
        made = object.__new__(cls)
        made._value_ = len(cls.__members__)
        return made

    def __init__(self, weight: Weight, unit: str, sentence: str, rule: str) -> None:
        self.weight = weight
        self.unit = unit
        self.sentence = sentence
        self.rule = rule


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that speaks against a run.

    Attributes:
        subject: Its subject: a client, a fault, a partition or an objective.
        count: How many, in the unit of the kind; None where nothing is counted.
        why: Reason beyond that, as the sentence needs it.
    """

    kind: Kind
    subject: str = ""
    count: int | None = None
    why: str = ""

    @property
    def text(self) -> str:
        """The finding as a sentence."""
        return self.kind.sentence.format(subject=self.subject, count=self.count, why=self.why)

    @property
    def json(self) -> FoundInRun:
        """The finding as JSON values."""
        return {
            "kind": self.kind.name.lower(),
            "weight": self.kind.weight.value,
            "subject": self.subject,
            "count": self.count,
            "unit": self.kind.unit,
            "text": self.text,
        }


def outcome(findings: Iterable[Finding]) -> Outcome:
    """Return the verdict that follows from findings."""
    weights = {finding.kind.weight for finding in findings}
    if Weight.BREACH in weights:
        return Outcome.FAIL
    if Weight.DOUBT in weights:
        return Outcome.INCONCLUSIVE
    return Outcome.FAIL if Weight.MISS in weights else Outcome.PASS


def texts(findings: Iterable[Finding], *weights: Weight) -> list[str]:
    """Return the sentences of the findings that have one of these weights."""
    return [finding.text for finding in findings if finding.kind.weight in weights]
