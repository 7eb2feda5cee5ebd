"""The record of a run, as JSON: everything that a report shows, and nothing that it has to guess.

Times are seconds from the end of the steady state. `docs/rehearsals.md` describes each field.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, cast

from jbodlab.picture.places import CONTROLLER, Place
from jbodlab.vocabulary.expressions import MetricName, MetricUnit
from jbodlab.vocabulary.ids import INTERNAL_TOPICS
from lab.hiding import hidden_plan
from lab.plan.plan import Plan, Writers
from lab.plan.vocabulary import ALL, OF_CLUSTER, OF_TRANSACTIONS, TRANSACTIONS, WINDOW, metrics_of
from lab.rehearsal.facts import Facts, FaultFacts
from lab.rehearsal.judgement import Judgement
from lab.rehearsal.metrics import NEVER, Measured
from lab.watch.events import Event

if TYPE_CHECKING:
    from fault_injection.clients import Clients
    from jbodlab.cli.results import (
        ClientOfRun,
        EventOfRun,
        FaultOfRun,
        LongestGap,
        MetricValue,
        Run,
    )
    from jbodlab.cli.results import Clients as FateOfClients

SCHEMA = 2
BUCKET_S = 0.1
EVENTS_MAX = 3000
EXAMPLE_WINDOW = "1s"

At = Callable[[int | None], float | None]
"""Makes monotonic nanoseconds seconds from the end of the steady state."""


def to_json(plan: Plan, facts: Facts, judgement: Judgement, surroundings: Mapping[str, Any]) -> Run:
    """Return a run as JSON values."""
    measured = Measured(facts)

    def at(t_ns: int | None) -> float | None:
        return None if t_ns is None else round((t_ns - facts.begin_ns) / 1e9, 4)

    shown = [event for event in facts.events if _is_shown(event, facts)]
    return {
        "schema": SCHEMA,
        "name": plan.name,
        "hypothesis": plan.hypothesis,
        "source": plan.source,
        "plan": hidden_plan(plan.text),
        "verdict": judgement.outcome.name,
        "sentence": judgement.sentence,
        "findings": [found.json for found in judgement.findings],
        "missed": list(judgement.missed),
        "doubts": list(judgement.doubts),
        "warnings": list(judgement.warnings),
        "objectives": [
            {
                "text": held.text,
                "holds": held.holds,
                "value": _number(held.value),
                "measured": held.measured,
                "severity": "warn" if held.is_warning else "fail",
            }
            for held in judgement.objectives
        ],
        "length": at(facts.end_ns),
        "metrics": metrics(plan, measured),
        "gaps": gaps(plan, measured),
        "faults": [_fault(fault, measured, at) for fault in facts.faults.values()],
        "clients": _clients(facts),
        "directories": _directories(facts, at),
        "partitions": _partitions(facts, at),
        "transactions": _transactions(facts, at),
        "last_stable_offsets": _last_stable_offsets(facts, at),
        "events": [_event(event, at) for event in _thinned(shown)],
        "not_measured": dict(facts.not_measured),
        "surroundings": {"seed": plan.seed, **surroundings},
    }


def clients_json(found: Clients | None) -> FateOfClients | None:
    """Return the fate of clients as JSON has it."""
    return None if found is None else cast("FateOfClients", asdict(found))


def metrics(plan: Plan, measured: Measured) -> dict[str, MetricValue]:
    """Return every metric of a run by its name; null for what is not known, -1 for never."""
    wanted: dict[MetricName, MetricUnit] = {}
    for name, unit in OF_CLUSTER.items():
        wanted[MetricName("", name)] = unit
    for load in plan.load:
        for name, unit in load.metrics.items():
            is_windowed = isinstance(load, Writers) and name in WINDOW
            wanted[MetricName(load.name, name, EXAMPLE_WINDOW if is_windowed else "")] = unit
    if plan.has_transactions:
        for name, unit in OF_TRANSACTIONS.items():
            wanted[MetricName(TRANSACTIONS, name)] = unit
    for entry in plan.faults:
        for name, unit in metrics_of(entry.do).items():
            wanted[MetricName(entry.name, name)] = unit
    for objective in plan.objectives:
        for comparison in objective.that.comparisons:
            wanted[comparison.metric] = comparison.wanted.unit
    return {
        str(metric): {"value": _number(measured(metric)), "unit": unit.name.lower()}
        for metric, unit in wanted.items()
    }


def gaps(plan: Plan, measured: Measured) -> dict[str, LongestGap]:
    """Return the gap of all partitions and that of each fault: its partition, length and end."""
    found: dict[str, LongestGap] = {}
    for owner in (ALL, *(entry.name for entry in plan.faults)):
        if gap := measured.gap(MetricName(owner, "gap")):
            found[owner] = {
                "partition": str(gap.partition),
                "seconds": _number(gap.seconds),
                "ended": not gap.hole.is_open,
            }
    return found


def _number(value: float | None) -> float | None:
    if value is None:
        return None
    return -1 if value == NEVER else round(value, 6)


def _fault(fault: FaultFacts, measured: Measured, at: At) -> FaultOfRun:
    detected = filter(None, measured.detected(fault).values())
    return {
        "name": fault.name,
        "kind": fault.kind,
        "places": list(map(str, fault.places)),
        "mechanism": fault.mechanism,
        "injected": at(fault.injected_ns),
        "healed": at(fault.healed_ns),
        "first_call_broken": at(fault.first_broken_ns),
        "calls_broken": fault.calls_broken,
        "broken": fault.broken,
        "clients": clients_json(fault.clients),
        "problem": fault.problem,
        "detected_by": sorted({notice.by for notice in detected}),
        "noticed": [
            {
                "place": str(notice.place),
                "by": notice.by,
                "at": at(notice.t_ns),
                "after": round(notice.after_s(fault.begin_ns or 0), 4),
                "err": round(notice.err_ns / 1e9, 4),
            }
            for notice in measured.notices(fault)
        ],
        "touched": list(map(str, fault.touched)),
        "led": list(map(str, fault.led)),
    }


def _clients(facts: Facts) -> list[ClientOfRun]:
    """Counts of each tenth of a second: what went well, and what did not."""
    length = max(0.0, (facts.end_ns - facts.begin_ns) / 1e9)
    count = math.ceil(length / BUCKET_S) + 1

    def buckets(times: Iterable[int]) -> list[int]:
        found = Counter(int((t_ns - facts.begin_ns) / 1e9 / BUCKET_S) for t_ns in times)
        return [found.get(number, 0) for number in range(count)]

    def client(
        kind: str,
        name: str,
        good: Iterable[int],
        bad: Iterable[int] | None = None,
        errors: Iterable[str] = (),
        topic: str = "",
    ) -> ClientOfRun:
        return {
            "name": name,
            "kind": kind,
            "topic": topic,
            "per": BUCKET_S,
            "good": buckets(good),
            "bad": [] if bad is None else buckets(bad),
            "errors": dict(Counter(errors)),
        }

    found = []
    for name, writer in facts.writers.items():
        good = [one.done_ns for one in writer.sent if one.is_acked]
        bad = [max(one.done_ns, 0) or one.due_ns for one in writer.sent if not one.is_acked]
        errors = [writer.errors.get(one.error, "") for one in writer.sent if one.error]
        found.append(client("writers", name, good, bad, errors, writer.topic))
    for name, reader in facts.readers.items():
        good = [one.at_ns for one in reader.received]
        found.append(client("readers", name, good, None, reader.errors, reader.topic))
    for name, command in facts.commands.items():
        good = [one.done_ns for one in command.probes if one.is_good]
        bad = [one.done_ns for one in command.probes if not one.is_good]
        found.append(client("command", name, good, bad))
    return found


def _directories(facts: Facts, at: Any) -> dict[str, list[list[Any]]]:
    """By directory, from when on it was in which state."""
    found: dict[str, list[list[Any]]] = {}
    for event in facts.events:
        is_state = event.kind in ("offline", "online") and event.source in ("broker", "metric")
        if is_state and event.place is not None and event.place.directory:
            states = found.setdefault(str(event.place), [])
            # The broker's own line and what clients are told are the same state.
            if not states or states[-1][1] != event.kind:
                states.append([max(0.0, at(event.t_ns)), event.kind])
    return dict(sorted(found.items()))


def _partitions(facts: Facts, at: Any) -> dict[str, list[list[Any]]]:
    """By partition that a fault touched: from when on which leader, ISR's size, replicas, ELRs.

    The last two are the eligible leader replicas and the last known ones.
    """
    touched = {partition for fault in facts.faults.values() for partition in fault.touched}
    source = "metric" if "elected" in facts.not_measured else "metadata"
    # Those of the load first: of more than the report shows, the logs of coordinators are left out.
    ordered = sorted(touched, key=lambda each: (each.topic in INTERNAL_TOPICS, each))
    found: dict[str, list[list[Any]]] = {str(partition): [] for partition in ordered}
    for event in facts.events:
        if (
            event.source == source
            and event.kind in ("leader", "isr", "elr")
            and event.partition in touched
        ):
            states = found[str(event.partition)]
            leader, isr, replicas, elr, last_known = (
                states[-1][1:] if states else (-1, 0, 0, [], [])
            )
            match event.kind:
                case "leader":
                    leader = event.data["leader"]
                case "isr":
                    isr, replicas = event.data["isr"], event.data["replicas"]
                case _:
                    elr, last_known = event.data["elr"], event.data["last_known_elr"]
            moment = max(0.0, at(event.t_ns))
            if states and states[-1][0] == moment:
                states.pop()
            states.append([moment, leader, isr, replicas, elr, last_known])
    return found


def _transactions(facts: Facts, at: Any) -> dict[str, list[list[Any]]]:
    """By transactional id, from when on its transaction was open for long, in which state."""
    found: dict[str, list[list[Any]]] = {}
    for event in facts.events:
        if event.kind == "transaction" and event.t_ns >= facts.begin_ns:
            states = found.setdefault(event.data["transactional_id"], [])
            states.append([at(event.t_ns), event.data["state"]])
    return found


def _last_stable_offsets(facts: Facts, at: Any) -> dict[str, list[list[Any]]]:
    """By partition, from when on its last stable offset stood still, where, and how far behind."""
    found: dict[str, list[list[Any]]] = {}
    for event in facts.events:
        if event.kind == "last-stable" and event.t_ns >= facts.begin_ns:
            data = event.data
            state = [data["stands"], data["last_stable"], data["behind"]]
            found.setdefault(str(event.partition), []).append([at(event.t_ns), *state])
    return found


def _is_shown(event: Event, facts: Facts) -> bool:
    """Return whether an event belongs to the time of the run, and is no second view of another."""
    if event.t_ns < facts.begin_ns:
        return False
    has_metadata = "elected" not in facts.not_measured
    return not (has_metadata and event.source == "metric" and event.kind in ("leader", "isr"))


def _thinned(events: Sequence[Event]) -> Sequence[Event]:
    """Leave out the changes of ISRs first, which are many and stand in the lanes as well."""
    if len(events) > EVENTS_MAX:
        events = [event for event in events if event.kind not in ("isr", "elr")]
    return events[:EVENTS_MAX]


def _event(event: Event, at: At) -> EventOfRun:
    return {
        "t": at(event.t_ns),
        "err": round(event.err_ns / 1e9, 4),
        "source": event.source,
        "kind": event.kind,
        "text": event.text,
        "place": "" if event.place is None else str(event.place),
        "partition": "" if event.partition is None else str(event.partition),
        "ref": event.ref,
    }


def event_lines(facts: Facts, wall_offset_ns: int) -> Iterable[dict[str, Any]]:
    """Return all events of a run, one JSON value each, for `events.jsonl`."""
    for event in facts.events:
        place: Place | None = event.place
        yield {
            "t_ns": event.t_ns,
            "wall_ms": (event.t_ns + wall_offset_ns) // 1_000_000,
            "err_ns": event.err_ns,
            "source": event.source,
            "kind": event.kind,
            "broker": place.broker if place is not None and place.broker > CONTROLLER else None,
            "dir": (place.directory or None) if place else None,
            "partition": None if event.partition is None else str(event.partition),
            "ref": event.ref,
            "text": event.text,
            "data": dict(event.data),
        }
