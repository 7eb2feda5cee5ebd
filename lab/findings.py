"""Findings against a run, as values: a kind, a subject, a count and its unit.

The verdict is decided from the findings alone. Text, JSON, JUnit, page and exit code print them;
none of these decides anything from a sentence.
"""

from __future__ import annotations

from collections.abc import Iterable
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


class Kind(Enum):
    """Kinds of findings: weight, unit of the count, sentence, and the condition that must hold."""

    LOST = (
        Weight.BREACH,
        "messages",
        "{count} of the acknowledged messages of {subject} were lost",
        "nothing is lost",
    )
    TORN = (
        Weight.BREACH,
        "transactions",
        "{count} transactions are not seen as they were answered",
        "transactions are seen as they were answered",
    )
    STUCK = (
        Weight.BREACH,
        "partitions",
        "the last stable offset of {subject} stands before the end after the full read",
        "last stable offsets reach the end",
    )
    MISSING = (
        Weight.BREACH,
        "words",
        "{count} words of the input were not counted by {subject}",
        "every word is counted",
    )
    EXCESS = (
        Weight.BREACH,
        "words",
        "{count} words were counted by {subject} that are not in the input",
        "no word is counted twice",
    )

    MISSED = Weight.MISS, "", "expected {subject}, measured {why}", ""
    ABORTED = Weight.MISS, "", "aborted: expected {subject}; {why}", "the run is not aborted"

    NOT_STEADY = Weight.DOUBT, "", "no steady state within {why}", ""
    SKIPPED = Weight.DOUBT, "", "{subject} was not carried out: {why}", ""
    NOT_DONE = Weight.DOUBT, "", "{subject} could not be carried out: {why}", ""
    NOT_REVERTED = Weight.DOUBT, "", "{subject} could not be reverted: {why}", ""
    NOT_INJECTED = Weight.DOUBT, "", "{subject}: {why}", ""
    NEVER_INJECTED = Weight.DOUBT, "", "{subject} was never injected{why}", ""
    NO_EFFECT = (
        Weight.DOUBT,
        "",
        "{subject} had no effect: the broker made no call that it breaks",
        "",
    )
    NOTHING_HIT = (
        Weight.DOUBT,
        "",
        "{subject} proves nothing: {why} has no partition of the plan's topics",
        "",
    )
    NOTHING_SENT = (
        Weight.DOUBT,
        "",
        "nothing was sent to the partitions of {why} while {subject} was in effect",
        "",
    )
    ENDED = Weight.DOUBT, "", "{subject} ended before the end of the run: {why}", ""
    BEHIND = (
        Weight.DOUBT,
        "messages",
        "{subject} fell behind its own schedule: {why} messages were sent",
        "",
    )
    UNANSWERED = Weight.DOUBT, "", "{subject}: no message was acknowledged", ""
    NOTHING_COUNTED = Weight.DOUBT, "", "{subject} has counted nothing", ""
    NO_END = Weight.DOUBT, "", "{subject}, the end of the load, did not come within {why}", ""
    NO_LEADER = Weight.DOUBT, "partitions", "no leader after the end: {subject}", ""
    DELETED = Weight.DOUBT, "", "topic {subject} was deleted during the run", ""
    NOT_READ = Weight.DOUBT, "partitions", "could not be read to the end: {subject}", ""
    UNREAD = (
        Weight.DOUBT,
        "messages",
        "{count} acknowledged messages of {subject} could not be read",
        "",
    )
    NOT_MEASURED = Weight.DOUBT, "", "cannot judge {subject}: {why}", ""

    WARNED = Weight.WARNING, "", "{subject}: {why}", ""
    BUSY = Weight.WARNING, "", "this machine was busy: a tick of 10 ms came {why} late", ""

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
