"""The partitions of one topic, one slot of them: every state that each of them had.

A topic's own records (its creation, its end, ClearElr, `min.insync.replicas`) reach all its slots;
slot 0 emits what the topic has once.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from analytics.fold import Event, History, Moment, Row, Sync, interval
from jbodlab import kafka_uuid
from jbodlab.ids import NO_LEADER
from jbodlab.image.partition_registration import PartitionRegistration
from jbodlab.image.replay_error import ReplayError
from jbodlab.records.config_records import TOPIC_RESOURCE, ConfigRecord
from jbodlab.records.topic_records import (
    ClearElrRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)

DEFAULT_MIN_INSYNC_REPLICAS = 1
"""Kafka's own default; what a broker's file sets is not in the log."""

MIN_INSYNC_REPLICAS = "min.insync.replicas"


class PartitionState(NamedTuple):
    """A state, since when it holds, and the replicas that the step to it took away."""

    state: PartitionRegistration
    since: Moment
    lost: tuple[int, ...]


class TopicFold:
    """One slot of a topic."""

    def __init__(self, topic_id: str, slot: int) -> None:
        self.history = History()
        self.topic_id = topic_id
        self.is_first = slot == 0
        self.name: str | None = None
        self.created: Moment | None = None
        self.partitions: dict[int, PartitionState] = {}
        self.default_min_isr: str | None = None
        self.topic_min_isr: str | None = None
        self.min_isr: tuple[int, Moment] | None = None

    def replay(self, event: Event) -> None:
        """Apply a record of the log."""
        moment = Moment.of(event)
        match event.record:
            case PartitionChangeRecord() as change:
                known = self._known(change.partition_id)
                self._put(change.partition_id, known.state.merge(change), moment)
            case PartitionRecord() as record:
                if self.name is None:
                    raise ReplayError(f"partition of topic {self.topic_id}, which does not exist")
                self._put(record.partition_id, PartitionRegistration.from_record(record), moment)
            case TopicRecord(name=name):
                if self.name is not None:
                    # Every slot sees it; one of them says so.
                    self._once_only(f"topic {name!r} exists already")
                    return
                self._create(name, moment)
            case RemoveTopicRecord():
                if self.name is None:
                    self._once_only(f"topic {self.topic_id} does not exist")
                    return
                self._remove(moment)
            case ClearElrRecord():
                for index, known in self.partitions.items():
                    if (cleared := known.state.without_elr()) is not known.state:
                        self._put(index, cleared, moment)
            case ConfigRecord() as config:
                self._set_min_isr(config)
                self._update_min_isr(moment)
            case record:
                raise AssertionError(f"{type(record).__name__} is not about a topic")

    def sync(self, sync: Sync, events: list[Event]) -> None:
        """Compare with, and take over, what a snapshot says about the topic."""
        moment = sync.moment
        partitions: dict[int, tuple[PartitionRegistration, int]] = {}
        name: str | None = None
        configs: list[ConfigRecord] = []
        for event in events:
            match event.record:
                case TopicRecord() as topic:
                    name = topic.name
                case PartitionRecord() as record:
                    state = PartitionRegistration.from_record(record)
                    partitions[record.partition_id] = (state, event.version)
                case ConfigRecord() as config:
                    configs.append(config)
        if self.name != name:
            if self.is_first:
                self._disagree(sync, f"topic {self.name!r}, in the snapshot {name!r}")
            if self.name is not None:
                self._remove(moment)
            if name is not None:
                self._create(name, moment)
        for index in self.partitions.keys() - partitions.keys():
            self._disagree(sync, f"{self.name}-{index} is not in the snapshot")
            self._close(index, moment)
        for index, (state, version) in partitions.items():
            known = self.partitions.get(index)
            if known is None or _comparable(known.state, version) != _comparable(state, version):
                found = None if known is None else known.state
                self._disagree(sync, f"{self.name}-{index} is {found}, in the snapshot {state}")
                self._put(index, state, moment)
        self.topic_min_isr = self.default_min_isr = None
        for config in configs:
            self._set_min_isr(config)
        self._update_min_isr(moment)

    def finish(self) -> None:
        """Emit the states that still hold."""
        if self.name is not None:
            self._emit_topic(None)
        for index in self.partitions:
            self._emit_partition(index, None)

    def _create(self, name: str, moment: Moment) -> None:
        self.name = name
        self.created = moment
        self._update_min_isr(moment)

    def _remove(self, moment: Moment) -> None:
        for index in list(self.partitions):
            self._close(index, moment)
        self._emit_topic(moment)
        self.name = self.created = None
        self.topic_min_isr = self.min_isr = None

    def _known(self, index: int) -> PartitionState:
        known = self.partitions.get(index)
        if known is None:
            name = self.name or self.topic_id
            raise ReplayError(f"change of partition {name}-{index}, which does not exist")
        return known

    def _put(self, index: int, state: PartitionRegistration, moment: Moment) -> None:
        known = self.partitions.get(index)
        if known is not None:
            self._emit_partition(index, moment)
        before = None if known is None else known.state
        self.partitions[index] = PartitionState(state, moment, lost_replicas(before, state))

    def _close(self, index: int, moment: Moment) -> None:
        self._emit_partition(index, moment)
        del self.partitions[index]

    def _set_min_isr(self, config: ConfigRecord) -> None:
        if config.resource_type == TOPIC_RESOURCE:
            self.topic_min_isr = config.value
        else:
            self.default_min_isr = config.value

    def _update_min_isr(self, moment: Moment) -> None:
        if self.name is None:
            return
        value = min_insync_replicas(self.topic_min_isr, self.default_min_isr)
        if self.min_isr is None:
            self.min_isr = (value, moment)
        elif self.min_isr[0] != value:
            self._emit_min_isr(moment)
            self.min_isr = (value, moment)

    def _emit_topic(self, until: Moment | None) -> None:
        if not self.is_first:
            return
        assert self.created is not None
        columns = {"topic": self.name, "topic_id": self.topic_id}
        self.history.add("topic", columns | interval(self.created, until))
        self._emit_min_isr(until)

    def _emit_min_isr(self, until: Moment | None) -> None:
        if not self.is_first:
            return
        assert self.min_isr is not None
        value, since = self.min_isr
        columns = {"topic_id": self.topic_id, "min_insync_replicas": value}
        self.history.add("min_isr", columns | interval(since, until))

    def _emit_partition(self, index: int, until: Moment | None) -> None:
        state, since, lost = self.partitions[index]
        columns: Row = {
            "topic": self.name,
            "topic_id": self.topic_id,
            "partition": index,
            "leader": state.leader,
            "leader_epoch": state.leader_epoch,
            "partition_epoch": state.partition_epoch,
            "leader_recovery_state": state.leader_recovery_state,
            "replicas": state.replicas,
            "isr": state.isr,
            "removing_replicas": state.removing_replicas,
            "adding_replicas": state.adding_replicas,
            "directories": [kafka_uuid.to_text(directory) for directory in state.directories],
            "eligible_leader_replicas": state.elr,
            "last_known_elr": state.last_known_elr,
            "lost": lost,
        }
        self.history.add("partition", columns | interval(since, until))

    def _once_only(self, message: str) -> None:
        if self.is_first:
            raise ReplayError(message)

    def _disagree(self, sync: Sync, message: str) -> None:
        if not sync.is_base:
            self.history.problem(sync.file, sync.offset, "disagreement", message)


def lost_replicas(
    before: PartitionRegistration | None, after: PartitionRegistration
) -> tuple[int, ...]:
    """Return the brokers whose replicas a step took out of the ISR, or out of the leadership.

    A partition without a leader keeps the last member of its ISR there when it has no ELR; that
    member is lost all the same. Of a state without a predecessor, every replica that is not in
    sync counts. A replica that a reassignment removed is not lost.
    """
    was_in_sync = after.replicas if before is None else before.isr
    lost = [
        broker for broker in was_in_sync if broker not in after.isr and broker in after.replicas
    ]
    if after.leader == NO_LEADER and (before is None or before.leader != NO_LEADER):
        gone = after.isr if before is None else (before.leader,)
        lost += (broker for broker in gone if broker not in lost)
    return tuple(lost)


def min_insync_replicas(of_topic: str | None, of_cluster: str | None) -> int:
    """Return the value in force; what is not a number counts as not set."""
    for text in (of_topic, of_cluster):
        if text is not None and text.strip().isdecimal():
            return int(text)
    return DEFAULT_MIN_INSYNC_REPLICAS


def _comparable(state: PartitionRegistration, version: int) -> PartitionRegistration:
    """Return a state without what a snapshot's record of this version cannot hold."""
    if version < 1:
        state = replace(state, directories=())
    if version < 2:
        state = replace(state, elr=(), last_known_elr=())
    return state
