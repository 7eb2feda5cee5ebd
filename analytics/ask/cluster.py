"""What brokers, topics and settings were, from the records of everything but partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from analytics.ask.offline_log import LogRecord
from analytics.rare.min_insync import (
    MIN_INSYNC_REPLICAS,
    AssumedMinIsr,
    MinIsrInForce,
    min_isr_in_force,
)
from analytics.read.plain_rows import keys_of
from jbodlab.metadata.image.broker_registration import BrokerRegistration
from jbodlab.metadata.image.metadata_delta import MetadataDelta
from jbodlab.metadata.image.metadata_image import MetadataImage
from jbodlab.metadata.image.settings_image import ConfigsImage, FeaturesImage
from jbodlab.metadata.records.config_records import BROKER_RESOURCE
from jbodlab.metadata.records.features import ELR_VERSION
from jbodlab.metadata.records.topic_records import ClearElrRecord, RemoveTopicRecord, TopicRecord
from jbodlab.vocabulary import directory_id as directory_ids
from jbodlab.vocabulary import kafka_uuid
from jbodlab.vocabulary.errors import ReplayError
from jbodlab.vocabulary.ids import BrokerId, DirectoryId, TopicId
from jbodlab.what_if.loss import UNCLEAN_ELECTION


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerChange:
    """One record about a broker, with the registration before and after it."""

    source: LogRecord
    broker: BrokerId
    before: BrokerRegistration | None
    after: BrokerRegistration | None

    @property
    def gone_offline(self) -> tuple[DirectoryId, ...]:
        """Directories that were online before, and are not any more."""
        return _missing(self.before, self.after)

    @property
    def come_online(self) -> tuple[DirectoryId, ...]:
        """Directories that are online now and were not."""
        return _missing(self.after, self.before)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicLife:
    """One existence of a topic."""

    name: str
    topic_id: str
    created: LogRecord
    removed: LogRecord | None = None


@dataclass(slots=True)
class Cluster:
    """The cluster at a moment, and how its brokers got there.

    Attributes:
        changes: Of each broker, in order.
        lives: Of each name of a topic, in order.
        clears: Records that emptied eligible leader replicas.
    """

    changes: dict[BrokerId, list[BrokerChange]] = field(default_factory=dict)
    lives: dict[str, list[TopicLife]] = field(default_factory=dict)
    clears: list[LogRecord] = field(default_factory=list)
    brokers: Mapping[BrokerId, BrokerRegistration] = field(default_factory=dict)
    configs: ConfigsImage = field(default_factory=ConfigsImage)
    features: FeaturesImage = field(default_factory=FeaturesImage)
    assumed_min_isr: AssumedMinIsr = field(default_factory=AssumedMinIsr)

    def min_isr(self, topic: str) -> MinIsrInForce:
        """Return `min.insync.replicas` of a topic."""
        return min_isr_in_force(
            self.configs.topic(topic).get(MIN_INSYNC_REPLICAS),
            self.configs.resource(BROKER_RESOURCE, "").get(MIN_INSYNC_REPLICAS),
            self.assumed_min_isr,
        )

    def unclean_election(self, topic: str) -> bool:
        """Return whether a topic lets replicas lead that are not in sync."""
        value = self.configs.topic(topic).get(UNCLEAN_ELECTION)
        if value is None:
            value = self.configs.resource(BROKER_RESOURCE, "").get(UNCLEAN_ELECTION)
        return value is not None and value.strip().lower() == "true"

    @property
    def has_elr(self) -> bool:
        """Whether eligible leader replicas are kept."""
        return self.features.levels.get(ELR_VERSION, 0) > 0


def read_cluster(
    records: Iterable[LogRecord], assumed_min_isr: AssumedMinIsr | None = None
) -> Cluster:
    """Follow the records of everything but partitions; what does not fit has no effect.

    Args:
        records: They.
        assumed_min_isr: What counts for topics for which the log sets nothing.
    """
    found = Cluster(assumed_min_isr=assumed_min_isr or AssumedMinIsr())
    delta = MetadataDelta(MetadataImage())
    names: dict[TopicId, str] = {}
    for source in records:
        broker = keys_of(source.record).broker
        before = None if broker is None else delta.cluster.brokers.get(BrokerId(broker))
        try:
            delta.replay(source.record, source.offset)
        except ReplayError:
            continue
        match source.record:
            case TopicRecord(name=name, topic_id=topic_id):
                names[topic_id] = name
                life = TopicLife(name=name, topic_id=kafka_uuid.to_text(topic_id), created=source)
                found.lives.setdefault(name, []).append(life)
            case RemoveTopicRecord(topic_id=topic_id):
                lives = found.lives[names.pop(topic_id)]
                lives[-1] = replace(lives[-1], removed=source)
            case ClearElrRecord():
                found.clears.append(source)
            case _ if broker is not None:
                change = BrokerChange(
                    source=source,
                    broker=BrokerId(broker),
                    before=before,
                    after=delta.cluster.brokers.get(BrokerId(broker)),
                )
                found.changes.setdefault(change.broker, []).append(change)
    found.brokers = delta.cluster.brokers
    found.configs, found.features = delta.settings.configs, delta.settings.features
    return found


def serves(registration: BrokerRegistration | None, directory: DirectoryId | None) -> bool:
    """Return whether a broker can use its replica in a directory; None if that is not known."""
    return (
        registration is not None
        and registration.active
        and (directory is None or registration.directory_is_online(directory))
    )


def _missing(
    of: BrokerRegistration | None, others: BrokerRegistration | None
) -> tuple[DirectoryId, ...]:
    if of is None:
        return ()
    known = () if others is None else others.directories
    return tuple(
        each for each in of.directories if each not in known and not directory_ids.is_reserved(each)
    )
