"""A text that says what a cluster does, played against a schedule: what is decided, and when.

A scenario names a shipped plan (`plan NAME`), or is one of `PLAN` with other lines (`plan` with
lines behind `| `). Then come lines of what the cluster does beside being well::

    missing TEXT [until S]   the steady state lacks something; seconds from the start
    ends with CLIENT         the plan ends with a command of its load, as that of `jbodlab run`
    ends CLIENT at S         a client ends by itself; seconds here and below from the steady state
    METRIC is VALUE [from S] what is measured; values of faults: seconds after they begin
    refuses FAULT            it cannot be made
    holds FAULT              it is made, and cannot be reverted
    slow ENTRY S             it takes so long to be made or carried out
    offline PLACE S S        a directory is offline from then to then
    away BROKER S S          so is a broker's process
    leaderless S S           partition 0 of orders has no leader from then to then
    lagging S S              one of its replicas is not in sync from then to then
    breaks FAULT N           its mechanism counts so many broken calls
    misses FAULT             no partition of the plan lies where it is made
    sends SHARE until S      the producer sends so much of its schedule, and nothing later
    unanswered               nothing that it sends is acknowledged
    finds KIND SUBJECT       what threads or the full read find

Each step of the schedule stands below, behind seconds from the steady state; behind that, where the
plan is no shipped one, the verdict with the kinds of what was found.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from msgspec import structs

from jbodlab.picture.cluster_picture import PartitionPicture
from jbodlab.picture.places import Place
from jbodlab.vocabulary.expressions import MetricName, MetricUnit
from lab.findings import Finding, Kind
from lab.plan.plan import End, Exit, Plan
from lab.plan.plans import shipped
from lab.plan.reader import read
from lab.plan.targets import Directory, Node
from lab.plan.values import show
from lab.rehearsal import schedule
from lab.rehearsal.facts import Facts, FaultFacts, WriterFacts
from lab.rehearsal.judgement import judge
from lab.rehearsal.schedule import NS, Instruction, Known, Schedule
from tests.lab.rehearsal.runs import P0, steady

PLAN = """\
rehearsal: 1
name: a disk dies
cluster: {brokers: 3, disks: {each: 2}}
topics: {orders: {partitions: 1, replicas: 3}}
load: [{name: writers, topic: orders, rate: 100/s}]
steady: {within: 10s, hold: 1s}
"""
TICK_NS = NS // 20
TAKES_S = 0.1
LONGEST_S = 1_000
WELL = PartitionPicture(leader=1, replicas=(1, 2, 3), isr=(1, 2, 3), offline=())
OF_FAULTS = ("detected", "reported", "elected", "leader_seen", "first_ack")


@dataclass
class World:
    """A cluster and its clients, by the lines of a scenario."""

    plan: Plan
    missing: list[tuple[float, str]] = field(default_factory=list)
    ends: list[tuple[float, str]] = field(default_factory=list)
    values: list[tuple[float, str, float]] = field(default_factory=list)
    refused: set[str] = field(default_factory=set)
    held: set[str] = field(default_factory=set)
    takes_s: dict[str, float] = field(default_factory=dict)
    calls: dict[str, int] = field(default_factory=dict)
    missed: set[str] = field(default_factory=set)
    sends: tuple[float, float] = (1.0, LONGEST_S)
    answers: bool = True
    findings: list[Finding] = field(default_factory=list)
    end_ns: int = 0
    spans: list[tuple[str, str, float, float]] = field(default_factory=list)
    now: int = 1
    begin_ns: int = 1
    """The steady state, or the start before it."""
    faults: dict[str, FaultFacts] = field(default_factory=dict)
    due: list[tuple[int, str, str]] = field(default_factory=list)
    """When something that goes on is done: its word and the entry."""
    done_ns: dict[str, int] = field(default_factory=dict)
    tried_ns: dict[Place, int] = field(default_factory=dict)

    def line(self, text: str) -> None:
        """Take one line of a scenario."""
        if match := re.fullmatch(r"missing (.+?)(?: until (\S+))?", text):
            self.missing.append((float(match[2] or LONGEST_S), match[1]))
        elif match := re.fullmatch(r"ends with (\S+)", text):
            self.plan = structs.replace(self.plan, end=End(instant=Exit(name=match[1])))
        elif match := re.fullmatch(r"ends (\S+) at (\S+)", text):
            self.ends.append((float(match[2]), match[1]))
        elif match := re.fullmatch(r"(\S+) is (\S+)(?: from (\S+))?", text):
            self.values.append((float(match[3] or 0), match[1], float(match[2])))
        elif match := re.fullmatch(r"(refuses|holds) (\S+)", text):
            (self.refused if match[1] == "refuses" else self.held).add(match[2])
        elif match := re.fullmatch(r"breaks (\S+) (\d+)", text):
            self.calls[match[1]] = int(match[2])
        elif match := re.fullmatch(r"misses (\S+)", text):
            self.missed.add(match[1])
        elif match := re.fullmatch(r"sends (\S+) until (\S+)", text):
            self.sends = float(match[1]), float(match[2])
        elif text == "unanswered":
            self.answers = False
        elif match := re.fullmatch(r"finds (\w+) (.+)", text):
            self.findings.append(Finding(kind=Kind[match[1].upper()], subject=match[2], count=1))
        elif match := re.fullmatch(r"slow (\S+) (\S+)", text):
            self.takes_s[match[1]] = float(match[2])
        elif match := re.fullmatch(r"(offline|away) (\S+) (\S+) (\S+)", text):
            self.spans.append((match[1], match[2], float(match[3]), float(match[4])))
        else:
            match = re.fullmatch(r"(leaderless|lagging) (\S+) (\S+)", text)
            assert match, text
            self.spans.append((match[1], "", float(match[2]), float(match[3])))

    @property
    def seconds(self) -> float:
        return (self.now - self.begin_ns) / NS

    def during(self, what: str) -> set[str]:
        """The subjects of what goes on now."""
        return {
            subject
            for word, subject, since, until in self.spans
            if word == what and since <= self.seconds < until
        }

    def __call__(self, metric: MetricName) -> float | None:
        found = [
            value
            for since, name, value in self.values
            if name == str(metric) and (metric.field in OF_FAULTS or since <= self.seconds)
        ]
        if metric.owner not in self.faults or metric.field not in OF_FAULTS:
            return found[-1] if found else None
        begin, after_s = self.faults[metric.owner].begin_ns, found[-1] if found else 0.5
        return after_s if begin is not None and self.now >= begin + after_s * NS else None

    def shown(self, metric: MetricName, unit: MetricUnit) -> str:
        value = self(metric)
        return "not known" if value is None else show(value, unit)

    def known(self) -> Known:
        partition = WELL
        if self.during("leaderless"):
            partition = replace(partition, leader=-1)
        if self.during("lagging"):
            partition = replace(partition, isr=(1, 2))
        away = {int(broker) for broker in self.during("away")}
        return Known(
            values=self,
            missing=next((text for until, text in self.missing if self.seconds < until), ""),
            ended={name: "exit code 1" for at, name in self.ends if at <= self.seconds},
            faults=dict(self.faults),
            standing={
                name
                for name, one in self.faults.items()
                if one.injected_ns and one.healed_ns is None
            },
            busy={name for _, _, name in self.due},
            done_ns=dict(self.done_ns),
            offline={_place(text) for text in self.during("offline")},
            is_away=away.__contains__,
            tried_ns=dict(self.tried_ns),
            partitions={P0: partition},
            seen_ns=self.now,
        )

    def carry_out(self, instruction: Instruction) -> None:
        match instruction:
            case schedule.Begin():
                self.begin_ns = self.now
            case schedule.Make(entries):
                for entry in entries:
                    self._begin("make" if entry.is_fault else "act", entry.name)
                    if entry.is_fault:
                        self.faults[entry.name] = FaultFacts(name=entry.name, kind=entry.do)
            case schedule.Heal(name):
                self._begin("heal", name)
            case schedule.Revive(places):
                self.tried_ns |= dict.fromkeys(places, self.now)
            case schedule.Doubt(finding):
                self.findings.append(finding)
            case schedule.Abort(finding) | schedule.End(finding):
                self.end_ns = self.now
                self.begin_ns = self.begin_ns if self.end_ns > self.begin_ns > 1 else self.now
                self.findings += [finding] if finding else []

    def _begin(self, word: str, name: str) -> None:
        takes_s = TAKES_S if word == "heal" else self.takes_s.get(name, TAKES_S)
        self.due.append((self.now + round(takes_s * NS), word, name))

    def go_on(self) -> None:
        """Let one tick pass."""
        self.now += TICK_NS
        for one in [one for one in self.due if one[0] <= self.now]:
            self.due.remove(one)
            _, word, name = one
            if word == "act":
                self.done_ns[name] = self.now
            elif word == "make" and name in self.refused:
                self.faults[name] = replace(self.faults[name], problem="not injected: refused")
            elif word == "make":
                self._made(name)
            elif name not in self.held:
                self.faults[name] = replace(self.faults[name], healed_ns=self.now)

    def _made(self, name: str) -> None:
        entry = next(each for each in self.plan.timeline if each.name == name)
        match entry.where:
            case Node(number):
                place = Place(number)
            case Directory(broker, number):
                place = Place(broker, number)
            case _:
                place = Place(list(self.faults).index(name) + 1, 1)
        healed_ns = self.now if entry.do == "restart" else None
        self.faults[name] = replace(
            self.faults[name],
            injected_ns=self.now,
            healed_ns=healed_ns,
            first_broken_ns=self.now,
            places=(place,),
            touched=() if name in self.missed else (P0,),
            growth=1,
            counts=name in self.calls,
            calls_broken=self.calls.get(name),
        )

    def verdict(self) -> str:
        """The verdict, and what it was made of."""
        share, until = self.sends
        length_s = (self.end_ns - self.begin_ns) / NS
        due = steady(0, length_s)
        sent = [
            one._replace(
                due_ns=one.due_ns + self.begin_ns,
                sent_ns=one.sent_ns + self.begin_ns,
                done_ns=one.done_ns + self.begin_ns if self.answers else -1,
            )
            for one in due[: round(len(due) * share)]
            if one.due_ns < until * NS
        ]
        found = judge(
            self.plan,
            Facts(
                begin_ns=self.begin_ns,
                end_ns=self.end_ns,
                faults=self.faults,
                writers={
                    one.name: WriterFacts(topic=one.topic, due=round(len(sent) / share), sent=sent)
                    for one in self.plan.writers
                },
                broken_off=self.findings,
            ),
        )
        kinds = ", ".join(one.kind.name.lower() for one in found.findings)
        return f"{found.outcome.name} {kinds}".strip()


def _place(text: str) -> Place:
    broker, _, directory = text.partition("/")
    return Place(int(broker), int(directory or 0))


def told(instruction: Instruction) -> str:
    """Return an instruction as a line of a scenario."""
    match instruction:
        case schedule.Make(entries):
            words = ", ".join(f"{entry.name} ({entry.do})" for entry in entries)
        case schedule.Heal(name) | schedule.Count(name):
            words = name
        case schedule.Revive(places):
            words = ", ".join(map(str, places))
        case schedule.Doubt(finding) | schedule.Abort(finding):
            words = finding.text
        case schedule.End(finding):
            words = finding.text if finding else ""
        case _:
            words = ""
    return f"{type(instruction).__name__.lower()} {words}".strip()


def play(world: World) -> list[str]:
    """Return what a schedule decides in a world, line by line."""
    course, lines = Schedule(world.plan), []
    while not course.is_over:
        assert world.seconds < LONGEST_S
        instructions = course.step(world.now, world.known())
        for instruction in instructions:
            world.carry_out(instruction)
        lines += [f"    {world.seconds:.2f} {told(each)}" for each in instructions]
        world.go_on()
    return lines


def run_scenarios(text: str) -> str:
    """Return a text of scenarios with what is decided in each."""
    return "\n".join(_run(part) for part in re.split(r"\n(?=# )", text.rstrip("\n"))) + "\n"


def _run(text: str) -> str:
    given = [line for line in text.split("\n") if not line.startswith("    ")]
    lines = [line for line in given if line and not line.startswith("#")]
    (named,) = (line for line in lines if line.split(" ")[0] == "plan")
    name = named.partition(" ")[2]
    own = "".join(f"{line[2:]}\n" for line in lines if line.startswith("| "))
    begin = re.sub("load: .*\n", "", PLAN) if "load: " in own else PLAN
    world = World(read(shipped()[name] if name else begin + own, name or "plan"))
    for line in lines:
        if line != named and not line.startswith("| "):
            world.line(line)
    while given and not given[-1]:
        given.pop()
    decided = play(world)
    return "\n".join([*given, *decided, *([] if name else [f"    {world.verdict()}"]), ""])
