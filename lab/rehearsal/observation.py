"""Facts about a run, of cluster, clients and itself, and lines that tell them."""

from __future__ import annotations

import time
from collections.abc import Collection
from functools import cached_property
from pathlib import Path

from jbodlab.picture.places import Place
from jbodlab.vocabulary.expressions import MetricName, MetricUnit
from jbodlab.vocabulary.ids import TopicPartition
from lab.cluster import security
from lab.findings import Finding, Kind
from lab.machine import processes, programs
from lab.plan.plan import Plan
from lab.rehearsal import steady
from lab.rehearsal.facts import Facts
from lab.rehearsal.injecting import Active
from lab.rehearsal.load import Load
from lab.rehearsal.metrics import Measured
from lab.rehearsal.target_cluster import TargetCluster
from lab.rehearsal.telling import Tell, Telling
from lab.watch.events import Event, join
from lab.watch.observer import Observer


class Observation:
    """All that is known of one run.

    Args:
        plan: The plan.
        target_cluster: The cluster; it serves.
        folder: Where files of the run go.
        tell: Is told of each step, and of what is seen of the cluster.
    """

    def __init__(self, plan: Plan, target_cluster: TargetCluster, folder: Path, tell: Tell) -> None:
        self.begin_ns = 0
        """The end of the steady state; 0 before it."""
        self.end_ns = 0
        """The end of the measured time; 0 before it."""
        self.active: dict[str, Active] = {}
        """The entries of the timeline that were begun."""
        state, partitions = (
            target_cluster.cluster.state,
            {t.name: t.partitions for t in plan.topics},
        )
        self.observer = Observer(
            state.brokers,
            target_cluster.places,
            target_cluster.metadata_logs,
            partitions,
            metrics=target_cluster.metrics,
            transactional_ids=plan.transactional_ids,
            applications={each.name: each.application_id for each in plan.streams},
        )
        self.load = Load(
            plan,
            partitions,
            target_cluster.cluster.application_config,
            security.client_files(state),
            security.client_config(state, "java"),
            security.of_node(state.brokers[0]),
            folder,
            programs.environment(target_cluster.cluster.root, processes.own_user()),
        )
        self._plan = plan
        self._target_cluster = target_cluster
        self._telling = Telling(tell)
        self._told = 0
        self._events: list[Event] = []
        self._findings: list[Finding] = []
        self._joined: tuple[tuple[int, int], list[Event]] = ((0, 0), [])
        self._acked_again: set[tuple[str, TopicPartition]] = set()

    def facts(self, since_ns: int | None = None) -> Facts:
        """Return all that is known, now or at the end, from the steady state or a moment on."""
        now = self.end_ns or time.monotonic_ns()
        begin, load, observer = since_ns or self.begin_ns or now, self.load, self.observer
        return Facts(
            begin_ns=begin,
            end_ns=now,
            faults={
                name: active.facts for name, active in self.active.items() if active.entry.is_fault
            },
            writers=load.writers(begin, now),
            readers=load.readers(begin, now),
            commands=load.commands(begin),
            streams=load.streams(),
            events=self._all_events(),
            samples=tuple(observer.samples[-1:]),
            noise_ns=observer.noise_ns,
            answers_tell=self._target_cluster.answers_tell,
            stuck=load.stuck,
            not_measured=self._target_cluster.not_measured,
            broken_off=tuple(self._findings),
        )

    def _all_events(self) -> list[Event]:
        """All events in the order of time, put together again when there are new ones."""
        seen, ours = self.observer.events, self._events
        count = len(seen), len(ours)
        if count != self._joined[0]:
            self._joined = count, join(seen[: count[0]], ours[: count[1]])
        return self._joined[1]

    @cached_property
    def _measured(self) -> Measured:
        return Measured(self.facts())

    def missing(self) -> str:
        """Return what is missing for the steady state, by what was seen lately."""
        since_ns = time.monotonic_ns() - int(self._plan.steady.hold_s * 1e9)
        return steady.missing(self._plan, self.facts(since_ns), self.load.check())

    def measure(self) -> Measured:
        """Measure what is known now; only what is new since the last time is looked at."""
        self._measured.look_at(self.facts())
        return self._measured

    def read_all(self) -> Facts:
        """Read every topic to its end, after the load, and return all that is known then."""
        self.load.stop()
        self.say("action", "full-read", "reading every topic to its end")
        self.tell_seen()
        self.load.judge()
        stuck: Collection[TopicPartition] = self.load.stuck or ()
        for topic, unread in self.load.unread.items():
            # Those that are stuck are known: a transaction is open that nobody ends.
            places = [TopicPartition(topic, partition) for partition in unread]
            left = [str(one) for one in places if one not in stuck]
            if topic in self.load.deleted:
                self.find(Finding(kind=Kind.DELETED, subject=topic))
            elif left:
                where = ", ".join(left)
                self.find(Finding(kind=Kind.NOT_READ, subject=where, count=len(left)))
        return self.facts()

    def find(self, found: Finding) -> None:
        """Keep what speaks against the run, once, and tell it."""
        if found not in self._findings:
            self._findings.append(found)
            self.say("action", "abort" if found.kind is Kind.ABORTED else "doubt", found.text)

    def say(
        self,
        source: str,
        kind: str,
        text: str,
        *,
        ref: str = "",
        at_ns: int | None = None,
        place: Place | None = None,
    ) -> None:
        """Write an event down and tell it; of now unless a time is given."""
        t_ns = time.monotonic_ns() if at_ns is None else at_ns
        event = Event(t_ns=t_ns, source=source, kind=kind, text=text, ref=ref, place=place)
        self._events.append(event)
        self._telling.add([event])

    def tell_seen(self) -> None:
        """Tell what was seen since the last time."""
        if not self.begin_ns:
            return
        events = self.observer.events[self._told :]
        self._told += len(events)
        self._telling.add(
            event
            for event in events
            if event.t_ns >= self.begin_ns
            and (event.partition is None or self.observer.is_ours(event.partition))
        )
        if not self.end_ns:
            self._note_first_acks()
        self._telling.tell_until(time.monotonic_ns())

    def tell_all(self) -> None:
        """Tell what is left."""
        self.tell_seen()
        self._telling.tell_all()

    def _note_first_acks(self) -> None:
        """Make an event of the first acknowledgement that a new leader gave."""
        for name, active in self.active.items():
            facts = active.facts
            waiting = {each for each in facts.led if (name, each) not in self._acked_again}
            if not waiting or facts.injected_ns is None:
                continue
            for partition, at_ns in self.measure().first_acks(facts).items():
                if at_ns is not None and partition in waiting:
                    self._acked_again.add((name, partition))
                    text = f"first acknowledged message afterwards: {partition}"
                    self.say("client", "first-ack", text, ref=name, at_ns=at_ns)


class Moment:
    """Metrics in a moment: measured once, when the first one is asked for."""

    def __init__(self, observation: Observation) -> None:
        self._observation = observation

    @cached_property
    def _measured(self) -> Measured:
        return self._observation.measure()

    def __call__(self, metric: MetricName) -> float | None:
        """Return the value of a metric."""
        return self._measured(metric)

    def shown(self, metric: MetricName, unit: MetricUnit) -> str:
        """Return it as a person reads it."""
        return self._measured.shown(metric, unit)
