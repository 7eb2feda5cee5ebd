"""One broker: every state of its registration, its sessions, and its log directories' intervals.

A session is what the registration amounts to for partitions: fenced, unfenced, or in controlled
shutdown, of one incarnation. A broker that is fenced counts as fenced, whether or not it was in
controlled shutdown before; one that was unfenced without a new registration after a controlled
shutdown is still in it, since it may not lead.
"""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter
from typing import NamedTuple
from uuid import UUID

from analytics.rare.key_history import Event, Held, History, Moment, Row, Sync, duration_ms
from analytics.rare.state_difference import disagreement
from jbodlab.kafka_wire.schema import field_specs
from jbodlab.metadata.image.broker_registration import BrokerRegistration
from jbodlab.metadata.image.cluster_image import ClusterImage
from jbodlab.metadata.image.metadata_delta import MetadataDelta
from jbodlab.metadata.image.metadata_image import MetadataImage
from jbodlab.metadata.records.cluster_records import (
    BrokerEndpoint,
    BrokerFeature,
    RegisterBrokerRecord,
)
from jbodlab.vocabulary import directory_id as directory_ids
from jbodlab.vocabulary import kafka_uuid
from jbodlab.vocabulary.ids import BrokerId, DirectoryId

ONLINE = "online"
OFFLINE = "offline"

FENCED = "fenced"
UNFENCED = "unfenced"
CONTROLLED_SHUTDOWN = "controlled_shutdown"

_FAILED = "failed"
_ABSENT = "absent"
_SNAPSHOT = "snapshot"


class _Session(NamedTuple):
    """The registration as it counts for partitions."""

    broker_epoch: int
    incarnation_id: UUID
    state: str

    @classmethod
    def of(cls, known: BrokerRegistration) -> _Session:
        """Return the session that a registration stands for."""
        if known.fenced:
            state = FENCED
        else:
            state = CONTROLLED_SHUTDOWN if known.in_controlled_shutdown else UNFENCED
        return cls(known.epoch, known.incarnation_id, state)


class BrokerFold:
    """The registration of one broker."""

    def __init__(self, broker_id: int) -> None:
        self.history = History()
        self.broker_id = BrokerId(broker_id)
        self.delta = MetadataDelta(MetadataImage())
        self.registration = Held(self.history, "broker", _registration_row)
        self.session = Held(self.history, "broker_session", _session_row)
        self.log_dirs = Held(self.history, "log_dir", self._log_dir_row)

    def replay(self, event: Event) -> None:
        """Apply a record of the log."""
        record = event.record
        self.delta.replay(record, event.offset)
        ended_by = _ABSENT if isinstance(record, RegisterBrokerRecord) else _FAILED
        known = self.delta.cluster.brokers.get(self.broker_id)
        self._become(known, Moment.of(event), ended_by)

    def sync(self, sync: Sync, events: list[Event]) -> None:
        """Compare with, and take over, what a snapshot says about the broker."""
        target: BrokerRegistration | None = None
        version = RegisterBrokerRecord.HIGHEST_VERSION
        for event in events:
            if isinstance(record := event.record, RegisterBrokerRecord):
                target = BrokerRegistration.from_record(record, event.offset)
                version = event.version
        mine, other = (
            _comparable(one, version) for one in (self.registration.get(self.broker_id), target)
        )
        if mine == other:
            return
        if not sync.is_base:
            text = disagreement(f"broker {self.broker_id}", mine, other)
            self.history.problem(sync.file, sync.offset, "disagreement", text)
        brokers = {} if target is None else {self.broker_id: target}
        self.delta.cluster.become(ClusterImage(brokers=brokers))
        self._become(target, sync.moment, _SNAPSHOT)

    def finish(self) -> None:
        """Emit the states that still hold."""
        self.registration.finish()
        self.session.finish(duration_ms=None, ended_by=None)
        self.log_dirs.finish(ended_by=None)

    def _become(
        self, registration: BrokerRegistration | None, moment: Moment, ended_by: str
    ) -> None:
        """Take the next state; an equal one, as a second fencing gives, is no change."""
        if registration == self.registration.get(self.broker_id):
            return
        self.registration.become(self.broker_id, registration, moment)
        self._follow_session(registration, moment, ended_by)
        if registration is None:
            for directory in list(self.log_dirs.values):
                self.log_dirs.become(directory, None, moment, ended_by="unregistered")
            return
        online = {one for one in registration.directories if not directory_ids.is_reserved(one)}
        came_back = _SNAPSHOT if ended_by == _SNAPSHOT else "registered"
        for directory in online | self.log_dirs.values.keys():
            state, how = (ONLINE, came_back) if directory in online else (OFFLINE, ended_by)
            self.log_dirs.become(directory, state, moment, ended_by=how)

    def _follow_session(
        self, registration: BrokerRegistration | None, moment: Moment, why: str
    ) -> None:
        session = None if registration is None else _Session.of(registration)
        if why in (_SNAPSHOT, _ABSENT):
            ended_by = _SNAPSHOT if why == _SNAPSHOT else "registered"
        else:
            ended_by = "unregistered" if session is None else session.state
        known = self.session.values.get(self.broker_id)
        lasted = None if known is None else duration_ms(known[1], moment)
        self.session.become(self.broker_id, session, moment, duration_ms=lasted, ended_by=ended_by)

    def _log_dir_row(self, directory: DirectoryId, state: str) -> Row:
        return {
            "broker": self.broker_id,
            "directory": kafka_uuid.to_text(directory),
            "state": state,
        }


def _registration_row(broker: BrokerId, known: BrokerRegistration) -> Row:
    cordoned = known.cordoned_directories
    return {
        "broker": broker,
        "broker_id": broker,
        "broker_epoch": known.epoch,
        "incarnation_id": kafka_uuid.to_text(known.incarnation_id),
        "end_points": [_row(end_point) for end_point in known.endpoints],
        "features": [_row(feature) for feature in known.features],
        "rack": known.rack,
        "fenced": known.fenced,
        "in_controlled_shutdown": known.in_controlled_shutdown,
        "log_dirs": _texts(known.directories),
        "cordoned_log_dirs": None if cordoned is None else _texts(cordoned),
    }


def _session_row(broker: BrokerId, session: _Session) -> Row:
    return {
        "broker": broker,
        "broker_epoch": session.broker_epoch,
        "incarnation_id": kafka_uuid.to_text(session.incarnation_id),
        "state": session.state,
    }


def _row(value: BrokerEndpoint | BrokerFeature) -> Row:
    """Return the fields of a nested struct by their names."""
    return {spec.name: getattr(value, spec.name) for spec in field_specs(type(value))}


def _texts(directories: tuple[DirectoryId, ...]) -> list[str]:
    return [kafka_uuid.to_text(directory) for directory in directories]


def _comparable(known: BrokerRegistration | None, version: int) -> BrokerRegistration | None:
    """Return a registration without what a snapshot may lose: orders, and fields it cannot hold.

    Kafka writes no cordoned directories as null in the log and as an empty list in snapshots.
    """
    if known is None:
        return None
    return replace(
        known,
        endpoints=tuple(sorted(known.endpoints, key=attrgetter("name", "host", "port"))),
        features=tuple(sorted(known.features, key=attrgetter("name"))),
        in_controlled_shutdown=known.in_controlled_shutdown if version >= 1 else False,
        is_migrating_zk_broker=False,
        directories=known.directories if version >= 3 else (),
        cordoned_directories=(known.cordoned_directories or None) if version >= 4 else None,
    )
