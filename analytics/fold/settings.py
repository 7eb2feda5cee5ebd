"""Settings: configs of one resource, the level of one feature, the controller of one epoch.

Like a broker's registration, each is followed by its own key; see `fold.key_history`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from analytics.fold.key_history import Event, History, Moment, Row, Sync, interval
from jbodlab.records import metadata_version
from jbodlab.records.config_records import ConfigRecord, FeatureLevelRecord
from jbodlab.records.control_records import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    decode_control,
)
from jbodlab.records.topic_records import RemoveTopicRecord

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
        self.values: dict[str, tuple[str, Moment]] = {}

    def replay(self, event: Event) -> None:
        """Apply a record: a setting, or the end of the topic with all that was set for it."""
        moment = Moment.of(event)
        match event.record:
            case ConfigRecord(name=name, value=value):
                self._set(name, value, moment)
            case RemoveTopicRecord():
                for name in list(self.values):
                    self._set(name, None, moment)
            case record:
                raise AssertionError(f"{type(record).__name__} is no setting")

    def sync(self, sync: Sync, events: list[Event]) -> None:
        """Compare with, and take over, what a snapshot says."""
        target = {
            record.name: record.value
            for event in events
            if isinstance(record := event.record, ConfigRecord)
        }
        for name in sorted(self.values.keys() | target.keys()):
            known, value = self.values.get(name), target.get(name)
            text = None if known is None else known[0]
            if text == value:
                continue
            if not sync.is_base:
                # The values may be passwords; the tables have them, a message need not.
                what = f"{self.kind} {self.name!r}: {name} differs in the snapshot"
                self.history.problem(sync.file, sync.offset, "disagreement", what)
            self._set(name, value, sync.moment)

    def finish(self) -> None:
        """Emit what is still set."""
        for name in self.values:
            self._emit(name, None)

    def _set(self, name: str, value: str | None, moment: Moment) -> None:
        known = self.values.get(name)
        if known is not None:
            if known[0] == value:
                return
            self._emit(name, moment)
            del self.values[name]
        if value is not None:
            self.values[name] = (value, moment)

    def _emit(self, name: str, until: Moment | None) -> None:
        value, since = self.values[name]
        columns: Row = {
            "resource_type": self.kind,
            "resource_name": self.name,
            "name": name,
            "value": value,
        }
        self.history.add("config", columns | interval(since, until))


class FeatureFold:
    """The level of one feature; 0 means that it is off, except for metadata.version."""

    def __init__(self, name: str) -> None:
        self.history = History()
        self.name = name
        self.level: tuple[int, Moment] | None = None

    def replay(self, event: Event) -> None:
        """Apply a record about the feature."""
        self._become(self._level(event), Moment.of(event))

    def sync(self, sync: Sync, events: list[Event]) -> None:
        """Compare with, and take over, what a snapshot says.

        The level of kraft.version is taken over only: the snapshot that a controller is formatted
        with says it before the log does.
        """
        target = self._level(events[-1]) if events else None
        known = None if self.level is None else self.level[0]
        is_quorums_own = self.name == KRAFT_VERSION
        if known == target or (is_quorums_own and target is None):
            return
        if not sync.is_base and not is_quorums_own:
            text = f"feature {self.name} is {known}, in the snapshot {target}"
            self.history.problem(sync.file, sync.offset, "disagreement", text)
        self._become(target, sync.moment)

    def finish(self) -> None:
        """Emit the level that still holds."""
        self._emit(None)

    def _level(self, event: Event) -> int | None:
        if self.name == KRAFT_VERSION and event.type == KRaftVersionRecord.NAME:
            record = decode_control(_control_key(KRaftVersionRecord.CONTROL_TYPE), event.value)
            assert isinstance(record, KRaftVersionRecord)
            return record.k_raft_version
        feature = event.record
        assert isinstance(feature, FeatureLevelRecord)
        is_off = feature.feature_level == 0 and self.name != metadata_version.FEATURE_NAME
        return None if is_off else feature.feature_level

    def _become(self, level: int | None, moment: Moment) -> None:
        if self.level is not None:
            if self.level[0] == level:
                return
            self._emit(moment)
        self.level = None if level is None else (level, moment)

    def _emit(self, until: Moment | None) -> None:
        if self.level is None:
            return
        level, since = self.level
        columns: Row = {"feature": self.name, "level": level}
        self.history.add("feature", columns | interval(since, until))


class EpochFold:
    """The controller that led one epoch, as its first record says."""

    def __init__(self, epoch: int) -> None:
        self.history = History()
        self.epoch = epoch
        self.leader: tuple[int, Moment] | None = None

    def replay(self, event: Event) -> None:
        """Apply a LeaderChange record; the first one of an epoch counts."""
        if self.leader is not None:
            return
        record = decode_control(_control_key(LeaderChangeMessage.CONTROL_TYPE), event.value)
        assert isinstance(record, LeaderChangeMessage)
        self.leader = (record.leader_id, Moment.of(event))

    def sync(self, sync: Sync, events: list[Event]) -> None:
        """Do nothing: snapshots have no epochs of their own."""

    def finish(self) -> None:
        """Emit the controller."""
        if self.leader is not None:
            controller, since = self.leader
            columns: Row = {"epoch": self.epoch, "controller": controller}
            self.history.add("controller_epoch", columns | interval(since, None))


def _control_key(control_type: int) -> bytes:
    return _CONTROL_KEY + bytes((control_type,))
