"""Settings: configs of one resource, the level of one feature, the controller of one epoch.

Like a broker's registration, each is followed by its own key; see `rare.key_history`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from analytics.rare.key_history import Event, Held, History, Moment, Row, Sync
from jbodlab.metadata.records import metadata_version
from jbodlab.metadata.records.config_records import ConfigRecord, FeatureLevelRecord
from jbodlab.metadata.records.control_records import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    decode_control,
)
from jbodlab.metadata.records.topic_records import RemoveTopicRecord

RESOURCE_TYPES: Mapping[int, str] = MappingProxyType(
    {
        0: "unknown",
        2: "topic",
        4: "broker",
        8: "broker_logger",
        16: "client_metrics",
        32: "group",
    }
)
"""Kinds of resources that settings are for.

Source: `org.apache.kafka.common.config.ConfigResource`.
"""

KRAFT_VERSION = "kraft.version"
"""The one feature whose level stands in a control record."""

_CONTROL_KEY = b"\0\0\0"
"""Key of a control record but for its last byte, the type."""


def resource_type(code: int) -> str:
    """Return the name of a kind of resource; of one that is not known, its number."""
    return RESOURCE_TYPES.get(code, str(code))


class ConfigFold:
    """What is set for one resource, key by key."""

    def __init__(self, kind: str, name: str) -> None:
        self.history = History()
        self.kind = kind
        self.name = name
        self.held = Held(self.history, "config", self._row)

    def replay(self, event: Event) -> None:
        """Apply a record: a setting, or the end of the topic with all that was set for it."""
        moment = Moment.of(event)
        match event.record:
            case ConfigRecord(name=name, value=value):
                self.held.become(name, value, moment)
            case RemoveTopicRecord():
                for name in list(self.held.values):
                    self.held.become(name, None, moment)
            case record:
                raise AssertionError(f"{type(record).__name__} is no setting")

    def sync(self, sync: Sync, events: list[Event]) -> None:
        """Compare with, and take over, what a snapshot says."""
        target = {
            record.name: record.value
            for event in events
            if isinstance(record := event.record, ConfigRecord)
        }
        for name in sorted(self.held.values.keys() | target.keys()):
            value = target.get(name)
            if not sync.is_base and self.held.get(name) != value:
                # The values may be passwords; the tables have them, a message need not.
                what = f"{self.kind} {self.name!r}: {name} differs in the snapshot"
                self.history.problem(sync.file, sync.offset, "disagreement", what)
            self.held.become(name, value, sync.moment)

    def finish(self) -> None:
        """Emit what is still set."""
        self.held.finish()

    def _row(self, name: str, value: str) -> Row:
        return {
            "resource_type": self.kind,
            "resource_name": self.name,
            "name": name,
            "value": value,
        }


class FeatureFold:
    """The level of one feature; 0 means that it is off, except for metadata.version."""

    def __init__(self, name: str) -> None:
        self.history = History()
        self.name = name
        self.level = Held(self.history, "feature", _feature_row)

    def replay(self, event: Event) -> None:
        """Apply a record about the feature."""
        self.level.become(self.name, self._level(event), Moment.of(event))

    def sync(self, sync: Sync, events: list[Event]) -> None:
        """Compare with, and take over, what a snapshot says.

        The level of kraft.version is taken over only: the snapshot that a controller is formatted
        with says it before the log does.
        """
        target = self._level(events[-1]) if events else None
        known = self.level.get(self.name)
        is_quorums_own = self.name == KRAFT_VERSION
        if known == target or (is_quorums_own and target is None):
            return
        if not sync.is_base and not is_quorums_own:
            text = f"feature {self.name} is {known}, in the snapshot {target}"
            self.history.problem(sync.file, sync.offset, "disagreement", text)
        self.level.become(self.name, target, sync.moment)

    def finish(self) -> None:
        """Emit the level that still holds."""
        self.level.finish()

    def _level(self, event: Event) -> int | None:
        if self.name == KRAFT_VERSION and event.type == KRaftVersionRecord.NAME:
            record = decode_control(_control_key(KRaftVersionRecord.CONTROL_TYPE), event.value)
            assert isinstance(record, KRaftVersionRecord)
            return record.k_raft_version
        feature = event.record
        assert isinstance(feature, FeatureLevelRecord)
        is_off = feature.feature_level == 0 and self.name != metadata_version.FEATURE_NAME
        return None if is_off else feature.feature_level


class EpochFold:
    """The controller that led one epoch, as its first record says."""

    def __init__(self, epoch: int) -> None:
        self.history = History()
        self.epoch = epoch
        self.leader = Held(self.history, "controller_epoch", _epoch_row)

    def replay(self, event: Event) -> None:
        """Apply a LeaderChange record; the first one of an epoch counts."""
        if self.leader.values:
            return
        record = decode_control(_control_key(LeaderChangeMessage.CONTROL_TYPE), event.value)
        assert isinstance(record, LeaderChangeMessage)
        self.leader.become(self.epoch, record.leader_id, Moment.of(event))

    def sync(self, sync: Sync, events: list[Event]) -> None:
        """Do nothing: snapshots have no epochs of their own."""

    def finish(self) -> None:
        """Emit the controller."""
        self.leader.finish()


def _feature_row(name: str, level: int) -> Row:
    return {"feature": name, "level": level}


def _epoch_row(epoch: int, controller: int) -> Row:
    return {"epoch": epoch, "controller": controller}


def _control_key(control_type: int) -> bytes:
    return _CONTROL_KEY + bytes((control_type,))
