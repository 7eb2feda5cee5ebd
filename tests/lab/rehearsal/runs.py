"""Runs made of plain values: seconds become nanoseconds, partition 0 is the one that is hit."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from jbodlab.picture.places import Place
from jbodlab.vocabulary.ids import TopicPartition
from lab.plan.reader import read
from lab.rehearsal.facts import Facts, FaultFacts, Outcome, Sent, Transaction, Verdict, WriterFacts
from lab.rehearsal.judgement import judge
from lab.rehearsal.result import to_json
from lab.watch.events import Event

P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
HIT = Place(1, 1)
CLEAN = Verdict(acknowledged=0, read=0, lost=0, duplicated=0, out_of_order=0)


def ns(seconds: float) -> int:
    return round(seconds * 1e9)


def sent(
    due: float, done: float | None = None, *, partition: int = 0, error: int = 0, late: float = 0
) -> Sent:
    """A message that is due at a second; acknowledged, failed, or without any answer."""
    return Sent(
        due_ns=ns(due),
        sent_ns=ns(due + late),
        done_ns=-1 if done is None else ns(done),
        sequence=0,
        offset=0,
        partition=partition,
        key=0,
        error=error,
    )


def steady(begin: float, end: float, every: float = 0.1, partition: int = 0) -> list[Sent]:
    """Messages that are acknowledged 1 ms after they were due."""
    count = round((end - begin) / every)
    return [
        sent(begin + n * every, begin + n * every + 0.001, partition=partition)
        for n in range(count)
    ]


def transaction(
    asked: float,
    done: float | None = None,
    outcome: Outcome = Outcome.COMMITTED,
    *,
    is_fatal: bool = False,
) -> Transaction:
    """A transaction that began 100 ms before its commit was asked for."""
    return Transaction(
        begun_ns=ns(asked - 0.1),
        asked_ns=ns(asked),
        done_ns=-1 if done is None else ns(done),
        first=0,
        messages=3,
        outcome=outcome,
        error=0,
        is_fatal=is_fatal,
    )


def writer(messages: Sequence[Sent], **more: Any) -> WriterFacts:
    values = {"topic": "orders", "due": len(messages), "verdict": CLEAN, **more}
    return WriterFacts(sent=messages, **values)


def fault(injected: float = 1, healed: float | None = 3, **more: Any) -> FaultFacts:
    values = {
        "name": "first",
        "kind": "eio",
        "places": (HIT,),
        "touched": (P0,),
        "led": (P0,),
        "mechanism": "preload",
        **more,
    }
    return FaultFacts(
        injected_ns=ns(injected), healed_ns=None if healed is None else ns(healed), **values
    )


def event(at: float, source: str, kind: str, **more: Any) -> Event:
    return Event(t_ns=ns(at), source=source, kind=kind, **more)


def leader(at: float, broker: int, source: str = "metadata", partition: Any = P0) -> Event:
    return event(at, source, "leader", partition=partition, data={"leader": broker})


def isr(at: float, size: int, of: int = 3, source: str = "metadata") -> Event:
    return event(at, source, "isr", partition=P0, data={"isr": size, "replicas": of})


def facts(
    messages: Sequence[Sent] | None = None,
    *events: Event,
    faults: Sequence[FaultFacts] = (),
    **more: Any,
) -> Facts:
    values: dict[str, Any] = {
        "begin_ns": 0,
        "end_ns": ns(10),
        "faults": {one.name: one for one in faults},
        "writers": {} if messages is None else {"writers": writer(messages)},
        "events": events,
        **more,
    }
    return Facts(**values)


PLAN = """\
rehearsal: 1
name: a disk dies
topics: {orders: {partitions: 2, replicas: 3}}
load: [{name: writers, topic: orders, rate: 10/s}]
timeline: [{at: 1s, do: permission, where: broker-1/dir-1, as: first, for: 2s}]
objectives: [OBJECTIVES]
"""
TRANSACTIONAL = PLAN.replace("rate: 10/s", "rate: 10/s, transactional: true")
COUNTING = PLAN.replace("replicas: 3}}", "replicas: 3}, counts: {partitions: 2}}").replace(
    "rate: 10/s}", "rate: 10/s}, {streams: word-count, from: orders, to: counts}"
)


EVENTS = (
    event(1.2, "broker", "offline", place=HIT, text="<b>broker</b> says offline"),
    leader(1.3, 2),
    isr(1.3, 2),
    event(3.1, "metric", "online", place=HIT),
    isr(3.5, 3),
)


def kept(found: Facts, *objectives: str, text: str = PLAN) -> dict[str, Any]:
    wanted = objectives or ("writers.lost == 0", "first.gap < 2s")
    plan = read(text.replace("OBJECTIVES", ", ".join(wanted)), "p.yaml")
    run = to_json(plan, found, judge(plan, found), {"cluster": "jbodlab"})
    loaded: dict[str, Any] = json.loads(json.dumps(run))
    return loaded


GOOD = facts(steady(0, 10), *EVENTS, faults=[fault()])
