"""One broker: every state of its registration."""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter

from analytics.rare.key_history import Event, History, Moment, Row, Sync, interval
from analytics.rare.state_difference import disagreement
from analytics.read.typed_columns import plain_value
from jbodlab.metadata.image.broker_registration import BrokerRegistration
from jbodlab.metadata.image.cluster_image import ClusterImage
from jbodlab.metadata.image.metadata_delta import MetadataDelta
from jbodlab.metadata.image.metadata_image import MetadataImage
from jbodlab.metadata.records.cluster_records import RegisterBrokerRecord
from jbodlab.vocabulary import kafka_uuid
from jbodlab.vocabulary.ids import BrokerId


class BrokerFold:
    """The registration of one broker."""

    def __init__(self, broker_id: int) -> None:
        self.history = History()
        self.broker_id = BrokerId(broker_id)
        self.delta = MetadataDelta(MetadataImage())
        self.registration: BrokerRegistration | None = None
        self.since: Moment | None = None

    def replay(self, event: Event) -> None:
        """Apply a record of the log."""
        self.delta.replay(event.record, event.offset)
        self._become(self.delta.cluster.brokers.get(self.broker_id), Moment.of(event))

    def sync(self, sync: Sync, events: list[Event]) -> None:
        """Compare with, and take over, what a snapshot says about the broker."""
        target: BrokerRegistration | None = None
        version = RegisterBrokerRecord.HIGHEST_VERSION
        for event in events:
            if isinstance(record := event.record, RegisterBrokerRecord):
                target = BrokerRegistration.from_record(record, event.offset)
                version = event.version
        mine, other = (_comparable(one, version) for one in (self.registration, target))
        if mine == other:
            return
        if not sync.is_base:
            text = disagreement(f"broker {self.broker_id}", mine, other)
            self.history.problem(sync.file, sync.offset, "disagreement", text)
        brokers = {} if target is None else {self.broker_id: target}
        self.delta.cluster.become(ClusterImage(brokers=brokers))
        self._become(target, sync.moment)

    def finish(self) -> None:
        """Emit the state that still holds."""
        self._emit(None)

    def _become(self, registration: BrokerRegistration | None, moment: Moment) -> None:
        """Take the next state; an equal one, as a second fencing gives, is no change."""
        if registration != self.registration:
            self._emit(moment)
            self.registration, self.since = registration, moment

    def _emit(self, until: Moment | None) -> None:
        if self.registration is not None:
            assert self.since is not None
            columns = _columns(self.broker_id, self.registration)
            self.history.add("broker", columns | interval(self.since, until))


def _columns(broker: BrokerId, known: BrokerRegistration) -> Row:
    return {
        "broker": broker,
        "broker_epoch": known.epoch,
        "incarnation_id": kafka_uuid.to_text(known.incarnation_id),
        "end_points": plain_value(known.endpoints),
        "features": plain_value(known.features),
        "rack": known.rack,
        "fenced": known.fenced,
        "in_controlled_shutdown": known.in_controlled_shutdown,
        "log_dirs": plain_value(known.directories),
        "cordoned_log_dirs": plain_value(known.cordoned_directories),
    }


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
