"""Why a partition is as it is: its states, and what happened to the brokers of its replicas."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from itertools import takewhile
from typing import TYPE_CHECKING

from analytics.ask.answer import (
    broker_change_text,
    brokers_text,
    chain,
    directory_text,
    event,
    link,
    moment,
    repair_text,
)
from analytics.ask.cluster import BrokerChange, Cluster, TopicLife
from analytics.ask.offline_log import At, LogRecord, begin_of, end_of, named_rows
from analytics.ask.partition_states import registration
from analytics.engines.duck import DuckEngine
from analytics.errors import ReplayInputError
from analytics.rare.min_insync import ASSUMED
from analytics.tables.table import SNAPSHOT_TYPE
from jbodlab.metadata.image.partition_registration import PartitionRegistration
from jbodlab.metadata.records.topic_records import (
    ClearElrRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
)
from jbodlab.picture.registered import serves, state_text
from jbodlab.vocabulary import directory_id as directory_ids
from jbodlab.vocabulary.ids import NO_LEADER, BrokerId, DirectoryId

if TYPE_CHECKING:
    from jbodlab.cli.results import (
        Condition,
        Link,
        LogEvent,
        PartitionHistory,
        ReplicaSince,
        WhyPartition,
    )

STEPS_KEPT = 2000
"""States that are kept; what was before is not part of any answer."""
STEPS_OF_A_SOUND_ONE = 5
"""Last changes in the chain of a healthy partition."""
SOON = timedelta(seconds=30)
"""How long after a replica left its broker's fate still explains that, as in `lost_replicas.sql`:
Kafka's default of `replica.lag.time.max.ms`, more than three sessions of a broker."""

