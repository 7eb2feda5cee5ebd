"""Why a partition is as it is: its states, and what happened to the brokers of its replicas."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from heapq import merge

from analytics.ask.cluster import BrokerChange, Cluster, TopicLife
from analytics.ask.offline_log import At, LogRecord, OfflineLog, clock
from analytics.ask.text import (
    ChainLine,
    broker_change_text,
    brokers_text,
    chain_text,
    directory_text,
    moment_text,
    state_text,
)
from analytics.errors import ReplayInputError
from analytics.fold.broker_facts import LOSS_WINDOW_MS
from analytics.fold.min_insync import ASSUMED
from analytics.fold.transactions import Dropped
from jbodlab import directory_id as directory_ids
from jbodlab.ids import NO_LEADER, BrokerId, DirectoryId
from jbodlab.image.partition_registration import PartitionRegistration
from jbodlab.image.replay_error import ReplayError
from jbodlab.records.topic_records import (
    NO_LEADER_CHANGE,
    NO_RECOVERY_STATE_CHANGE,
    ClearElrRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
)

STEPS_KEPT = 2000
"""States that are kept; what was before is not part of any answer."""
STEPS_OF_A_SOUND_ONE = 5
"""Last changes that are told of a partition that lacks nothing."""

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


def answer(
    log: OfflineLog,
    cluster: Cluster,
    dropped: list[Dropped],
    at: At,
    name: str,
) -> list[str]:
    """Return the lines of the answer.

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
    lines = [f"{name}, {moment_text(at)}, topic id {life.topic_id}"]
    for former in lives[:-1]:
        until = "" if former.removed is None else f", deleted {_where(former.removed)}"
        lines.append(
            f"  before    topic id {former.topic_id}, created {_where(former.created)}{until}"
        )
    current = steps[-1].after
    if current is None:
        assert life.removed is not None
        return [
            *lines,
            f"  state     deleted with its topic, {_where(life.removed)}",
            "Chain",
            *chain_text(_told(steps[-STEPS_OF_A_SOUND_ONE:], cluster)),
        ]
    found = _Findings(cluster, steps, topic, at)
    return [*lines, *found.summary(current), "Chain", *chain_text(found.chain())]


