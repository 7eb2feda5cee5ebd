"""Decides what is due in a run of a plan by what is known in that moment; it asks no clock.

A run passes through phases. It waits for the steady state; then the timeline is played, until its
end or a reason to end sooner; what still stands is reverted; partitions get time for their leaders,
and replicas time to be in sync; at last everything is read. `Schedule.step` is called again and
again, and returns what is to be done now. All times are nanoseconds of one clock.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Protocol

from jbodlab.picture.cluster_picture import PartitionPicture
from jbodlab.picture.places import Place
from jbodlab.vocabulary.durations import duration_text
from jbodlab.vocabulary.expressions import Expression, MetricName, MetricUnit
from jbodlab.vocabulary.ids import TopicPartition
from lab.findings import Finding, Kind
from lab.plan.plan import LAST, After, At, Entry, Exit, Plan, When
from lab.rehearsal.facts import FaultFacts
from lab.rehearsal.metrics import NEVER

NS = 1_000_000_000
REVIVE_PERIOD_NS = NS // 2
REVIVE_AGAIN_NS = 3 * NS
RESTORED_DEADLINE_NS = 60 * NS
"""How long partitions may take to have leaders after the end, and then replicas to be in sync."""


class Values(Protocol):
    """Metrics in a moment."""

    def __call__(self, metric: MetricName) -> float | None:
        """Return the value of a metric; None where nobody knows it."""

    def shown(self, metric: MetricName, unit: MetricUnit) -> str:
        """Return it as a person reads it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """Facts about a run in a moment.

    Attributes:
        values: Metrics of that moment.
        missing: Conditions that are missing for the steady state; empty if none is.
        ended: Clients that have ended by themselves, with the last thing they said.
        faults: Fate of each fault that was begun.
        standing: Names of faults of which something is still to be reverted.
        busy: Names of entries that are being carried out or reverted.
        done_ns: When each action ended.
        offline: Directories that their brokers call offline.
        is_away: Whether a broker has ended that may be started here.
        reviving: Brokers of which directories are being brought back.
        tried_ns: When a directory was last brought back, or that was tried.
        partitions: Those that are watched, as clients were told last.
        seen_ns: When that was.
    """

    values: Values
    missing: str = ""
    ended: Mapping[str, str] = field(default_factory=dict)
    faults: Mapping[str, FaultFacts] = field(default_factory=dict)
    standing: Collection[str] = ()
    busy: Collection[str] = ()
    done_ns: Mapping[str, int] = field(default_factory=dict)
    offline: Collection[Place] = ()
    is_away: Callable[[int], bool] = lambda _: False
    reviving: Collection[int] = ()
    tried_ns: Mapping[Place, int] = field(default_factory=dict)
    partitions: Mapping[TopicPartition, PartitionPicture] = field(default_factory=dict)
    seen_ns: int = 0


@dataclass(frozen=True, slots=True)
class Begin:
    """The steady state is reached: what is measured begins."""


@dataclass(frozen=True, slots=True)
class Make:
    """Carry out the entries of one instant."""

    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Heal:
    """Revert a fault."""

    name: str


@dataclass(frozen=True, slots=True)
class Count:
    """Look what a fault has broken until now."""

    name: str


@dataclass(frozen=True, slots=True)
class Revive:
    """Bring back directories of one broker."""

    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class Doubt:
    """Write down what speaks against the run, which goes on."""

    finding: Finding


@dataclass(frozen=True, slots=True)
class Abort:
    """An objective is missed that ends the measured time at once."""

    finding: Finding


@dataclass(frozen=True, slots=True)
class End:
    """The measured time is over: as planned, or for a reason that speaks against the run."""

    finding: Finding | None = None


@dataclass(frozen=True, slots=True)
class Read:
    """Nothing is left to wait for: everything is read now, and the run is over."""


Instruction = Begin | Make | Heal | Count | Revive | Doubt | Abort | End | Read


class _Phase(Enum):
    STEADYING = auto()
    PLAYING = auto()
    REVERTING = auto()
    AWAITING_LEADERS = auto()
    AWAITING_REPLICAS = auto()
    OVER = auto()


