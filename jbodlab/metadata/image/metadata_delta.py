"""From one image to the next: replay records, then apply.

A delta copies only the parts that its records change, and names these changes afterwards.
`jbodlab.metadata.image.loader` handles metadata transactions; here their markers have no effect.

Source: `org.apache.kafka.image.MetadataDelta`.
"""

from __future__ import annotations

from collections.abc import Mapping

from jbodlab.metadata.image.cluster_image import ClusterDelta
from jbodlab.metadata.image.metadata_image import MetadataImage
from jbodlab.metadata.image.partition_registration import PartitionRegistration
from jbodlab.metadata.image.security_image import SecurityDelta
from jbodlab.metadata.image.settings_delta import SettingsDelta
from jbodlab.metadata.image.settings_image import ConfigResource
from jbodlab.metadata.image.topics_delta import TopicsDelta
from jbodlab.metadata.image.topics_image import TopicImage
from jbodlab.metadata.records.cluster_records import (
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
    UnregisterControllerRecord,
)
from jbodlab.metadata.records.config_records import (
    TOPIC_RESOURCE,
    AbortTransactionRecord,
    BeginTransactionRecord,
    ClientQuotaRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    NoOpRecord,
    ProducerIdsRecord,
    ZkMigrationStateRecord,
)
from jbodlab.metadata.records.schema import RawRecord, Record
from jbodlab.metadata.records.topic_records import (
    ClearElrRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from jbodlab.vocabulary.errors import ReplayError
from jbodlab.vocabulary.ids import BrokerId, LeaderEpoch, Offset, TopicId, TopicIdPartition


class MetadataDelta:
    """Changes to an image; use one delta for one step."""

    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        self.cluster = ClusterDelta(image.cluster)
        self.topics = TopicsDelta(image.topics)
        self.settings = SettingsDelta(image.configs, image.features, image.quotas)
        self.security = SecurityDelta(image.security)
        self.next_producer_id = image.next_producer_id

    @classmethod
    def between(cls, old: MetadataImage, new: MetadataImage) -> MetadataDelta:
        """Return the delta that leads from one image to another, such as one from a snapshot."""
        delta = cls(old)
        delta.cluster.become(new.cluster)
        delta.topics.become(new.topics)
        delta.settings.become(new.configs, new.features, new.quotas)
        delta.security.become(new.security)
        delta.next_producer_id = new.next_producer_id
        return delta

    def replay(self, record: Record, offset: int) -> None:
        """Apply one record.

        Args:
            record: A data record of the metadata log.
            offset: Its offset in that log.

        Raises:
            ReplayError: the record does not fit the state, or its type is not known.
        """
        match record:
            case PartitionChangeRecord():
                self.topics.change_partition(record)
            case NoOpRecord():
                pass
            case PartitionRecord():
                self.topics.put_partition(record)
            case TopicRecord():
                self.topics.create_topic(record)
            case RemoveTopicRecord():
                name = self.topics.remove_topic(record.topic_id)
                # No ConfigRecords are written for the configs of a deleted topic.
                self.settings.delete_resource((TOPIC_RESOURCE, name))
            case ClearElrRecord():
                self.topics.clear_elr(record)
            case _ if self._replay_on_cluster(record, offset):
                pass
            case _ if self._replay_on_settings(record):
                pass
            case _ if self.security.replay(record):
                pass
            case BeginTransactionRecord() | EndTransactionRecord() | AbortTransactionRecord():
                pass
            case RawRecord():
                raise ReplayError(f"record of unknown type {record.api_key} at offset {offset}")
            case _:
                raise AssertionError(f"no replay for {type(record).__name__}")

    def apply(self, offset: int, epoch: int, timestamp_ms: int) -> MetadataImage:
        """Return the image after the changes; the delta must not be used for replay afterwards.

        Args:
            offset: Last offset that the new image contains.
            epoch: Leader epoch of the record there.
            timestamp_ms: Its append time, ms since 1970.
        """
        return MetadataImage(
            offset=Offset(offset),
            epoch=LeaderEpoch(epoch),
            timestamp_ms=timestamp_ms,
            cluster=self.cluster.apply(),
            topics=self.topics.apply(),
            configs=self.settings.configs,
            features=self.settings.features,
            quotas=self.settings.quotas,
            security=self.security.apply(),
            next_producer_id=self.next_producer_id,
        )

    @property
    def is_empty(self) -> bool:
        """Whether no record has changed the image."""
        return (
            self.topics.is_empty
            and self.cluster.is_empty
            and self.settings.is_empty
            and self.security.is_empty
            and self.next_producer_id == self.image.next_producer_id
        )

    @property
    def deleted_topics(self) -> Mapping[TopicId, TopicImage]:
        """Deleted topics, as they were in the old image."""
        return self.topics.deleted

    @property
    def changed_partitions(self) -> Mapping[TopicIdPartition, PartitionRegistration]:
        """New states of created and changed partitions of topics that still exist."""
        return self.topics.changed_partitions

    @property
    def changed_brokers(self) -> set[BrokerId]:
        """Brokers whose registration was made, changed or removed."""
        return self.cluster.changed_brokers

    @property
    def changed_configs(self) -> set[ConfigResource]:
        """Resources of which a config was set or deleted, as (type, name)."""
        return self.settings.changed_configs

    @property
    def changed_features(self) -> bool:
        """Whether the level of a feature was set."""
        return self.settings.changed_features

    def _replay_on_cluster(self, record: Record, offset: int) -> bool:
        match record:
            case BrokerRegistrationChangeRecord():
                self.cluster.change_broker(record)
            case RegisterBrokerRecord():
                self.cluster.register_broker(record, offset)
            case UnregisterBrokerRecord():
                self.cluster.unregister_broker(record.broker_id)
            case FenceBrokerRecord():
                self.cluster.set_fenced(record.id, record.epoch, fenced=True)
            case UnfenceBrokerRecord():
                self.cluster.set_fenced(record.id, record.epoch, fenced=False)
            case RegisterControllerRecord():
                self.cluster.register_controller(record)
            case UnregisterControllerRecord():
                self.cluster.unregister_controller(record.controller_id)
            case _:
                return False
        return True

    def _replay_on_settings(self, record: Record) -> bool:
        match record:
            case ConfigRecord():
                self.settings.set_config(record)
            case FeatureLevelRecord():
                self.settings.set_feature(record)
            case ProducerIdsRecord():
                self.next_producer_id = record.next_producer_id
            case ClientQuotaRecord():
                self.settings.set_quota(record)
            case ZkMigrationStateRecord():
                self.settings.set_zk_migration_state(record.zk_migration_state)
            case _:
                return False
        return True
