"""An image as records: the body of a snapshot.

Replaying the records on the empty image gives the image again, as far as its own metadata.version
can express it.

Source: `org.apache.kafka.image.MetadataImage.write`, `ImageWriterOptions`.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from jbodlab.metadata.image.metadata_image import MetadataImage
from jbodlab.metadata.records import metadata_version as levels
from jbodlab.metadata.records.cluster_records import RegisterBrokerRecord
from jbodlab.metadata.records.config_records import (
    ClientQuotaRecord,
    ConfigRecord,
    FeatureLevelRecord,
    ProducerIdsRecord,
    QuotaEntity,
    ZkMigrationStateRecord,
)
from jbodlab.metadata.records.frame import VersionedRecord
from jbodlab.metadata.records.schema import Record
from jbodlab.metadata.records.topic_records import PartitionRecord, TopicRecord
from jbodlab.vocabulary.directory_id import MIGRATING
from jbodlab.vocabulary.ids import BrokerId


def each_record(image: MetadataImage) -> Iterator[VersionedRecord]:
    """Yield the records that make up an image, at its own metadata.version.

    The records come one by one, so that the caller can run other work in between. Data that this
    level cannot express is left out; `losses` names it.
    """
    level = image.features.metadata_version
    for record in _all_records(image, level):
        yield levels.versioned(_fitted(record, level), level)


def losses(image: MetadataImage) -> tuple[str, ...]:
    """Return the data that the image's own metadata.version cannot express, in Kafka's words."""
    level = image.features.metadata_version
    brokers = image.cluster.brokers.values()
    found = (
        (
            levels.CONTROLLED_SHUTDOWN_LEVEL,
            any(broker.in_controlled_shutdown for broker in brokers),
            "the inControlledShutdown state of one or more brokers",
        ),
        (
            levels.ZK_MIGRATION_LEVEL,
            any(broker.is_migrating_zk_broker for broker in brokers),
            "the isMigratingZkBroker state of one or more brokers",
        ),
        (levels.SCRAM_LEVEL, bool(image.security.scram), "SCRAM credentials"),
        (levels.DELEGATION_TOKEN_LEVEL, bool(image.security.tokens), "delegation tokens"),
        (
            levels.CONTROLLER_REGISTRATION_LEVEL,
            bool(image.cluster.controllers),
            "controller registration data",
        ),
        (
            levels.JBOD_LEVEL,
            any(broker.directories for broker in brokers),
            "the online log directories of one or more brokers",
        ),
        (
            levels.JBOD_LEVEL,
            _names_a_directory(image),
            "the directory assignment state of one or more replicas",
        ),
    )
    return tuple(text for needed, present, text in found if level < needed and present)


def _names_a_directory(image: MetadataImage) -> bool:
    return any(
        directory != MIGRATING
        for topic in image.topics.by_id.values()
        for partition in topic.partitions.values()
        for directory in partition.directories
    )


def _all_records(image: MetadataImage, level: int) -> Iterator[Record]:
    """Yield the records of a snapshot in its order."""
    yield from _feature_records(image, level)
    for broker in image.cluster.brokers.values():
        yield broker.to_record()
    if level >= levels.CONTROLLER_REGISTRATION_LEVEL:
        yield from image.cluster.controllers.values()
    for topic in image.topics.by_id.values():
        yield TopicRecord(name=topic.name, topic_id=topic.topic_id)
        for index, partition in sorted(topic.partitions.items()):
            yield partition.to_record(topic.topic_id, index)
    yield from _settings_records(image)
    yield from image.security.acls.values()
    if level >= levels.SCRAM_LEVEL:
        yield from image.security.scram.values()
    if level >= levels.DELEGATION_TOKEN_LEVEL:
        yield from image.security.tokens.values()


def _feature_records(image: MetadataImage, level: int) -> Iterator[Record]:
    if level < levels.FEATURE_LEVEL_RECORDS:
        return
    yield FeatureLevelRecord(name=levels.FEATURE_NAME, feature_level=level)
    for name, feature_level in image.features.levels.items():
        if name != levels.FEATURE_NAME:
            yield FeatureLevelRecord(name=name, feature_level=feature_level)
    state = image.features.zk_migration_state
    if state is not None and level >= levels.ZK_MIGRATION_LEVEL:
        yield ZkMigrationStateRecord(zk_migration_state=state)


def _settings_records(image: MetadataImage) -> Iterator[Record]:
    for (resource_type, resource_name), entries in image.configs.resources.items():
        for name, value in entries.items():
            yield ConfigRecord(
                resource_type=resource_type, resource_name=resource_name, name=name, value=value
            )
    for entities, values in image.quotas.items():
        entity = tuple(
            QuotaEntity(entity_type=entity_type, entity_name=entity_name)
            for entity_type, entity_name in sorted(entities, key=lambda pair: pair[0])
        )
        for key, quota in values.items():
            yield ClientQuotaRecord(entity=entity, key=key, value=quota)
    if image.next_producer_id > 0:
        yield ProducerIdsRecord(broker_id=BrokerId(-1), next_producer_id=image.next_producer_id)


def _fitted(record: Record, level: int) -> Record:
    """Return the record without the fields that its version at this level lacks."""
    match record:
        case RegisterBrokerRecord():
            return _fitted_registration(record, level)
        case PartitionRecord():
            if level < levels.JBOD_LEVEL:
                record = replace(record, directories=())
            if level < levels.ELR_LEVEL:
                record = replace(record, eligible_leader_replicas=None, last_known_elr=None)
    return record


def _fitted_registration(record: RegisterBrokerRecord, level: int) -> RegisterBrokerRecord:
    if level < levels.CONTROLLED_SHUTDOWN_LEVEL:
        record = replace(record, in_controlled_shutdown=False)
    if level < levels.ZK_MIGRATION_LEVEL:
        record = replace(record, is_migrating_zk_broker=False)
    if level < levels.JBOD_LEVEL:
        record = replace(record, log_dirs=())
    if level < levels.CORDONED_DIRECTORIES_LEVEL:
        record = replace(record, cordoned_log_dirs=None)
    return record
