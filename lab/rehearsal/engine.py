"""Lets a plan happen: steady state, timeline, end, healing, a full read; keeps what was seen.

The main thread decides every few milliseconds what is due. What takes time is done on two threads
that live as long as the run: one makes and heals faults, in order, and one carries out actions.
They must live so long: a server is killed by the kernel when the thread that started it ends.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from jbodlab.errors import JbodlabError
from jbodlab.expressions import Expression, Metric
from lab.cluster import NotInTimeError, processes, programs, wait_for
from lab.errors import LabError
from lab.rehearsal import actions
from lab.rehearsal.facts import Event, Facts, FaultFacts, WriterFacts, join
from lab.rehearsal.load import Load
from lab.rehearsal.metrics import NEVER, Measured
from lab.rehearsal.observer import Observer
from lab.rehearsal.patient import Patient
from lab.rehearsal.plan import LAST, After, At, Command, Entry, Plan, When, Writers
from lab.rehearsal.striking import Active, Striker
from lab.rehearsal.targets import Place
from lab.rehearsal.values import show_seconds

TICK_S = 0.05
REVIVE_PERIOD_NS = 500_000_000
REVIVE_AGAIN_NS = 3_000_000_000
RESTORED_DEADLINE_S = 60.0

Tell = Callable[[int, str], None]
"""Told of each step: nanoseconds since the steady state, and one line."""


class Rehearsal:
    """One run of a plan.

    Args:
        plan: What shall happen.
        patient: The cluster; it serves.
        folder: Where files of the run go.
        tell: Told of each step.
    """

    def __init__(self, plan: Plan, patient: Patient, folder: Path, tell: Tell) -> None:
        self._plan = plan
        self._patient = patient
        self._tell = tell
        self._chance = random.Random(plan.seed)
        self._partitions = {topic.name: topic.partitions for topic in plan.topics}
        self._observer = Observer(
            patient.cluster.state.brokers,
            patient.places,
            patient.metadata_log,
            self._partitions,
        )
        self._load = Load(
            plan,
            self._partitions,
            patient.cluster.bootstrap,
            folder,
            programs.environment(patient.cluster.root, processes.own_user()),
        )
        self._striker = Striker(
            patient, self._observer, self._partitions, self._chance, self._say, self._doubt
        )
        self._active: dict[str, Active] = {}
        self._moments: dict[tuple[str, str], int] = {}
        self._actions: dict[str, Future[None]] = {}
        self._events: list[Event] = []
        self._broken_off: list[str] = []
        self._reviving: dict[int, Future[None]] = {}
        self._tried_ns: dict[Place, int] = {}
        self._revive_after_ns = 0
        self._begin_ns = 0
        self._end_ns = 0
        self._faults_thread = ThreadPoolExecutor(1, thread_name_prefix="faults")
        self._actions_thread = ThreadPoolExecutor(2, thread_name_prefix="actions")

    def run(self) -> Facts:
        """Run it; everything is healed at the end, however it ends.

        Raises:
            LabError: the topics cannot be made, or a command of the load cannot be started.
        """
        try:
            for topic in self._plan.topics:
                actions.create_topic(self._patient.cluster, topic)
            self._observer.begin()
            try:
                self._load.start()
            except OSError as error:
                raise LabError(f"a client cannot be started: {error}") from error
            if self._become_steady():
                self._play()
            self._end_ns = time.monotonic_ns()
            self._say("action", "load-ends", "the load ends")
            self._heal_all()
            self._restore()
            self._load.stop()
            self._judge_messages()
            return self.facts()
        finally:
            self._close()

    def facts(self) -> Facts:
        """Return all that is known, now or at the end."""
        now = self._end_ns or time.monotonic_ns()
        begin = self._begin_ns or now
        return Facts(
            begin_ns=begin,
            end_ns=now,
            faults={
                name: active.facts for name, active in self._active.items() if active.entry.is_fault
            },
            writers=self._load.writers(begin, now),
            readers=self._load.readers(begin),
            commands=self._load.commands(begin),
            events=join(self._observer.events, self._events),
            samples=tuple(self._observer.samples),
            noise_ns=self._observer.noise_ns,
            not_measured=self._patient.not_measured,
            broken_off=tuple(self._broken_off),
        )

    # Steady state

    def _become_steady(self) -> bool:
        """Wait until the cluster is well for long enough; returns whether it was."""
        steady = self._plan.steady
        end = time.monotonic() + steady.within_s
        since = None
        missing = "nothing was asked yet"
        while time.monotonic() < end:
            now = time.monotonic()
            missing = self._not_steady(now - steady.hold_s)
            since = None if missing else since or now
            if since is not None and now - since >= steady.hold_s:
                self._begin_ns = time.monotonic_ns()
                self._observer.forget_noise()
                self._say("action", "steady", "the steady state is reached")
                return True
            time.sleep(TICK_S)
        self._begin_ns = time.monotonic_ns()
        self._doubt(f"no steady state within {steady.within_s:g} s: {missing}")
        return False

    def _not_steady(self, since_s: float) -> str:
        """Return what is missing, by what was seen lately."""
        for name, why in self._load.check().items():
            return f"{name} has ended: {why}"
        begin, now = int(since_s * 1e9), time.monotonic_ns()
        facts = replace(
            self.facts(),
            begin_ns=begin,
            writers=self._load.writers(begin, now),
            commands=self._load.commands(begin),
        )
        for load in self._plan.load:
            if isinstance(load, Command) and load.probe:
                probes = facts.commands[load.name].probes
                if not probes or not probes[-1].is_good:
                    return f"the probe of {load.name} is not answered"
        measured = Measured(facts)
        for writer in self._plan.writers:
            if missing := _silent(facts.writers[writer.name], writer, self._partitions):
                return missing
        if not self._plan.steady.that and measured(Metric("", "isr_full")) != 1:
            return "not every replica is in sync"
        for expression in self._plan.steady.that:
            if not expression.holds(measured):
                return _found(expression, measured)
        return ""

    # Timeline

    def _play(self) -> None:
        waiting = list(self._plan.timeline)
        when_since: dict[str, int] = {}
        while not self._is_over(waiting):
            now = time.monotonic_ns()
            self._collect()
            self._heal_due(now)
            self._revive_due(now)
            for entry in list(waiting):
                if isinstance(entry.instant, When):
                    # Only when the entries before it were made, and from then on.
                    if waiting[0] is not entry:
                        continue
                    since = when_since.setdefault(entry.name, now)
                    is_due = self._holds_now(entry, entry.instant, since, now, waiting)
                else:
                    is_due = self._is_due(entry.instant, now, waiting, entry)
                if is_due:
                    waiting.remove(entry)
                    self._make(entry)
            if aborting := self._aborts():
                self._say("action", "abort", f"broken off: {aborting}")
                break
            time.sleep(TICK_S)

    def _is_due(self, instant: At | After, now: int, waiting: list[Entry], entry: Entry) -> bool:
        at = self._instant_ns(instant, entry)
        if at is None:
            return False
        if at == NEVER:
            waiting.remove(entry)
            self._moments[entry.name, "skipped"] = now
            self._doubt(f"{entry.name} was not made: {_shown(instant)} never came")
            return False
        return now >= at

    def _instant_ns(self, instant: At | After, entry: Entry | None = None) -> float | None:
        """Return when an instant is; None while that is open, infinity if it never comes.

        `last` means all entries, and to an entry those above it.
        """
        if isinstance(instant, At):
            return self._begin_ns + instant.seconds * 1e9
        entries = list(self._plan.timeline)
        if entry is not None:
            del entries[entries.index(entry) :]
        names = (
            [entry.name for entry in entries]
            if instant.name == LAST
            else [
                entry.name
                for entry in self._plan.timeline
                if instant.name in (entry.name, entry.name.partition("#")[0])
            ]
        )
        moments = [self._moment_ns(name, instant.moment) for name in names]
        if NEVER in moments:
            return NEVER
        if not moments or None in moments:
            return None
        return max(moment for moment in moments if moment is not None) + instant.plus_s * 1e9

    def _moment_ns(self, name: str, moment: str) -> float | None:
        active = self._active.get(name)
        if active is None:
            return self._moments.get((name, "skipped")) and NEVER
        if not active.entry.is_fault:
            done = self._moments.get((name, "done"))
            return done if moment == "healed" else self._moments.get((name, "made"))
        facts = active.facts
        if facts.problem:
            return NEVER
        if moment in ("injected", "proved"):
            return facts.injected_ns
        if moment == "healed":
            return facts.healed_ns
        value = Measured(self.facts())(Metric(name, moment))
        known = value not in (None, NEVER) and facts.begin_ns is not None
        return facts.begin_ns + value * 1e9 if known else None  # type: ignore[operator]

    def _holds_now(
        self, entry: Entry, instant: When, since: int, now: int, waiting: list[Entry]
    ) -> bool:
        if instant.expression.holds(Measured(self.facts())):
            return True
        if now - since > instant.within_s * 1e9:
            waiting.remove(entry)
            self._moments[entry.name, "skipped"] = now
            self._doubt(
                f"{entry.name} was not made: {instant.expression} did not hold within "
                f"{show_seconds(instant.within_s)}"
            )
        return False

    def _is_over(self, waiting: list[Entry]) -> bool:
        end, now = self._plan.end, time.monotonic_ns()
        for name, why in self._load.check().items():
            if not any(name in text for text in self._broken_off):
                self._doubt(f"{name} ended before the end of the run: {why}")
            return True
        at = self._end_instant_ns(waiting)
        if at is not None:
            return now >= at
        if now > self._begin_ns + end.within_s * 1e9:
            self._doubt(f"the end never came: {_shown(end.instant)} within {end.within_s:g} s")
            return True
        return False

    def _end_instant_ns(self, waiting: list[Entry]) -> float | None:
        instant = self._plan.end.instant
        if isinstance(instant, At):
            return self._begin_ns + instant.seconds * 1e9
        if instant.name == LAST and instant.moment == "healed":
            # What has no length stands until the end, which does not wait for it.
            if waiting or any(self._is_open(active) for active in self._active.values()):
                return None
            ends = [self._settled_ns(active) for active in self._active.values()]
            return max(ends, default=self._begin_ns) + instant.plus_s * 1e9
        found = self._instant_ns(instant)
        return time.monotonic_ns() if found == NEVER else found

    def _is_open(self, active: Active) -> bool:
        if active.made is not None and not active.made.done():
            return True
        if not active.entry.is_fault or active.facts.problem:
            return False
        return active.entry.length_s is not None and active.facts.healed_ns is None

    def _settled_ns(self, active: Active) -> int:
        facts, name = active.facts, active.entry.name
        return (
            facts.healed_ns
            or facts.injected_ns
            or self._moments.get((name, "done"))
            or self._moments.get((name, "made"))
            or self._begin_ns
        )

    def _aborts(self) -> str:
        wanted = [one for one in self._plan.objectives if one.aborts]
        if not wanted:
            return ""
        measured = Measured(self.facts())
        for objective in wanted:
            known = all(measured(metric) is not None for metric in objective.that.metrics)
            if known and not objective.that.holds(measured):
                return _found(objective.that, measured)
        return ""

    # Making and healing

    def _make(self, entry: Entry) -> None:
        now = time.monotonic_ns()
        active = Active(entry, FaultFacts(name=entry.name, kind=entry.do))
        self._active[entry.name] = active
        self._moments[entry.name, "made"] = now
        if entry.is_fault:
            active.made = self._faults_thread.submit(self._striker.inject, active)
        else:
            active.made = self._actions_thread.submit(self._act, entry)

    def _act(self, entry: Entry) -> None:
        try:
            text = actions.carry_out(entry, self._patient, self._observer, self._chance)
            self._say("action", entry.do, text, ref=entry.name)
        except (JbodlabError, NotInTimeError, ValueError) as error:
            self._doubt(f"{entry.name} could not be carried out: {str(error).splitlines()[0]}")
        self._moments[entry.name, "done"] = time.monotonic_ns()

    def _heal_due(self, now: int) -> None:
        for active in self._active.values():
            length, injected = active.entry.length_s, active.facts.injected_ns
            if length is None or injected is None or active.healing is not None:
                continue
            if now >= injected + length * 1e9:
                active.healing = self._faults_thread.submit(self._striker.heal, active)

    def _collect(self) -> None:
        """Let errors of the threads come out, which are mistakes of this program."""
        for active in self._active.values():
            for future in (active.made, active.healing):
                if future is not None and future.done():
                    future.result()

    def _revive_due(self, now: int) -> None:
        """Bring back directories that were healed and that their brokers still call offline."""
        if now < self._revive_after_ns:
            return
        self._revive_after_ns = now + REVIVE_PERIOD_NS
        for active in self._active.values():
            facts = active.facts
            is_open = facts.injected_ns is not None and active.healing is None
            if is_open and facts.first_bite_ns is None:
                self._faults_thread.submit(self._striker.count, active)
        standing: set[Place] = set()
        struck: set[Place] = set()
        for active in self._active.values():
            is_healed = active.facts.healed_ns is not None
            (struck if is_healed else standing).update(active.facts.places)
        stopped = {place.broker for place in standing if not place.directory}
        healed = struck - standing
        away = {place for place in healed if self._is_away(place, stopped)}
        wanted = [
            place
            for place in sorted(away | healed & self._observer.offline)
            if now > self._tried_ns.get(place, 0) + REVIVE_AGAIN_NS
        ]
        for broker in {place.broker for place in wanted} - set(self._reviving):
            places = [place for place in wanted if place.broker == broker]
            self._reviving[broker] = self._actions_thread.submit(self._revive, places)
        for broker in [each for each, future in self._reviving.items() if future.done()]:
            self._reviving.pop(broker).result()

    def _revive(self, places: list[Place]) -> None:
        """Bring back directories of one broker; only one thread at a time may start it."""
        for place in places:
            self._striker.revive(place)
            # What was brought back is seen a moment later.
            self._tried_ns[place] = time.monotonic_ns()

    def _is_away(self, place: Place, stopped: set[int]) -> bool:
        """Return whether a broker has ended over its disks, so that it has to be started."""
        if not place.directory or not self._patient.may_start or place.broker in stopped:
            return False
        return not self._patient.cluster.broker(place.broker).is_running

    def _heal_all(self) -> None:
        for active in self._active.values():
            if active.made is not None:
                active.made.result()
            facts = active.facts
            is_open = active.handles and facts.healed_ns is None
            if is_open and active.healing is None:
                active.healing = self._faults_thread.submit(self._striker.heal, active)
            if active.healing is not None:
                active.healing.result()
        self._end_ns = max(self._end_ns, time.monotonic_ns())

    def _restore(self) -> None:
        """Wait until every partition can be read, for what is not read cannot be judged."""
        struck = {place for active in self._active.values() for place in active.facts.places}
        since = time.monotonic_ns()

        def is_restored() -> bool:
            self._revive_due(time.monotonic_ns())
            samples, picture = self._observer.samples, self._observer.picture
            if any(self._is_away(place, set()) for place in struck):
                return False
            # What was told before may be about a broker that has ended meanwhile.
            is_new = bool(samples) and samples[-1].t_ns > since
            return is_new and all(each >= 0 for each in picture.leaders.values())

        try:
            wait_for("leaders of all partitions", is_restored, RESTORED_DEADLINE_S)
        except NotInTimeError:
            gone = [str(p) for p, leader in self._observer.picture.leaders.items() if leader < 0]
            self._doubt(f"after the end {', '.join(sorted(gone))} had no leader")
            return
        # A replica that comes back after the load has ended does come back.
        with contextlib.suppress(NotInTimeError):
            wait_for(
                "every replica in sync",
                lambda: all(map(self._observer.isr_is_full, self._observer.picture.leaders)),
                RESTORED_DEADLINE_S,
            )

    def _judge_messages(self) -> None:
        try:
            self._load.judge()
        except NotInTimeError as error:
            self._doubt(str(error).splitlines()[0])
        for topic, unread in self._load.unread.items():
            self._doubt(f"partitions {unread} of {topic} could not be read to their ends")

    def _close(self) -> None:
        # First whatever is being made comes to its end, so that nothing is made behind our back.
        self._faults_thread.shutdown(cancel_futures=True)
        try:
            for active in self._active.values():
                for handle in active.handles[::-1]:
                    handle.heal()
        finally:
            self._load.kill()
            self._observer.stop()
            self._actions_thread.shutdown(cancel_futures=True)

    # Telling

    def _doubt(self, text: str) -> None:
        if text not in self._broken_off:
            self._broken_off.append(text)
            self._say("action", "doubt", text)

    def _say(
        self,
        source: str,
        kind: str,
        text: str,
        *,
        ref: str = "",
        at_ns: int | None = None,
        place: Place | None = None,
    ) -> None:
        t_ns = time.monotonic_ns() if at_ns is None else at_ns
        self._events.append(
            Event(t_ns=t_ns, source=source, kind=kind, text=text, ref=ref, place=place)
        )
        self._tell(t_ns - self._begin_ns if self._begin_ns else 0, text)


def _silent(facts: WriterFacts, writer: Writers, partitions: Mapping[str, int]) -> str:
    """Return whether a partition has not acknowledged anything yet, as a sentence."""
    acked = {one.partition for one in facts.sent if one.is_acked}
    wanted = min(partitions[writer.topic], writer.keys)
    if not acked:
        return f"no message of {writer.name} was acknowledged"
    # At a low rate not every partition has its turn in so short a time.
    if writer.rate > 20 * wanted and len(acked) < wanted:
        return f"{writer.name} had acknowledgements of {len(acked)} of {wanted} partitions"
    return ""


def _found(expression: Expression, measured: Measured) -> str:
    values = [
        f"{metric} is {'not known' if (value := measured(metric)) is None else f'{value:g}'}"
        for metric in expression.metrics
    ]
    return f"{expression} does not hold: {', '.join(values)}"


def _shown(instant: At | After) -> str:
    if isinstance(instant, At):
        return f"{instant.seconds:g} s"
    return f"{instant.name}.{instant.moment}"
