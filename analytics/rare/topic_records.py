"""One topic, record by record: its lives, its `min.insync.replicas`, and its partitions' states."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from analytics.rare.key_history import Event, History, Moment, Sync, interval
from analytics.rare.min_insync import AssumedMinIsr, MinIsrInForce, min_isr_in_force
from analytics.rare.state_difference import disagreement
from jbodlab.metadata.image.partition_registration import PartitionRegistration
from jbodlab.metadata.records.config_records import TOPIC_RESOURCE, ConfigRecord
from jbodlab.metadata.records.topic_records import (
    ClearElrRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from jbodlab.vocabulary.errors import ReplayError


class PartitionState(NamedTuple):
    """A state, and since when it holds."""

    state: PartitionRegistration
    since: Moment


class Change(NamedTuple):
    """A state of a partition that has ended, or that still holds at the end."""

    topic: str
    partition: int
    state: PartitionRegistration
    since: Moment
    until: Moment | None
    ended: str
    """How it ended: changed, deleted, snapshot; or still."""


class TopicFold:
    """One topic."""

    def __init__(self, topic_id: str, assumed: AssumedMinIsr | None = None) -> None:
        self.history = History()
        self.topic_id = topic_id
        self.assumed = assumed or AssumedMinIsr()
        self.name: str | None = None
        self.created: Moment | None = None
        self.partitions: dict[int, PartitionState] = {}
        self.default_min_isr: str | None = None
        self.topic_min_isr: str | None = None
        self.min_isr: tuple[MinIsrInForce, Moment] | None = None
        self.changes: list[Change] = []

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
                    raise ReplayError(f"topic {name!r} exists already")
                self._create(name, moment)
            case RemoveTopicRecord():
                if self.name is None:
                    raise ReplayError(f"topic {self.topic_id} does not exist")
                self._remove(moment, "deleted")
            case ClearElrRecord(topic_name=name):
                if name not in ("", self.name):
                    return  # the id had this name before, another topic may have it now
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
            self._disagree(sync, f"topic {self.name!r}, in the snapshot {name!r}")
            if self.name is not None:
                self._remove(moment, "snapshot")
            if name is not None:
                self._create(name, moment)
        for index in self.partitions.keys() - partitions.keys():
            self._disagree(sync, f"{self.name}-{index} is not in the snapshot")
            self._close(index, moment, "snapshot")
        for index, (state, version) in partitions.items():
            known = self.partitions.get(index)
            found = None if known is None else _comparable(known.state, version)
            other = _comparable(state, version)
            if found != other:
                self._disagree(sync, disagreement(f"{self.name}-{index}", found, other))
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
            self._emit_partition(index, None, "still")

    def _create(self, name: str, moment: Moment) -> None:
        self.name = name
        self.created = moment
        self._update_min_isr(moment)

    def _remove(self, moment: Moment, ended: str) -> None:
        for index in list(self.partitions):
            self._close(index, moment, ended)
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
            self._emit_partition(index, moment, "changed")
        self.partitions[index] = PartitionState(state, moment)

    def _close(self, index: int, moment: Moment, ended: str) -> None:
        self._emit_partition(index, moment, ended)
        del self.partitions[index]

    def _set_min_isr(self, config: ConfigRecord) -> None:
        if config.resource_type == TOPIC_RESOURCE:
            if config.resource_name == self.name:
                self.topic_min_isr = config.value
        else:
            self.default_min_isr = config.value

    def _update_min_isr(self, moment: Moment) -> None:
        if self.name is None:
            return
        found = min_isr_in_force(self.topic_min_isr, self.default_min_isr, self.assumed)
        if self.min_isr is not None:
            if self.min_isr[0] == found:
                return
            self._emit_min_isr(moment)
        self.min_isr = (found, moment)

    def _emit_topic(self, until: Moment | None) -> None:
        assert self.created is not None
        columns = {"topic": self.name, "topic_id": self.topic_id}
        self.history.add("topic", columns | interval(self.created, until))
        self._emit_min_isr(until)

    def _emit_min_isr(self, until: Moment | None) -> None:
        assert self.min_isr is not None
        found, since = self.min_isr
        columns = {
            "topic_id": self.topic_id,
            "min_insync_replicas": found.value,
            "min_insync_replicas_from": found.origin,
        }
        self.history.add("min_isr", columns | interval(since, until))

    def _emit_partition(self, index: int, until: Moment | None, ended: str) -> None:
        known = self.partitions[index]
        name = self.name
        assert name is not None
        self.changes.append(Change(name, index, known.state, known.since, until, ended))

    def _disagree(self, sync: Sync, message: str) -> None:
        if not sync.is_base:
            self.history.problem(sync.file, sync.offset, "disagreement", message)


def _comparable(state: PartitionRegistration, version: int) -> PartitionRegistration:
    """Return a state without what a snapshot's record of this version cannot hold."""
    if version < 1:
        state = replace(state, directories=())
    if version < 2:
        state = replace(state, elr=(), last_known_elr=())
    return state
