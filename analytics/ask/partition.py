"""Why a partition is as it is: its states, and what happened to the brokers of its replicas."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from heapq import merge
from itertools import takewhile
from operator import attrgetter

from analytics.ask.answer import (
    Json,
    broker_change_text,
    brokers_text,
    chain,
    directory_text,
    event,
    link,
    moment,
    repair_text,
    state_text,
)
from analytics.ask.cluster import BrokerChange, Cluster, TopicLife, serves
from analytics.ask.offline_log import At, LogRecord, OfflineLog
from analytics.errors import ReplayInputError
from analytics.rare.broker_facts import LOSS_WINDOW_MS
from analytics.rare.min_insync import ASSUMED
from analytics.rare.topic_records import lost_replicas
from analytics.rare.transactions import Dropped
from jbodlab.metadata.image.partition_registration import PartitionRegistration
from jbodlab.metadata.records.topic_records import (
    NO_LEADER_CHANGE,
    NO_RECOVERY_STATE_CHANGE,
    ClearElrRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
)
from jbodlab.vocabulary import directory_id as directory_ids
from jbodlab.vocabulary.errors import ReplayError
from jbodlab.vocabulary.ids import NO_LEADER, BrokerId, DirectoryId

STEPS_KEPT = 2000
"""States that are kept; what was before is not part of any answer."""
STEPS_OF_A_SOUND_ONE = 5
"""Last changes in the chain of a healthy partition."""

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


def answer(log: OfflineLog, cluster: Cluster, dropped: list[Dropped], at: At, name: str) -> Json:
    """Return the answer about a partition.

    Args:
        log: The log.
        cluster: The cluster at the moment.
        dropped: Stretches that have no effect.
        at: The moment.
        name: Topic and index, separated by the last dash.

    Raises:
        ReplayInputError: there is and was no such partition.
    """
    topic, index = _split(name)
    lives = cluster.lives.get(topic)
    if not lives:
        raise ReplayInputError(f"topic {topic!r} does not exist, and did not before")
    life = lives[-1]
    steps = list(_steps(log, cluster, dropped, at, lives, index))
    steps = [step for step in steps if step.source.offset >= life.created.offset]
    if not steps:
        raise ReplayInputError(f"topic {topic!r} has no partition {index}")
    current = steps[-1].after
    found = {
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
        return found | {"deleted": event(life.removed), "chain": links, "next": []}
    return found | _Findings(cluster, steps, topic, at, current).found()


class _Findings:
    """What a partition lacks, and since when."""

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

    def found(self) -> Json:
        state = self.current
        is_assumed = self.min_isr_origin == ASSUMED
        return {
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
        }

    def _chain(self) -> list[Json]:
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

    def _conditions(self, state: PartitionRegistration) -> Iterator[Json]:
        def condition(
            text: str, holds: Callable[[PartitionRegistration], bool] | None = None
        ) -> Json:
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

    def _replica(self, state: PartitionRegistration, broker: BrokerId) -> Json:
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

    def _since(self, holds: Callable[[PartitionRegistration], bool]) -> Json:
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
    """Return the record since which a replica cannot be used; None if it can, or always could not.

    Args:
        cluster: The cluster.
        state: The partition.
        broker: The broker of the replica.
        offset: Last offset that counts.
    """
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
    """Return the record that explains a loss although it follows it; see `rare.broker_facts`."""
    assert step.before is not None
    directory = _directory(step.before, broker)
    for change in cluster.changes.get(broker, ()):
        source = change.source
        if source.offset <= step.source.batch_last_offset or serves(change.after, directory):
            continue
        if source.time is None or step.source.time is None:
            return None
        is_soon = source.time - step.source.time <= timedelta(milliseconds=LOSS_WINDOW_MS)
        return change if is_soon else None
    return None


def _explained(steps: Iterable[Step], cluster: Cluster) -> list[Json]:
    """Return the links of steps, and of what took away the replicas that they lost."""
    links: list[Json] = []
    for step in steps:
        text = _step_text(step)
        lost = lost_replicas(step.before, step.after) if step.before and step.after else ()
        for broker in map(BrokerId, lost):
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


def _step_text(step: Step) -> str:
    before, after = step.before, step.after
    match step.source.record:
        case PartitionChangeRecord() as record:
            parts = [
                f"{name}={brokers_text(value)}"
                for name in _LISTS
                if (value := getattr(record, name)) is not None
            ]
            if record.leader != NO_LEADER_CHANGE:
                former = "" if before is None else f" (was {before.leader})"
                parts.insert(0, f"leader={record.leader}{former}")
            if record.leader_recovery_state != NO_RECOVERY_STATE_CHANGE:
                parts.append(f"leader_recovery_state={record.leader_recovery_state}")
            if record.directories is not None:
                parts.append(_directories_text(before, after))
            return " ".join(parts) or "no field"
        case PartitionRecord() as record:
            assert after is not None
            dirs = ", ".join(map(directory_text, after.directories))
            return (
                f"leader={record.leader} replicas={brokers_text(record.replicas)} "
                f"isr={brokers_text(record.isr)} directories=[{dirs}]"
            )
        case RemoveTopicRecord():
            return "the topic is deleted"
        case ClearElrRecord():
            return "eligible_leader_replicas=[] last_known_elr=[]"
        case record:
            raise AssertionError(f"{type(record).__name__} is not about a partition")


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


def _steps(
    log: OfflineLog,
    cluster: Cluster,
    dropped: list[Dropped],
    at: At,
    lives: list[TopicLife],
    index: int,
) -> deque[Step]:
    """Return the last steps of the partition, over all lives of its topic's name."""
    ids = [life.topic_id for life in lives]
    own = log.partition_records(at.offset, ids, index, dropped)
    ends = (life.removed for life in lives if life.removed is not None)
    clears = (
        source
        for source in cluster.clears
        if isinstance(source.record, ClearElrRecord)
        and source.record.topic_name in ("", lives[-1].name)
    )
    found: deque[Step] = deque(maxlen=STEPS_KEPT)
    state: PartitionRegistration | None = None
    for source in merge(
        own, sorted([*ends, *clears], key=attrgetter("offset")), key=attrgetter("offset")
    ):
        before = state
        match source.record:
            case PartitionRecord() as record:
                state = PartitionRegistration.from_record(record)
            case PartitionChangeRecord() as change if state is not None:
                try:
                    state = state.merge(change)
                except ReplayError:
                    continue
            case RemoveTopicRecord() if state is not None:
                state = None
            case ClearElrRecord() if state is not None:
                state = state.without_elr()
                if state is before:
                    continue
            case _:
                continue
        found.append(Step(source=source, before=before, after=state))
    return found


def _split(name: str) -> tuple[str, int]:
    topic, dash, index = name.rpartition("-")
    if not dash or not topic or not (index.isascii() and index.isdecimal()):
        raise ReplayInputError(f"expected a partition such as topic-0, got {name!r}")
    return topic, int(index)


def _directory(state: PartitionRegistration, broker: BrokerId) -> DirectoryId | None:
    return state.directory(broker) if broker in state.replicas else None
