"""Lets a plan happen: carries out what its schedule decides, on threads that live as long as it.

One thread makes and reverts faults, in order; two carry out actions and bring directories back.
They must live so long: a server is killed by the kernel when the thread that started it ends.
"""

from __future__ import annotations

import contextlib
import random
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import assert_never

from jbodlab.vocabulary.errors import JbodlabError
from lab.cluster import NotInTimeError
from lab.errors import LabError
from lab.findings import Finding, Kind
from lab.plan.plan import Entry, Plan
from lab.rehearsal import actions, schedule
from lab.rehearsal.facts import Facts, FaultFacts
from lab.rehearsal.injecting import Active, Injector, is_open
from lab.rehearsal.observation import Moment, Observation
from lab.rehearsal.schedule import Instruction, Known, Schedule
from lab.rehearsal.target_cluster import TargetCluster
from lab.rehearsal.telling import Tell

TICK_S = 0.05


class Rehearsal:
    """One run of a plan; the arguments are those of `Observation`."""

    def __init__(self, plan: Plan, target_cluster: TargetCluster, folder: Path, tell: Tell) -> None:
        self._plan = plan
        self._target_cluster = target_cluster
        self._chance = random.Random(plan.seed)
        self._schedule = Schedule(plan)
        self._seen = seen = Observation(plan, target_cluster, folder, tell)
        self._active = seen.active
        self._injector = Injector(target_cluster, seen.observer, self._chance, seen.say, seen.find)
        self._done_ns: dict[str, int] = {}
        self._reviving: dict[int, Future[None]] = {}
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
            self._seen.observer.begin()
            try:
                self._seen.load.start()
            except OSError as error:
                raise LabError(f"a client cannot be started: {error}") from error
            while not self._schedule.is_over:
                self._seen.tell_seen()
                now, known = time.monotonic_ns(), self._known()
                for instruction in self._schedule.step(now, known):
                    self._carry_out(instruction)
                time.sleep(TICK_S)
            return self._seen.read_all()
        finally:
            self._close()

    def _known(self) -> Known:
        seen, observer = self._seen, self._seen.observer
        # First what is busy: of what is not, all that it did is seen below.
        busy = {name for name, active in self._active.items() if active.is_busy}
        picture = observer.picture
        reviving = {broker for broker, future in self._reviving.items() if is_open(future)}
        return Known(
            values=Moment(seen),
            missing="" if self._schedule.begin_ns else seen.missing(),
            ended=seen.load.check(),
            faults={name: one.facts for name, one in self._active.items() if one.entry.is_fault},
            standing={name for name, active in self._active.items() if active.stands},
            busy=busy,
            done_ns=dict(self._done_ns),
            offline=picture.offline,
            is_away=self._target_cluster.is_away,
            reviving=reviving,
            tried_ns=dict(self._injector.tried_ns),
            partitions=picture.partitions,
            seen_ns=observer.samples[-1].t_ns if observer.samples else 0,
        )

    def _carry_out(self, instruction: Instruction) -> None:
        match instruction:
            case schedule.Begin():
                self._seen.begin_ns = self._schedule.begin_ns
                self._seen.observer.forget_noise()
                self._seen.load.go_on()
                self._seen.say("action", "steady", "steady state reached")
            case schedule.Make(entries):
                self._make(entries)
            case schedule.Heal(name):
                active = self._active[name]
                active.work.append(self._faults_thread.submit(self._injector.heal, active))
            case schedule.Count(name):
                self._faults_thread.submit(self._injector.count, self._active[name])
            case schedule.Revive(places):
                future = self._actions_thread.submit(self._injector.revive, places)
                self._reviving[places[0].broker] = future
            case schedule.Doubt(finding):
                self._seen.find(finding)
            case schedule.Abort(finding) | schedule.End(finding):
                self._seen.begin_ns = self._schedule.begin_ns
                if finding is not None:
                    self._seen.find(finding)
                self._seen.end_ns = time.monotonic_ns()
                self._seen.say("action", "load-ends", "end of the measured time")
            case schedule.Read():
                pass
            case _:
                assert_never(instruction)

    def _make(self, entries: tuple[Entry, ...]) -> None:
        """Begin with the entries of one instant."""
        found = [Active(entry, FaultFacts(name=entry.name, kind=entry.do)) for entry in entries]
        self._active.update({active.entry.name: active for active in found})
        faults = [active for active in found if active.entry.is_fault]
        made = self._faults_thread.submit(self._injector.inject, faults)
        for active in found:
            acting = self._actions_thread.submit
            is_fault = active.entry.is_fault
            active.work.append(made if is_fault else acting(self._act, active.entry))

    def _act(self, entry: Entry) -> None:
        observer, chance = self._seen.observer, self._chance
        try:
            text = actions.carry_out(entry, self._target_cluster, observer, chance)
            self._seen.say("action", entry.do, text, ref=entry.name)
        except (JbodlabError, NotInTimeError, ValueError) as error:
            why = str(error).splitlines()[0]
            self._seen.find(Finding(kind=Kind.NOT_DONE, subject=entry.name, why=why))
        self._done_ns[entry.name] = time.monotonic_ns()

    def _close(self) -> None:
        # First whatever is being made comes to its end, so that nothing is made behind our back.
        self._faults_thread.shutdown(cancel_futures=True)
        hit = {place for active in self._active.values() for place in active.facts.places}
        with contextlib.ExitStack() as ends:
            # One that fails keeps none of the others from being done.
            ends.callback(self._seen.tell_all)
            if self._target_cluster.outlives_us and not self._schedule.is_over:
                ends.callback(self._injector.bring_back, hit)
            ends.callback(self._actions_thread.shutdown, cancel_futures=True)
            ends.callback(self._seen.observer.stop)
            ends.callback(self._seen.load.kill)
            for active in self._active.values():
                for handle in active.handles:
                    ends.callback(handle.heal)