class Schedule:
    """The course of one run.

    Args:
        plan: The plan.
    """

    def __init__(self, plan: Plan) -> None:
        self.begin_ns = 0
        """The end of the steady state, or of waiting for it; 0 before it."""
        self._plan = plan
        self._phase = _Phase.STEADYING
        self._since_ns: int | None = None
        """When the phase began."""
        self._steady_ns: int | None = None
        """Since when nothing is missing for the steady state."""
        self._missing = "nothing was asked yet"
        self._waiting = list(plan.timeline)
        self._when_ns: dict[str, int] = {}
        """Since when the condition of an entry is looked at."""
        self._made_ns: dict[str, int] = {}
        self._skipped: set[str] = set()
        self._healing: set[str] = set()
        self._revive_ns = 0

    @property
    def is_over(self) -> bool:
        """Whether everything is read, or about to be."""
        return self._phase is _Phase.OVER

    def step(self, now: int, known: Known) -> list[Instruction]:
        """Return what is to be done now, in this order."""
        if self._since_ns is None:
            self._since_ns = now
        match self._phase:
            case _Phase.STEADYING:
                return self._steady(now, known)
            case _Phase.PLAYING:
                return self._play(now, known)
            case _Phase.REVERTING:
                return self._revert(now, known)
            case _Phase.OVER:
                return []
        return self._restore(now, known)

    def _enter(self, phase: _Phase, now: int) -> None:
        self._phase, self._since_ns = phase, now

    def _ends(self, now: int, instruction: Abort | End) -> list[Instruction]:
        self._enter(_Phase.REVERTING, now)
        return [instruction]

    # Steady state

    def _steady(self, now: int, known: Known) -> list[Instruction]:
        steady = self._plan.steady
        # Where it held at last, but not for long enough: what was missing before.
        self._missing = known.missing or self._missing
        self._steady_ns = None if known.missing else (self._steady_ns or now)
        if self._steady_ns is not None and now - self._steady_ns >= steady.hold_s * NS:
            self.begin_ns = now
            self._enter(_Phase.PLAYING, now)
            return [Begin()]
        assert self._since_ns is not None
        if now - self._since_ns < steady.within_s * NS:
            return []
        self.begin_ns = now
        why = f"{duration_text(steady.within_s)}: {self._missing}"
        return self._ends(now, End(Finding(kind=Kind.NOT_STEADY, why=why)))

    # Timeline

    def _play(self, now: int, known: Known) -> list[Instruction]:
        if (end := self._end(now, known)) is not None:
            return self._ends(now, end)
        found: list[Instruction] = [
            Heal(entry.name) for entry in self._plan.timeline if self._has_lasted(entry, now, known)
        ]
        self._healing.update(each.name for each in found if isinstance(each, Heal))
        found += self._revive_due(now, known)
        due = []
        for entry in list(self._waiting):
            # A condition counts only when the entries before it were made, and from then on.
            if isinstance(entry.instant, When) and self._waiting[0] is not entry:
                continue
            is_due, never = self._is_due(entry, now, known)
            if is_due or never:
                self._waiting.remove(entry)
            if is_due:
                due.append(entry)
            elif never:
                self._skipped.add(entry.name)
                found.append(Doubt(Finding(kind=Kind.SKIPPED, subject=entry.name, why=never)))
        if due:
            self._made_ns.update(dict.fromkeys([entry.name for entry in due], now))
            found.append(Make(tuple(due)))
        if (finding := self._missed(known)) is not None:
            found += self._ends(now, Abort(finding))
        return found

    def _has_lasted(self, entry: Entry, now: int, known: Known) -> bool:
        """Return whether a fault has lasted as long as it is to."""
        facts = known.faults.get(entry.name)
        if facts is None or facts.injected_ns is None or entry.name in self._healing:
            return False
        return entry.length_s is not None and now >= facts.injected_ns + entry.length_s * NS

    def _is_due(self, entry: Entry, now: int, known: Known) -> tuple[bool, str]:
        """Return whether an entry is due, and why it never will be, if that is so."""
        if isinstance(instant := entry.instant, When):
            since = self._when_ns.setdefault(entry.name, now)
            if instant.expression.holds(known.values):
                return True, ""
            within = duration_text(instant.within_s)
            is_late = now - since > instant.within_s * NS
            return False, f"{instant.expression} did not hold within {within}" if is_late else ""
        at = self._instant_ns(instant, known, entry)
        if at == NEVER:
            return False, f"{_shown(instant)} never came"
        return at is not None and now >= at, ""

    def _instant_ns(
        self, instant: At | After, known: Known, entry: Entry | None = None
    ) -> float | None:
        """Return when an instant is; None while that is open, infinity if it never comes.

        `last` means all entries, and to an entry those above it.
        """
        if isinstance(instant, At):
            return self.begin_ns + instant.seconds * NS
        entries = list(self._plan.timeline)
        if instant.name != LAST:
            entries = [
                each for each in entries if instant.name in (each.name, each.name.partition("#")[0])
            ]
        elif entry is not None:
            del entries[entries.index(entry) :]
        moments = [self._moment_ns(each, instant.moment, known) for each in entries]
        if NEVER in moments:
            return NEVER
        there = [moment for moment in moments if moment is not None]
        return max(there) + instant.plus_s * NS if there and len(there) == len(moments) else None

    def _moment_ns(self, entry: Entry, moment: str, known: Known) -> float | None:
        name, facts = entry.name, known.faults.get(entry.name)
        if name not in self._made_ns:
            return NEVER if name in self._skipped else None
        if not entry.is_fault:
            return known.done_ns.get(name) if moment == "healed" else self._made_ns[name]
        if facts is None:
            return None
        if facts.problem:
            return NEVER
        if moment in ("injected", "proved"):
            return facts.injected_ns
        if moment == "healed":
            return facts.healed_ns
        value = known.values(MetricName(name, moment))
        if value is None or value == NEVER or facts.begin_ns is None:
            return None
        return facts.begin_ns + value * NS

    # The end of the measured time

    def _end(self, now: int, known: Known) -> End | None:
        end = self._plan.end
        for name, why in known.ended.items():
            is_meant = end.instant == Exit(name=name)
            return End(None if is_meant else Finding(kind=Kind.ENDED, subject=name, why=why))
        at = None if isinstance(end.instant, Exit) else self._end_ns(end.instant, known)
        if at is not None:
            return End() if at == NEVER or now >= at else None
        if now <= self.begin_ns + end.within_s * NS:
            return None
        within = duration_text(end.within_s)
        return End(Finding(kind=Kind.NO_END, subject=_shown(end.instant), why=within))

    def _end_ns(self, instant: At | After, known: Known) -> float | None:
        if not (isinstance(instant, After) and instant.name == LAST and instant.moment == "healed"):
            return self._instant_ns(instant, known)
        # A fault without a length lasts until the end, which does not wait for it.
        made = [entry for entry in self._plan.timeline if entry.name in self._made_ns]
        if self._waiting or any(self._is_open(entry, known) for entry in made):
            return None
        ends = [self._settled_ns(entry.name, known) for entry in made]
        return max(ends, default=self.begin_ns) + instant.plus_s * NS

    @staticmethod
    def _is_open(entry: Entry, known: Known) -> bool:
        facts = known.faults.get(entry.name)
        if not entry.is_fault or (facts and facts.problem):
            return entry.name in known.busy
        if facts is None or facts.injected_ns is None:
            return True
        return entry.length_s is not None and facts.healed_ns is None

    def _settled_ns(self, name: str, known: Known) -> int:
        facts = known.faults.get(name)
        of_fault = (facts.healed_ns or facts.injected_ns) if facts else None
        return of_fault or known.done_ns.get(name) or self._made_ns[name]

    def _missed(self, known: Known) -> Finding | None:
        """Return what ends the run at once; None where nothing does."""
        for wanted in (one.that for one in self._plan.objectives if one.aborts):
            is_known = all(known.values(metric) is not None for metric in wanted.metrics)
            if is_known and not wanted.holds(known.values):
                why = values_of(wanted, known.values)
                return Finding(kind=Kind.ABORTED, subject=str(wanted), why=why)
        return None

    # Broken parts come back

    def _revive_due(self, now: int, known: Known) -> list[Instruction]:
        """Bring back directories that were reverted and that their brokers still call offline."""
        if now < self._revive_ns:
            return []
        self._revive_ns = now + REVIVE_PERIOD_NS
        found: list[Instruction] = [
            Count(name)
            for name, facts in known.faults.items()
            if facts.injected_ns is not None and name not in self._healing
            if facts.first_broken_ns is None
        ]
        standing = _places(known, (name for name in known.faults if self._stands(name, known)))
        stopped = {place.broker for place in standing if not place.directory}
        # A broker that is down for another fault is not to be started for its directories.
        healed = {
            place
            for place in _places(known, known.faults) - standing
            if place.broker not in stopped
        }
        wanted = [
            place
            for place in sorted(healed)
            if place in known.offline or _is_away(place, known)
            if now > known.tried_ns.get(place, 0) + REVIVE_AGAIN_NS
        ]
        brokers = sorted({place.broker for place in wanted} - set(known.reviving))
        by_broker = [[place for place in wanted if place.broker == broker] for broker in brokers]
        return [*found, *(Revive(tuple(places)) for places in by_broker)]

    def _stands(self, name: str, known: Known) -> bool:
        """Return whether a fault may break something; one that was refused never does."""
        is_being_made = name in known.busy and name not in self._healing
        return is_being_made or name in known.standing

    def _revert(self, now: int, known: Known) -> list[Instruction]:
        """Revert what stands, as soon as it is made, and wait for that."""
        due = [
            name
            for name in known.faults
            if name in known.standing and name not in self._healing and name not in known.busy
        ]
        self._healing.update(due)
        if not due and not known.busy:
            self._enter(_Phase.AWAITING_LEADERS, now)
        return [Heal(name) for name in due]

    def _restore(self, now: int, known: Known) -> list[Instruction]:
        """Wait until every partition can be read, for what is not read cannot be judged.

        A replica that comes back after the load has ended does come back, and so does a directory
        without any: these are waited for as well.
        """
        found = self._revive_due(now, known)
        hit = _places(known, known.faults)
        assert self._since_ns is not None
        is_late = now > self._since_ns + RESTORED_DEADLINE_NS
        if self._phase is _Phase.AWAITING_LEADERS:
            gone = sorted(str(one) for one, view in known.partitions.items() if view.leader < 0)
            # An answer from before may be about a broker that has ended meanwhile.
            is_told = known.seen_ns > self._since_ns
            if is_told and not gone and not any(_is_away(place, known) for place in hit):
                self._enter(_Phase.AWAITING_REPLICAS, now)
            elif is_late:
                where = ", ".join(gone)
                found.append(
                    Doubt(Finding(kind=Kind.NO_LEADER, subject=where, count=len(gone))),
                )
                return [*found, *self._read(now)]
            return found
        in_sync = all(one.is_in_sync for one in known.partitions.values())
        is_whole = in_sync and not hit & set(known.offline)
        return [*found, *self._read(now)] if is_whole or is_late else found

    def _read(self, now: int) -> list[Instruction]:
        self._enter(_Phase.OVER, now)
        return [Read()]


def _places(known: Known, names: Iterable[str]) -> set[Place]:
    return {place for name in names for place in known.faults[name].places}


def _is_away(place: Place, known: Known) -> bool:
    """Return whether a broker has ended over its disks, so that it has to be started."""
    return bool(place.directory) and known.is_away(place.broker)


def values_of(expression: Expression, values: Values) -> str:
    """Return what the metrics of a condition are."""
    shown = [
        f"{each.metric} is {values.shown(each.metric, each.wanted.unit)}"
        for each in expression.comparisons
    ]
    return ", ".join(dict.fromkeys(shown))


def _shown(instant: At | After | Exit) -> str:
    if isinstance(instant, At):
        return f"{instant.seconds:g} s"
    if isinstance(instant, Exit):
        return f"the end of {instant.name}"
    return f"{instant.name}.{instant.moment}"
