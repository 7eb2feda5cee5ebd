"""Model of the page, computed from sightings of a cluster; every state has a name.

The model is made of sections that are JSON; each is published anew when it changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from fault_injection.journal import Fault
from fault_injection.kinds import KINDS
from jbodlab.kafka_admin.log_dirs import DescribedLogDir
from jbodlab.picture.cluster_picture import (
    FENCED,
    OFFLINE,
    ONLINE,
    SILENT,
    UNKNOWN,
    BrokerPicture,
    ClusterPicture,
    DirectoryPicture,
    PartitionPicture,
)
from jbodlab.vocabulary.ids import TopicPartition
from lab.cluster.picture import place_of
from lab.cluster.questions import Offsets, OpenTransaction

PARTITIONS_SHOWN = 200
NAMED_MAX = 5
"""Partitions that one line names; the others are counted."""

BAD, WARN, FAULT = "bad", "warn", "fault"

Section = Any


@dataclass(frozen=True, kw_only=True)
class Seen(ClusterPicture):
    """A cluster as the page shows it: its picture, and what is known of it on this machine.

    Attributes:
        faults: Faults that are open on purpose.
        not_known: Facts about this cluster that cannot be known, one sentence each.
        may_break: Whether the page may break something.
        needs_token: Whether it takes the token to do so.
        is_closed: Whether clients show certificates or log in.
        leading_controller: The leader of the metadata log, in words; empty where it is not known.
        open_transactions: Those that are open for long.
        stuck: Partitions whose last stable offset stands still.
    """

    name: str
    bootstrap: str
    faults: Sequence[Fault] = ()
    not_known: Sequence[str] = ()
    may_break: bool = False
    needs_token: bool = False
    is_closed: bool = False
    leading_controller: str = ""
    open_transactions: Sequence[OpenTransaction] = ()
    stuck: Mapping[TopicPartition, Offsets] = field(default_factory=dict)


class _Problem(NamedTuple):
    """A problem that exists now."""

    level: str
    text: str


def sections(seen: Seen) -> dict[str, Section]:
    """Return all sections of the page but its events and rates."""
    brokers = [_broker(seen, one) for one in seen.brokers]
    return {
        "cluster": {
            "name": seen.name,
            "bootstrap": seen.bootstrap,
            "leading_controller": seen.leading_controller,
            "not_known": list(seen.not_known),
            "may_break": seen.may_break,
            "needs_token": seen.needs_token,
            "kinds": [
                {
                    "name": kind.name,
                    "meaning": kind.meaning,
                    "scope": kind.scope.value,
                    "parameters": list(kind.parameters),
                }
                for kind in KINDS.values()
                if seen.is_closed or not kind.hits_clients
            ]
            if seen.may_break
            else [],
        },
        "brokers": brokers,
        "problems": [problem._asdict() for problem in _problems(seen, brokers)],
        "moves": list(_moves(seen)),
        "transactions": {
            "open": [
                {"id": one.transactional_id, "producer": one.producer_id, "state": one.state}
                for one in seen.open_transactions
            ],
            "stuck": [
                {
                    "partition": str(key),
                    "offset": found.last_stable,
                    "behind": found.high_watermark - found.last_stable,
                }
                for key, found in sorted(seen.stuck.items())
            ],
        },
        "partitions": _partitions(seen),
        "faults": [_fault(seen, fault) for fault in seen.faults],
    }


def named(partitions: Sequence[TopicPartition]) -> str:
    """Return some partitions by name, and how many more there are."""
    shown = ", ".join(map(str, partitions[:NAMED_MAX]))
    rest = len(partitions) - NAMED_MAX
    return f"{shown} and {rest} more" if rest > 0 else shown


def _broker(seen: Seen, one: BrokerPicture) -> Section:
    led = {key for key, found in seen.partitions.items() if found.leader == one.broker_id}
    return {
        "id": one.broker_id,
        "address": one.address,
        "state": seen.state_of(one),
        "leaders": len(led),
        "faults": [fault.kind for fault in seen.faults if fault.path == one.folder],
        "log_dirs": [_log_dir(seen, each, led) for each in one.directories],
    }


def _log_dir(seen: Seen, one: DirectoryPicture, led: set[TopicPartition]) -> Section:
    nothing = DescribedLogDir(path="")
    shown = one.told if one.state == ONLINE else nothing
    return {
        "number": one.number,
        "path": one.path,
        "state": one.state,
        "conditions": list(shown.conditions),
        "cause": (one.told.cause or one.told.error) if one.state == OFFLINE else "",
        "replicas": len(shown.sizes),
        "leaders": len(led & shown.sizes.keys()),
        "bytes": sum(shown.sizes.values()) + sum(shown.futures.values()),
        "total": shown.total_bytes,
        "usable": shown.usable_bytes,
        "arriving": len(shown.futures),
        "faults": [fault.kind for fault in seen.faults if str(fault.path) == one.path],
    }


def _problems(seen: Seen, brokers: Sequence[Section]) -> Iterator[_Problem]:
    if seen.listed is None:
        yield _Problem(BAD, "no broker answers")
    for fault in seen.faults:
        text = f"{fault.fault_id}: {fault.kind} on {place_of(seen, fault.path)}"
        yield _Problem(FAULT, f"open fault {text}")
    for broker in brokers:
        who = f"broker-{broker['id']}"
        if broker["state"] == SILENT:
            yield _Problem(BAD, f"{who} does not answer")
        if broker["state"] == FENCED:
            yield _Problem(BAD, f"{who} is fenced: the controller gets no heartbeats from it")
        states = {one["state"] for one in broker["log_dirs"]}
        if broker["state"] != SILENT and UNKNOWN in states:
            yield _Problem(WARN, f"{who} does not report its log directories")
        for one in broker["log_dirs"]:
            where = f"{who}/{one['number']}"
            if one["state"] == OFFLINE:
                cause = f": {one['cause']}" if one["cause"] else ""
                yield _Problem(BAD, f"{where} is offline{cause}")
            for condition in one["conditions"]:
                yield _Problem(WARN, f"{where} is {condition}")
    if found := seen.leaderless:
        yield _Problem(BAD, f"partitions without a leader: {len(found)} ({named(found)})")
    if found := seen.under_replicated:
        yield _Problem(WARN, f"under-replicated partitions: {len(found)} ({named(found)})")
    if stuck := sorted(seen.stuck):
        text = f"last stable offsets that stand still: {len(stuck)} ({named(stuck)})"
        yield _Problem(WARN, text)


def _moves(seen: Seen) -> Iterator[Section]:
    """Yield replicas on their way from one directory of a broker to another."""
    for one in seen.moving():
        yield {
            "partition": str(one.partition),
            "broker": one.broker,
            "from": one.source,
            "to": one.target,
            "bytes": one.copied,
            "of": one.total,
        }


def _partitions(seen: Seen) -> Section:
    rows = [_row(seen, key, found) for key, found in seen.partitions.items()]
    # Partitions with a problem come first, as the rest may not be shown.
    rows.sort(key=lambda row: row["state"] == "in sync")
    return {"count": len(rows), "shown": rows[:PARTITIONS_SHOWN]}


def _row(seen: Seen, key: TopicPartition, found: PartitionPicture) -> dict[str, Section]:
    return {
        "topic": key.topic,
        "partition": key.partition,
        "leader": found.leader,
        "replicas": list(found.replicas),
        "isr": list(found.isr),
        "elr": list(found.elr),
        "last_known_elr": list(found.last_known_elr),
        "state": found.state,
    }


def _fault(seen: Seen, fault: Fault) -> Section:
    until = None
    if fault.length_s is not None:
        until = round(datetime.fromisoformat(fault.since).timestamp() * 1000 + fault.length_s * 1e3)
    return {
        "id": fault.fault_id,
        "kind": fault.kind,
        "mechanism": fault.mechanism,
        "where": place_of(seen, fault.path),
        "since": fault.since,
        "until_ms": until,
    }


Sizes = Mapping[tuple[int, str], Mapping[Any, tuple[str, int]]]
"""By broker and path of a directory: which rate each replica counts for, and its bytes."""

RATES = ("written", "replicated", "moved")
"""By clients to leaders, by followers, by moves between directories; in bytes."""


@dataclass(slots=True)
class Rates:
    """How fast logs grow, over the last looks; what is deleted does not count.

    Attributes:
        kept: How many looks are shown.
        over: Each rate is the mean of so many looks, as brokers answer between any two looks.
    """

    kept: int = 120
    over: int = 4
    _before: tuple[float, Sizes] | None = None
    _points: list[list[float]] = field(default_factory=list)

    def look(self, now: Sizes, at_s: float) -> None:
        """Take notice of all sizes at a moment."""
        if self._before is not None and at_s > self._before[0]:
            passed_s, before = at_s - self._before[0], self._before[1]
            grown = dict.fromkeys(RATES, 0)
            # A directory that could not be seen before may have grown long ago.
            for directory in now.keys() & before.keys():
                for key, (name, size) in now[directory].items():
                    grown[name] += max(0, size - before[directory].get(key, (name, 0))[1])
            self._points.append([round(grown[name] / passed_s) for name in RATES])
            del self._points[: -self.kept]
        self._before = (at_s, now)

    def to_json(self, period_s: float) -> Section:
        """Return them as a section, the oldest first."""
        means = [self._mean(end) for end in range(1, len(self._points) + 1)]
        return {"names": list(RATES), "period_s": period_s, "points": means}

    def _mean(self, end: int) -> list[int]:
        last = self._points[max(0, end - self.over) : end]
        return [round(sum(rates) / len(last)) for rates in zip(*last, strict=True)]


def sizes(seen: Seen) -> Sizes:
    """Return the sizes of all replicas that can be seen."""
    return {
        (one.broker_id, view.path): dict(_sizes(seen, one.broker_id, view))
        for one in seen.brokers
        for view in one.log_dirs or ()
    }


def _sizes(seen: Seen, broker: int, view: DescribedLogDir) -> Iterator[tuple[Any, tuple[str, int]]]:
    for key, size in view.sizes.items():
        found = seen.partitions.get(key)
        leads = found is not None and found.leader == broker
        yield key, ("written" if leads else "replicated", size)
    for key, size in view.futures.items():
        yield (key, "future"), ("moved", size)