_LISTS = (
    "isr",
    "replicas",
    "removing_replicas",
    "adding_replicas",
    "eligible_leader_replicas",
    "last_known_elr",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One record about the partition; `after` is None where it ended with its topic."""

    source: LogRecord
    before: PartitionRegistration | None
    after: PartitionRegistration | None


def answer(tables: DuckEngine, cluster: Cluster, at: At, name: str) -> WhyPartition:
    """Return the answer about a partition.

    Raises:
        ReplayInputError: there is and was no such partition.
    """
    topic, index = split(name)
    lives = cluster.lives.get(topic)
    if not lives:
        raise ReplayInputError(f"topic {topic!r} does not exist, and did not before")
    life = lives[-1]
    steps = _steps(tables, life, index)
    if not steps:
        raise ReplayInputError(f"topic {topic!r} has no partition {index}")
    current = steps[-1].after
    found: PartitionHistory = {
        "kind": "partition",
        "name": name,
        "topic_id": life.topic_id,
        "moment": moment(at),
        "earlier_topics": [
            {
                "topic_id": former.topic_id,
                "created": event(former.created),
                "deleted": None if former.removed is None else event(former.removed),
            }
            for former in lives[:-1]
        ],
        "deleted": None,
    }
    if current is None:
        assert life.removed is not None
        links = chain(_explained(steps[-STEPS_OF_A_SOUND_ONE:], cluster))
        return {
            "kind": found["kind"],
            "name": found["name"],
            "topic_id": found["topic_id"],
            "moment": found["moment"],
            "earlier_topics": found["earlier_topics"],
            "deleted": event(life.removed),
            "chain": links,
            "next": [],
            "problems": [],
        }
    return _Findings(cluster, steps, topic, at, current).added_to(found)


class _Findings:
    """Faults of a partition, and since when it has them."""

    def __init__(
        self,
        cluster: Cluster,
        steps: list[Step],
        topic: str,
        at: At,
        current: PartitionRegistration,
    ) -> None:
        self.cluster = cluster
        self.steps = steps
        self.at = at
        self.current = current
        self.min_isr, self.min_isr_origin = cluster.min_isr(topic)

    def added_to(self, history: PartitionHistory) -> WhyPartition:
        state = self.current
        is_assumed = self.min_isr_origin == ASSUMED
        return {
            **history,
            "conditions": list(self._conditions(state)),
            "leader": {
                "broker": None if state.leader == NO_LEADER else state.leader,
                "leader_epoch": state.leader_epoch,
                "since": self._since(lambda known: known.leader == state.leader),
            },
            "replicas": [self._replica(state, broker) for broker in state.replicas],
            "isr": list(state.isr),
            "eligible_leader_replicas": list(state.elr),
            "last_known_elr": list(state.last_known_elr),
            "adding_replicas": list(state.adding_replicas),
            "removing_replicas": list(state.removing_replicas),
            "min_insync_replicas": self.min_isr,
            "min_insync_replicas_assumed_from": (
                self.cluster.assumed_min_isr.source if is_assumed else None
            ),
            "chain": chain(self._chain()),
            "next": list(dict.fromkeys(self._next(state))),
            "problems": [],
        }

    def _chain(self) -> list[Link]:
        """Return the records from the last state in which the partition was healthy."""
        last = len(self.steps) - 1
        start = next((n for n in range(last, -1, -1) if self._is_sound(self.steps[n])), 0)
        if start == last:
            start = max(0, last - STEPS_OF_A_SOUND_ONE + 1)
        links = _explained(self.steps[start:], self.cluster)
        for broker in self.current.replicas:
            change = self._culprit(self.current, broker)
            if change is not None:
                links.append(link(change.source, broker_change_text(change)))
        return links

    def _next(self, state: PartitionRegistration) -> Iterator[str]:
        for broker in state.replicas:
            directory = state.directory(broker)
            repair = repair_text(self.cluster.brokers.get(broker), broker, directory)
            if repair is not None:
                yield repair
            elif directory == directory_ids.UNASSIGNED:
                yield f"wait until broker {broker} reports the directory of its replica"
            elif state.isr and broker not in state.isr:
                yield f"wait until the replica of broker {broker} has caught up"

    def _conditions(self, state: PartitionRegistration) -> Iterator[Condition]:
        def condition(
            text: str, holds: Callable[[PartitionRegistration], bool] | None = None
        ) -> Condition:
            return {"condition": text, "since": None if holds is None else self._since(holds)}

        if state.leader == NO_LEADER:
            yield condition("leaderless", lambda known: known.leader == NO_LEADER)
        if not state.isr:
            yield condition(_without_isr(state), lambda known: not known.isr)
        required = min(self.min_isr, len(state.replicas))
        if len(state.isr) < required:
            yield condition("under min.insync.replicas", lambda known: len(known.isr) < required)
        elif len(state.isr) < len(state.replicas):
            yield condition("under-replicated", lambda known: len(known.isr) < len(known.replicas))
        if directory_ids.UNASSIGNED in state.directories:
            yield condition("a replica has no assigned directory")
        if not all(self._is_online(state, broker) for broker in state.replicas):
            yield condition("a replica is offline")

    def _replica(self, state: PartitionRegistration, broker: BrokerId) -> ReplicaSince:
        registration = self.cluster.brokers.get(broker)
        directory = state.directory(broker)
        is_unassigned = directory == directory_ids.UNASSIGNED
        directory_state = "unassigned" if is_unassigned else "unknown"
        if registration is not None and not is_unassigned:
            is_online = registration.directory_is_online(directory)
            directory_state = "online" if is_online else "offline"
        culprit = self._culprit(state, broker)
        return {
            "broker": broker,
            "directory": directory_text(directory),
            "leads": broker == state.leader,
            "in_sync": broker in state.isr,
            "out_of_isr_since": (
                None if broker in state.isr else self._since(lambda known: broker not in known.isr)
            ),
            "broker_state": state_text(registration),
            "directory_state": directory_state,
            "unassigned_since": (
                self._since(lambda known: _directory(known, broker) == directory)
                if is_unassigned
                else None
            ),
            "caused_by": None if culprit is None else event(culprit.source),
        }

    def _is_online(self, state: PartitionRegistration, broker: BrokerId) -> bool:
        return serves(self.cluster.brokers.get(broker), state.directory(broker))

    def _culprit(self, state: PartitionRegistration, broker: BrokerId) -> BrokerChange | None:
        """Return the record that took the broker or the directory of a replica away."""
        return (
            None
            if self._is_online(state, broker)
            else _lost_by(self.cluster, state, broker, self.at.offset)
        )

    def _is_sound(self, step: Step) -> bool:
        state = step.after
        return (
            state is not None
            and state.leader != NO_LEADER
            and len(state.isr) >= len(state.replicas)
            and directory_ids.UNASSIGNED not in state.directories
            and directory_ids.LOST not in state.directories
        )

    def _since(self, holds: Callable[[PartitionRegistration], bool]) -> LogEvent:
        """Return the event since which something holds that holds now."""
        latest = reversed(self.steps)
        held = takewhile(lambda step: step.after is not None and holds(step.after), latest)
        *_, found = self.steps[-1], *held
        return event(found.source)


def _without_isr(state: PartitionRegistration) -> str:
    """Return who may lead a partition that has nobody in sync."""
    if state.elr:
        return f"the ISR is empty: eligible to lead are brokers {brokers_text(state.elr)}"
    if state.last_known_elr:
        last = brokers_text(state.last_known_elr)
        return f"the ISR is empty and nobody is eligible: the last known leader is broker {last}"
    return "the ISR is empty and nobody is eligible: only an unclean election gives it a leader"


def _lost_by(
    cluster: Cluster, state: PartitionRegistration, broker: BrokerId, offset: int
) -> BrokerChange | None:
    """Return the record since which a replica is lost; None if it is not, or always was."""
    directory = _directory(state, broker)
    found: BrokerChange | None = None
    for change in reversed(cluster.changes.get(broker, ())):
        if change.source.offset > offset:
            continue
        if serves(change.after, directory):
            break
        found = change
    return found


def _lost_soon_after(cluster: Cluster, step: Step, broker: BrokerId) -> BrokerChange | None:
    """Return the record that explains a loss although it follows it."""
    assert step.before is not None
    directory = _directory(step.before, broker)
    for change in cluster.changes.get(broker, ()):
        source = change.source
        if source.offset <= step.source.batch_last_offset or serves(change.after, directory):
            continue
        if source.time is None or step.source.time is None:
            return None
        return change if source.time - step.source.time <= SOON else None
    return None


def _explained(steps: Iterable[Step], cluster: Cluster) -> list[Link]:
    """Return the links of steps, and of what took away the replicas that they lost."""
    links: list[Link] = []
    for step in steps:
        text = _step_text(step)
        lost = lost_replicas(step.before, step.after) if step.before and step.after else ()
        for broker in lost:
            assert step.before is not None
            last = step.source.batch_last_offset
            change = _lost_by(cluster, step.before, broker, last) or _lost_soon_after(
                cluster, step, broker
            )
            if change is None:
                text += f"; replica {broker} fell behind"
                continue
            links.append(link(change.source, broker_change_text(change)))
            text += f"; replica {broker} lost by offset {change.source.offset}"
        links.append(link(step.source, text))
    return links


def lost_replicas(
    before: PartitionRegistration, after: PartitionRegistration
) -> tuple[BrokerId, ...]:
    """Return the brokers whose replicas a step took out of the ISR, or out of the leadership.

    A partition without a leader keeps the last member of its ISR there when it has no ELR; that
    member is lost all the same. A replica that a reassignment removed is not lost.
    """
    lost = [each for each in before.isr if each not in after.isr and each in after.replicas]
    if after.leader == NO_LEADER != before.leader and before.leader not in lost:
        lost.append(before.leader)
    return tuple(lost)


def _step_text(step: Step) -> str:
    before, after = step.before, step.after
    match step.source.type:
        case PartitionChangeRecord.NAME:
            said = step.source.said
            assert said is not None
            parts = [
                f"{name}={brokers_text(said[name])}" for name in _LISTS if said[name] is not None
            ]
            if said["leader"] is not None:
                former = "" if before is None else f" (was {before.leader})"
                parts.insert(0, f"leader={said['leader']}{former}")
            if said["leader_recovery_state"] is not None:
                parts.append(f"leader_recovery_state={said['leader_recovery_state']}")
            if said["directories"] is not None:
                parts.append(_directories_text(before, after))
            return " ".join(parts) or "no field"
        case PartitionRecord.NAME | "SNAPSHOT":
            assert after is not None
            dirs = ", ".join(map(directory_text, after.directories))
            return (
                f"leader={after.leader} replicas={brokers_text(after.replicas)} "
                f"isr={brokers_text(after.isr)} directories=[{dirs}]"
            )
        case RemoveTopicRecord.NAME:
            return "the topic is deleted"
        case ClearElrRecord.NAME:
            return "eligible_leader_replicas=[] last_known_elr=[]"
        case other:
            raise AssertionError(f"{other} is not about a partition")


def _directories_text(
    before: PartitionRegistration | None, after: PartitionRegistration | None
) -> str:
    assert after is not None
    parts = []
    for broker, directory in zip(after.replicas, after.directories, strict=True):
        former = None if before is None else _directory(before, broker)
        if former == directory:
            continue
        was = "" if former is None else f" (was {directory_text(former)})"
        parts.append(f"{broker}: {directory_text(directory)}{was}")
    return f"directories={{{', '.join(parts)}}}"


def _steps(tables: DuckEngine, life: TopicLife, index: int) -> list[Step]:
    """Return the last steps of a partition of a topic."""
    tables.make("partition_history")
    rows = named_rows(
        tables,
        f"""
        SELECT h.*, r.batch_last_offset, r.partition_change AS said
        FROM partition_history h
        LEFT JOIN log_rows r ON h.record_type <> '{SNAPSHOT_TYPE}' AND NOT r.snapshot
          AND r."offset" = h.valid_from_offset
        WHERE h.topic_id = '{life.topic_id}' AND h.partition = {index}
        ORDER BY valid_from_offset DESC, record_type = '{SNAPSHOT_TYPE}' LIMIT {STEPS_KEPT + 1}
        """,
    )
    found: list[Step] = []
    before = None
    for row in reversed(rows):
        after = registration(row)
        found.append(Step(source=begin_of(row), before=before, after=after))
        before = after
    removed = end_of(rows[0], RemoveTopicRecord.NAME) if rows else None
    if removed is not None:
        found.append(Step(source=removed, before=before, after=None))
    return found[-STEPS_KEPT:]


def split(name: str) -> tuple[str, int]:
    """Return the topic and the index of a partition.

    Raises:
        ReplayInputError: the text names none.
    """
    topic, dash, index = name.rpartition("-")
    if not dash or not topic or not (index.isascii() and index.isdecimal()):
        raise ReplayInputError(f"expected a partition such as topic-0, got {name!r}")
    return topic, int(index)


def _directory(state: PartitionRegistration, broker: BrokerId) -> DirectoryId | None:
    return state.directory(broker) if broker in state.replicas else None
