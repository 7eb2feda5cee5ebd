"""Lets a plan happen: steady state, timeline, end, healing, a full read; keeps what was seen.

The main thread decides every few milliseconds what is due. What takes time is done on two threads
that live as long as the run: one makes and heals faults, in order, and one carries out actions.
They must live so long: a server is killed by the kernel when the thread that started it ends.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from jbodlab.vocabulary.durations import duration_text
from jbodlab.vocabulary.errors import JbodlabError
from jbodlab.vocabulary.expressions import Expression, Metric
from jbodlab.vocabulary.ids import TopicPartition
from lab.cluster import NotInTimeError, security, wait_for
from lab.cluster.places import Place
from lab.errors import LabError
from lab.findings import Finding, Kind
from lab.machine import processes, programs
from lab.plan.plan import LAST, After, At, Command, Entry, Exit, Plan, When, Writers
from lab.rehearsal import actions
from lab.rehearsal.facts import Facts, FaultFacts, WriterFacts
from lab.rehearsal.injecting import Active, Injector
from lab.rehearsal.load import Load
from lab.rehearsal.metrics import NEVER, Measured
from lab.rehearsal.target_cluster import TargetCluster
from lab.rehearsal.telling import Tell, Telling
from lab.watch.events import Event, join
from lab.watch.observer import Observer

TICK_S = 0.05
REVIVE_PERIOD_NS = 500_000_000
REVIVE_AGAIN_NS = 3_000_000_000
RESTORED_DEADLINE_S = 60.0
BROUGHT_BACK_S = (1.0, 2.0)
"""Pauses after which directories are brought back again at an early end."""


class Rehearsal:
    """One run of a plan.

    Args:
        plan: What shall happen.
        target_cluster: The cluster; it serves.
        folder: Where files of the run go.
        tell: Is told of each step, and of what is seen of the cluster.
    """

    def __init__(self, plan: Plan, target_cluster: TargetCluster, folder: Path, tell: Tell) -> None:
        self._plan = plan
        self._target_cluster = target_cluster
        self._telling = Telling(tell)
        self._told = 0
        self._chance = random.Random(plan.seed)
        self._partitions = {topic.name: topic.partitions for topic in plan.topics}
        self._observer = Observer(
            target_cluster.cluster.state.brokers,
            target_cluster.places,
            target_cluster.metadata_log,
            self._partitions,
            metrics=target_cluster.metrics,
            transactional_ids=plan.transactional_ids,
            applications={each.name: each.application_id for each in plan.streams},
        )
        self._load = Load(
            plan,
            self._partitions,
            target_cluster.cluster.application_config,
            security.client_files(target_cluster.cluster.state),
            security.client_config(target_cluster.cluster.state, "java"),
            folder,
            programs.environment(target_cluster.cluster.root, processes.own_user()),
        )
        self._injector = Injector(
            target_cluster, self._observer, self._chance, self._say, self._find
        )
        self._active: dict[str, Active] = {}
        self._moments: dict[tuple[str, str], int] = {}
        self._actions: dict[str, Future[None]] = {}
        self._events: list[Event] = []
        self._broken_off: list[Finding] = []
        self._reviving: dict[int, Future[None]] = {}
        self._tried_ns: dict[Place, int] = {}
        self._revive_after_ns = 0
        self._begin_ns = 0
        self._end_ns = 0
        self._is_restored = False
        self._measured: Measured | None = None
        self._joined: tuple[tuple[int, int], list[Event]] = ((0, 0), [])
        self._acked_again: set[tuple[str, TopicPartition]] = set()
        self._faults_thread = ThreadPoolExecutor(1, thread_name_prefix="faults")
        self._actions_thread = ThreadPoolExecutor(2, thread_name_prefix="actions")

    def run(self) -> Facts:
        """Run it; everything is healed at the end, however it ends.

        Raises:
            LabError: the topics cannot be made, or a command of the load cannot be started.
        """
        try:
            for topic in self._plan.topics:
                actions.create_topic(self._target_cluster.cluster, topic)
            self._observer.begin()
            try:
                self._load.start()
            except OSError as error:
                raise LabError(f"a client cannot be started: {error}") from error
            if self._become_steady():
                self._play()
            self._end_ns = time.monotonic_ns()
            self._say("action", "load-ends", "end of the measured time")
            self._heal_all()
            self._restore()
            self._is_restored = True
            self._load.stop()
            self._say("action", "full-read", "reading every topic to its end")
            self._tell_seen()
            self._judge_messages()
            return self.facts()
        finally:
            self._close()

    def facts(self, since_ns: int | None = None) -> Facts:
        """Return all that is known, now or at the end, from the steady state or a moment on."""
        now = self._end_ns or time.monotonic_ns()
        begin = since_ns or self._begin_ns or now
        return Facts(
            begin_ns=begin,
            end_ns=now,
            faults={
                name: active.facts for name, active in self._active.items() if active.entry.is_fault
            },
            writers=self._load.writers(begin, now),
            readers=self._load.readers(begin, now),
            commands=self._load.commands(begin),
            streams=self._load.streams(),
            events=self._all_events(),
            samples=tuple(self._observer.samples[-1:]),
            noise_ns=self._observer.noise_ns,
            answers_tell=self._target_cluster.answers_tell,
            stuck=self._load.stuck,
            not_measured=self._target_cluster.not_measured,
            broken_off=tuple(self._broken_off),
        )

    def _all_events(self) -> list[Event]:
        """All events in the order of time, put together again when there are new ones."""
        seen, ours = self._observer.events, self._events
        count = len(seen), len(ours)
        if count != self._joined[0]:
            self._joined = count, join(seen[: count[0]], ours[: count[1]])
        return self._joined[1]

    def _measure(self) -> Measured:
        """Measure what is known now; only what is new since the last time is looked at."""
        if self._measured is None:
            self._measured = Measured(self.facts())
        else:
            self._measured.look_at(self.facts())
        return self._measured

    # Steady state

    def _become_steady(self) -> bool:
        """Wait until the cluster is well for long enough; returns whether it was."""
        steady = self._plan.steady
        end = time.monotonic() + steady.within_s
        since = None
        missing = "nothing was asked yet"
        while time.monotonic() < end:
            now = time.monotonic()
            found = self._not_steady(now - steady.hold_s)
            # Where it held at last, but not for long enough: what was missing before.
            missing = found or missing
            since = None if found else since or now
            if since is not None and now - since >= steady.hold_s:
                self._begin_ns = time.monotonic_ns()
                self._observer.forget_noise()
                self._load.go_on()
                self._say("action", "steady", "steady state reached")
                return True
            time.sleep(TICK_S)
        self._begin_ns = time.monotonic_ns()
        why = f"{duration_text(steady.within_s)}: {missing}"
        self._find(Finding(kind=Kind.NOT_STEADY, why=why))
        return False

    def _not_steady(self, since_s: float) -> str:
        """Return what is missing, by what was seen lately."""
        for name, why in self._load.check().items():
            return f"{name} has ended: {why}"
        facts = self.facts(int(since_s * 1e9))
        for load in self._plan.load:
            if isinstance(load, Command) and load.probe and not load.is_foreground:
                probes = facts.commands[load.name].probes
                if not probes or not probes[-1].is_good:
                    return f"{load.name} does not answer its probe"
        measured = Measured(facts)
        for writer in self._plan.writers:
            if missing := _silent(facts.writers[writer.name], writer, self._partitions):
                return missing
        if not self._plan.steady.that and measured(Metric("", "isr_full")) != 1:
            return "not every replica is in sync"
        for expression in self._plan.steady.that:
            if not expression.holds(measured):
                return f"expected {expression}; {_values(expression, measured)}"
        return ""

    # Timeline

    def _play(self) -> None:
        waiting = list(self._plan.timeline)
        when_since: dict[str, int] = {}
        while not self._is_over(waiting):
            now = time.monotonic_ns()
            self._collect()
            self._tell_seen()
            self._heal_due(now)
            self._revive_due(now)
            due = []
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
                    due.append(entry)
            self._make(due)
            if (aborting := self._aborts()) is not None:
                self._find(aborting)
                break
            time.sleep(TICK_S)

    def _is_due(self, instant: At | After, now: int, waiting: list[Entry], entry: Entry) -> bool:
        at = self._instant_ns(instant, entry)
        if at is None:
            return False
        if at == NEVER:
            waiting.remove(entry)
            self._moments[entry.name, "skipped"] = now
            why = f"{_shown(instant)} never came"
            self._find(Finding(kind=Kind.SKIPPED, subject=entry.name, why=why))
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
        value = self._measure()(Metric(name, moment))
        known = value not in (None, NEVER) and facts.begin_ns is not None
        return facts.begin_ns + value * 1e9 if known else None  # type: ignore[operator]

    def _holds_now(
        self, entry: Entry, instant: When, since: int, now: int, waiting: list[Entry]
    ) -> bool:
        if instant.expression.holds(self._measure()):
            return True
        if now - since > instant.within_s * 1e9:
            waiting.remove(entry)
            self._moments[entry.name, "skipped"] = now
            why = f"{instant.expression} did not hold within {duration_text(instant.within_s)}"
            self._find(Finding(kind=Kind.SKIPPED, subject=entry.name, why=why))
        return False

    def _is_over(self, waiting: list[Entry]) -> bool:
        end, now = self._plan.end, time.monotonic_ns()
        for name, why in self._load.check().items():
            if end.instant == Exit(name=name):
                return True
            self._find(Finding(kind=Kind.ENDED, subject=name, why=why))
            return True
        at = None if isinstance(end.instant, Exit) else self._end_instant_ns(end.instant, waiting)
        if at is not None:
            return now >= at
        if now > self._begin_ns + end.within_s * 1e9:
            within = duration_text(end.within_s)
            self._find(Finding(kind=Kind.NO_END, subject=_shown(end.instant), why=within))
            return True
        return False

    def _end_instant_ns(self, instant: At | After, waiting: list[Entry]) -> float | None:
        if isinstance(instant, At):
            return self._begin_ns + instant.seconds * 1e9
        if instant.name == LAST and instant.moment == "healed":
            # A fault without a length lasts until the end, which does not wait for it.
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

    def _aborts(self) -> Finding | None:
        """Return what ends the run at once; None where nothing does."""
        wanted = [one for one in self._plan.objectives if one.aborts]
        if not wanted:
            return None
        measured = self._measure()
        for objective in wanted:
            known = all(measured(metric) is not None for metric in objective.that.metrics)
            if known and not objective.that.holds(measured):
                why = _values(objective.that, measured)
                return Finding(kind=Kind.ABORTED, subject=str(objective.that), why=why)
        return None

    # Making and healing

    def _make(self, entries: Sequence[Entry]) -> None:
        """Begin with the entries of one instant."""
        now = time.monotonic_ns()
        found = [Active(entry, FaultFacts(name=entry.name, kind=entry.do)) for entry in entries]
        for active in found:
            self._active[active.entry.name] = active
            self._moments[active.entry.name, "made"] = now
            if not active.entry.is_fault:
                active.made = self._actions_thread.submit(self._act, active.entry)
        if faults := [active for active in found if active.entry.is_fault]:
            made = self._faults_thread.submit(self._injector.inject, faults)
            for active in faults:
                active.made = made

    def _act(self, entry: Entry) -> None:
        try:
            text = actions.carry_out(entry, self._target_cluster, self._observer, self._chance)
            self._say("action", entry.do, text, ref=entry.name)
        except (JbodlabError, NotInTimeError, ValueError) as error:
            why = str(error).splitlines()[0]
            self._find(Finding(kind=Kind.NOT_DONE, subject=entry.name, why=why))
        self._moments[entry.name, "done"] = time.monotonic_ns()

    def _heal_due(self, now: int) -> None:
        for active in self._active.values():
            length, injected = active.entry.length_s, active.facts.injected_ns
            if length is None or injected is None or active.healing is not None:
                continue
            if now >= injected + length * 1e9:
                active.healing = self._faults_thread.submit(self._injector.heal, active)

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
            if is_open and facts.first_broken_ns is None:
                self._faults_thread.submit(self._injector.count, active)
        standing: set[Place] = set()
        healed: set[Place] = set()
        for active in self._active.values():
            (standing if self._stands(active) else healed).update(active.facts.places)
        stopped = {place.broker for place in standing if not place.directory}
        healed -= standing
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

    @staticmethod
    def _stands(active: Active) -> bool:
        """Return whether a fault may break something; one that was refused never does."""
        is_being_made = active.made is not None and not active.made.done()
        return is_being_made or bool(active.handles and active.facts.healed_ns is None)

    def _revive(self, places: list[Place]) -> None:
        """Bring back directories of one broker; only one thread at a time may start it."""
        for place in places:
            self._injector.revive(place)
            # What was brought back is seen a moment later.
            self._tried_ns[place] = time.monotonic_ns()

    def _is_away(self, place: Place, stopped: set[int]) -> bool:
        """Return whether a broker has ended over its disks, so that it has to be started."""
        if not place.directory or not self._target_cluster.may_start or place.broker in stopped:
            return False
        return not self._target_cluster.cluster.broker(place.broker).is_running

    def _heal_all(self) -> None:
        for active in self._active.values():
            if active.made is not None:
                active.made.result()
            facts = active.facts
            is_open = active.handles and facts.healed_ns is None
            if is_open and active.healing is None:
                active.healing = self._faults_thread.submit(self._injector.heal, active)
            if active.healing is not None:
                active.healing.result()
        self._tell_seen()

    def _restore(self) -> None:
        """Wait until every partition can be read, for what is not read cannot be judged."""
        hit = {place for active in self._active.values() for place in active.facts.places}
        since = time.monotonic_ns()

        def is_restored() -> bool:
            self._tell_seen()
            self._revive_due(time.monotonic_ns())
            samples, picture = self._observer.samples, self._observer.picture
            if any(self._is_away(place, set()) for place in hit):
                return False
            # What was told before may be about a broker that has ended meanwhile.
            is_new = bool(samples) and samples[-1].t_ns > since
            return is_new and all(each >= 0 for each in picture.leaders.values())

        try:
            wait_for("leaders of all partitions", is_restored, RESTORED_DEADLINE_S)
        except NotInTimeError:
            gone = [str(p) for p, leader in self._observer.picture.leaders.items() if leader < 0]
            where = ", ".join(sorted(gone))
            self._find(Finding(kind=Kind.NO_LEADER, subject=where, count=len(gone)))
            return

        # A replica that comes back after the load has ended does come back, and so does a directory
        # without any.
        def is_whole() -> bool:
            self._tell_seen()
            self._revive_due(time.monotonic_ns())
            if hit & self._observer.offline:
                return False
            return all(map(self._observer.isr_is_full, self._observer.picture.leaders))

        with contextlib.suppress(NotInTimeError):
            wait_for("every replica in sync", is_whole, RESTORED_DEADLINE_S)

    def _judge_messages(self) -> None:
        self._load.judge()
        for topic, unread in self._load.unread.items():
            if topic in self._load.deleted:
                self._find(Finding(kind=Kind.DELETED, subject=topic))
                continue
            stuck = self._load.stuck or ()
            places = [TopicPartition(topic, partition) for partition in unread]
            # Those that are stuck are known: a transaction is open that nobody ends.
            if left := [str(one) for one in places if one not in stuck]:
                where = ", ".join(left)
                self._find(Finding(kind=Kind.NOT_READ, subject=where, count=len(left)))

    def _close(self) -> None:
        # First whatever is being made comes to its end, so that nothing is made behind our back.
        self._faults_thread.shutdown(cancel_futures=True)
        with contextlib.ExitStack() as ends:
            # One that fails keeps none of the others from being done.
            ends.callback(self._telling.tell_all)
            ends.callback(self._tell_seen)
            ends.callback(self._bring_back)
            ends.callback(self._actions_thread.shutdown, cancel_futures=True)
            ends.callback(self._observer.stop)
            ends.callback(self._load.kill)
            for active in self._active.values():
                for handle in active.handles:
                    ends.callback(handle.heal)

    def _bring_back(self) -> None:
        """Leave no directory offline that was broken here, where there was no time for it before.

        A broker may notice what broke a moment after that was reverted.
        """
        if self._is_restored or not self._target_cluster.outlives_us:
            return
        hit = {place for active in self._active.values() for place in active.facts.places}
        for pause_s in (0.0, *BROUGHT_BACK_S) if hit else ():
            time.sleep(pause_s)
            for place in sorted(place for place in hit if place.directory):
                self._injector.revive(place)

    # Telling

    def _tell_seen(self) -> None:
        """Tell what was seen since the last time."""
        if not self._begin_ns:
            return
        events = self._observer.events[self._told :]
        self._told += len(events)
        self._telling.add(
            event
            for event in events
            if event.t_ns >= self._begin_ns
            and (event.partition is None or self._observer.is_ours(event.partition))
        )
        if not self._end_ns:
            self._note_first_acks()
        self._telling.tell_until(time.monotonic_ns())

    def _note_first_acks(self) -> None:
        """Make an event of the first acknowledgement that a new leader gave."""
        for active in self._active.values():
            name, facts = active.entry.name, active.facts
            waiting = {each for each in facts.led if (name, each) not in self._acked_again}
            if not waiting or facts.injected_ns is None:
                continue
            for partition, at_ns in self._measure().first_acks(facts).items():
                if at_ns is not None and partition in waiting:
                    self._acked_again.add((name, partition))
                    text = f"first acknowledged message afterwards: {partition}"
                    self._say("client", "first-ack", text, ref=name, at_ns=at_ns)

    def _find(self, found: Finding) -> None:
        """Keep what speaks against the run, once, and tell it."""
        if found not in self._broken_off:
            self._broken_off.append(found)
            self._say("action", "abort" if found.kind is Kind.ABORTED else "doubt", found.text)

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
        event = Event(t_ns=t_ns, source=source, kind=kind, text=text, ref=ref, place=place)
        self._events.append(event)
        self._telling.add([event])


def _silent(facts: WriterFacts, writer: Writers, partitions: Mapping[str, int]) -> str:
    """Return which producer has no acknowledgement of a partition yet; empty if all have."""
    acked = {one.partition for one in facts.sent if one.is_acked}
    wanted = min(partitions[writer.topic], writer.keys)
    if not acked:
        # One that was acknowledged later than so is no sign of a steady state.
        return f"no message of {writer.name} was acknowledged in time"
    # At a low rate not every partition has its turn in so short a time.
    if writer.rate > 20 * wanted and len(acked) < wanted:
        return f"{writer.name}: only {len(acked)} of {wanted} partitions acknowledge messages"
    return ""


def _values(expression: Expression, measured: Measured) -> str:
    values = [
        f"{each.metric} is {measured.shown(each.metric, each.wanted.unit)}"
        for each in expression.comparisons
    ]
    return ", ".join(dict.fromkeys(values))


def _shown(instant: At | After | Exit) -> str:
    if isinstance(instant, At):
        return f"{instant.seconds:g} s"
    if isinstance(instant, Exit):
        return f"the end of {instant.name}"
    return f"{instant.name}.{instant.moment}"