class _Findings:
    """What is wrong with a partition, and since when."""

    def __init__(self, cluster: Cluster, steps: list[Step], topic: str, at: At) -> None:
        self.cluster = cluster
        self.steps = steps
        self.topic = topic
        self.at = at
        self.min_isr, self.min_isr_origin = cluster.min_isr(topic)

    def summary(self, state: PartitionRegistration) -> list[str]:
        lines = [f"  state     {', '.join(self._conditions(state)) or 'nothing is missing'}"]
        leader = "none" if state.leader == NO_LEADER else str(state.leader)
        led = self._since(lambda known: known.leader == state.leader)
        lines.append(
            f"  leader    {leader} since {_where(led.source)}, leader epoch {state.leader_epoch}"
        )
        for broker, directory in zip(state.replicas, state.directories, strict=True):
            lines.append(
                f"  replica   {broker} in {directory_text(directory)}: "
                f"{self._replica(state, broker)}"
            )
        lines.append(
            f"  isr       {brokers_text(state.isr)}, min.insync.replicas {self.min_isr}"
            f"{self._assumed()}" + (f", ELR {brokers_text(state.elr)}" if state.elr else "")
        )
        if state.adding_replicas or state.removing_replicas:
            lines.append(
                f"  moving    adding {brokers_text(state.adding_replicas)}, "
                f"removing {brokers_text(state.removing_replicas)}"
            )
        return lines

    def _assumed(self) -> str:
        is_assumed = self.min_isr_origin == ASSUMED
        return f" (assumed: {self.cluster.assumed_min_isr.source})" if is_assumed else ""

    def chain(self) -> list[ChainLine]:
        """Return the records from the last state in which nothing was missing on."""
        start = next(
            (
                number
                for number in reversed(range(len(self.steps)))
                if self._is_sound(self.steps[number])
            ),
            0,
        )
        last = len(self.steps) - 1
        if start == last:
            start = max(0, last - STEPS_OF_A_SOUND_ONE + 1)
        lines = _told(self.steps[start:], self.cluster)
        current = self.steps[-1].after
        assert current is not None
        for broker in current.replicas:
            change = self._culprit(current, broker)
            if change is not None:
                lines.append(ChainLine(source=change.source, text=broker_change_text(change)))
        return lines

    def _conditions(self, state: PartitionRegistration) -> Iterator[str]:
        if state.leader == NO_LEADER:
            step = self._since(lambda known: known.leader == NO_LEADER)
            yield f"leaderless since {_where(step.source)}"
        required = min(self.min_isr, len(state.replicas))
        if len(state.isr) < required:
            step = self._since(lambda known: len(known.isr) < required)
            yield f"under min.insync.replicas since {_where(step.source)}"
        elif len(state.isr) < len(state.replicas):
            step = self._since(lambda known: len(known.isr) < len(known.replicas))
            yield f"under-replicated since {_where(step.source)}"
        if directory_ids.UNASSIGNED in state.directories:
            yield "a replica is in no assigned directory"
        if not all(self._is_online(state, broker) for broker in state.replicas):
            yield "a replica is offline"

    def _replica(self, state: PartitionRegistration, broker: BrokerId) -> str:
        parts = []
        if broker == state.leader:
            parts.append("leads")
        if broker in state.isr:
            parts.append("in sync")
        else:
            step = self._since(lambda known: broker not in known.isr)
            parts.append(f"out of the ISR since {_where(step.source)}")
        registration = self.cluster.brokers.get(broker)
        directory = state.directory(broker)
        if registration is None or not registration.active:
            parts.append(f"broker {state_text(registration)}")
        if directory == directory_ids.UNASSIGNED:
            step = self._since(lambda known: _directory(known, broker) == directory)
            parts.append(f"no directory assigned since {_where(step.source)}")
        elif registration is not None and not registration.directory_is_online(directory):
            parts.append("directory offline")
        change = self._culprit(state, broker)
        if change is not None:
            parts.append(f"because of offset {change.source.offset}")
        return ", ".join(parts)

    def _is_online(self, state: PartitionRegistration, broker: BrokerId) -> bool:
        registration = self.cluster.brokers.get(broker)
        return (
            registration is not None
            and registration.active
            and registration.directory_is_online(state.directory(broker))
        )

    def _culprit(self, state: PartitionRegistration, broker: BrokerId) -> BrokerChange | None:
        """Return the record that took the broker or the directory of a replica away."""
        return (
            None
            if self._is_online(state, broker)
            else lost_by(self.cluster, state, broker, self.at.offset)
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

    def _since(self, holds: Callable[[PartitionRegistration], bool]) -> Step:
        """Return the step since which something holds that holds now."""
        found = self.steps[-1]
        for step in reversed(self.steps):
            if step.after is None or not holds(step.after):
                break
            found = step
        return found


def lost_by(
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
        after = change.after
        is_usable = (
            after is not None
            and after.active
            and (directory is None or after.directory_is_online(directory))
        )
        if is_usable:
            break
        found = change
    return found


def lost_soon_after(cluster: Cluster, step: Step, broker: BrokerId) -> BrokerChange | None:
    """Return the record that explains a loss although it follows it; see `fold.broker_facts`."""
    assert step.before is not None
    directory = _directory(step.before, broker)
    for change in cluster.changes.get(broker, ()):
        after, source = change.after, change.source
        if source.offset <= step.source.batch_last_offset:
            continue
        if (
            after is not None
            and after.active
            and (directory is None or after.directory_is_online(directory))
        ):
            continue
        if source.time is None or step.source.time is None:
            return None
        is_soon = source.time - step.source.time <= timedelta(milliseconds=LOSS_WINDOW_MS)
        return change if is_soon else None
    return None


def _told(steps: Iterable[Step], cluster: Cluster) -> list[ChainLine]:
    """Return the lines of steps, and of what took away the replicas that they lost."""
    lines: list[ChainLine] = []
    for step in steps:
        text = _step_text(step)
        for broker in _lost(step):
            assert step.before is not None
            last = step.source.batch_last_offset
            change = lost_by(cluster, step.before, broker, last) or lost_soon_after(
                cluster, step, broker
            )
            if change is None:
                text += f"; replica {broker} fell behind" if step.after is not None else ""
                continue
            lines.append(ChainLine(source=change.source, text=broker_change_text(change)))
            text += f"; replica {broker} lost by offset {change.source.offset}"
        lines.append(ChainLine(source=step.source, text=text))
    return lines


def _lost(step: Step) -> list[BrokerId]:
    """Return the replicas that a step took out of ISR or leadership."""
    before, after = step.before, step.after
    if before is None or after is None:
        return []
    lost = [broker for broker in before.isr if broker not in after.isr]
    lost = [broker for broker in lost if broker in after.replicas]
    if before.leader not in (after.leader, NO_LEADER) and before.leader not in lost:
        is_forced = after.leader == NO_LEADER or before.leader not in after.isr
        if is_forced and before.leader in after.replicas:
            lost.append(before.leader)
    return lost


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
    for source in merge(own, sorted([*ends, *clears], key=_offset), key=_offset):
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


def _where(source: LogRecord) -> str:
    return f"offset {source.offset} {clock(source.time)}"


def _offset(source: LogRecord) -> int:
    return source.offset
