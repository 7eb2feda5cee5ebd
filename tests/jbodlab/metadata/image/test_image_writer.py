"""Images as records: replaying them gives the image again, less what an old level lacks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jbodlab.kafka_wire.kinds import Form, Kind
from jbodlab.kafka_wire.schema import Struct, field_specs
from jbodlab.metadata.image.image_writer import losses
from jbodlab.metadata.image.metadata_delta import MetadataDelta
from jbodlab.metadata.image.metadata_image import EMPTY, MetadataImage
from jbodlab.metadata.records import frame
from jbodlab.metadata.records import metadata_version as levels
from jbodlab.metadata.records.cluster_records import (
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    UnregisterBrokerRecord,
)
from jbodlab.metadata.records.config_records import (
    ClientQuotaRecord,
    ConfigRecord,
    FeatureLevelRecord,
    ProducerIdsRecord,
    QuotaEntity,
    ZkMigrationStateRecord,
)
from jbodlab.metadata.records.schema import Record
from jbodlab.metadata.records.security_records import (
    AccessControlEntryRecord,
    DelegationTokenRecord,
    UserScramCredentialRecord,
)
from jbodlab.metadata.records.topic_records import (
    ClearElrRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from jbodlab.vocabulary.directory_id import MIGRATING
from jbodlab.vocabulary.ids import (
    BrokerEpoch,
    BrokerId,
    DirectoryId,
    LeaderEpoch,
    PartitionEpoch,
    TopicId,
)
from tests.jbodlab.metadata.records import every_record
from tests.snapshot_files import image_records

DIRECTORIES = tuple(DirectoryId(UUID(int=number << 96)) for number in range(1, 9))
BROKERS = (BrokerId(1), BrokerId(2), BrokerId(3))
TOPIC = TopicId(UUID(int=1 << 70))
Step = tuple[int, int, int]


def records_of(step: Step, image: MetadataImage, offset: int) -> list[Record]:
    """Turn three random numbers into records that fit the image."""
    kind, first, second = step
    broker_id = BROKERS[first % 3]
    directory = DIRECTORIES[second % 8]
    topics = list(image.topics.by_id.values())
    topic = topics[first % len(topics)] if topics else None
    index = second % len(topic.partitions) if topic else 0
    broker = image.cluster.brokers.get(broker_id)
    match kind:
        case 0:
            register = RegisterBrokerRecord(
                broker_id=broker_id,
                broker_epoch=BrokerEpoch(offset),
                incarnation_id=UUID(int=offset),
                log_dirs=DIRECTORIES[second % 3 : second % 5 + 3],
            )
            return [register]
        case 1 if broker:
            change = BrokerRegistrationChangeRecord(
                broker_id=broker_id,
                broker_epoch=broker.epoch,
                fenced=second % 3 - 1,
                in_controlled_shutdown=second % 2,
                log_dirs=broker.directories[: second % 3],
                cordoned_log_dirs=(None, (), (directory,))[second % 3],
            )
            return [change]
        case 2:
            topic_id = TopicId(UUID(int=(offset << 64) + 7))
            partitions = [
                PartitionRecord(
                    partition_id=number,
                    topic_id=topic_id,
                    replicas=BROKERS,
                    isr=BROKERS[: number + 1],
                    leader=broker_id,
                    leader_epoch=LeaderEpoch(0),
                    partition_epoch=PartitionEpoch(0),
                    directories=DIRECTORIES[:3],
                    eligible_leader_replicas=BROKERS[second % 4 :] or None,
                )
                for number in range(second % 3 + 1)
            ]
            return [TopicRecord(name=f"t{offset}", topic_id=topic_id), *partitions]
        case 3 if topic:
            changed = PartitionChangeRecord(
                partition_id=index,
                topic_id=topic.topic_id,
                isr=BROKERS[second % 3 :],
                leader=(BrokerId(-2), BrokerId(-1), broker_id)[second % 3],
                directories=(None, (directory, MIGRATING, directory))[second % 2],
                leader_recovery_state=second % 3 - 1,
                last_known_elr=(None, (), (broker_id,))[second % 3],
            )
            return [changed]
        case 4 if topic:
            return [RemoveTopicRecord(topic_id=topic.topic_id)]
        case 5:
            name = topic.name if topic else "1"
            value = (None, "", str(second))[second % 3]
            return [
                ConfigRecord(
                    resource_type=2 if topic else 4, resource_name=name, name="k", value=value
                )
            ]
        case 6:
            feature = ("group.version", "share.version")[first % 2]
            return [FeatureLevelRecord(name=feature, feature_level=second % 3)]
        case 7:
            entity = (
                QuotaEntity(entity_type="user", entity_name=None),
                QuotaEntity(entity_type="client-id", entity_name=f"c{first % 3}"),
            )
            quota = ClientQuotaRecord(
                entity=entity[: first % 2 + 1], key="k", value=second / 2, remove=second % 4 == 0
            )
            return [quota, ProducerIdsRecord(next_producer_id=offset * 1000)]
        case 8:
            return [
                AccessControlEntryRecord(id=UUID(int=offset), principal="User:a"),
                UserScramCredentialRecord(name=f"u{first % 3}", mechanism=1, salt=b"s"),
                DelegationTokenRecord(token_id=f"t{second % 3}", renewers=("r",)),
                RegisterControllerRecord(controller_id=first % 3 + 100),
                ZkMigrationStateRecord(zk_migration_state=0),
            ]
        case 9:
            return [ClearElrRecord(topic_name=topic.name if topic and second % 2 else "")]
        case 10 if broker:
            return [UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=broker.epoch)]
    return []


def history(steps: list[Step], level: int) -> MetadataImage:
    image = EMPTY
    delta = MetadataDelta(image)
    delta.replay(FeatureLevelRecord(name="metadata.version", feature_level=level), 0)
    image = delta.apply(0, 1, 1)
    for offset, step in enumerate(steps, 1):
        delta = MetadataDelta(image)
        for record in records_of(step, image, offset):
            delta.replay(record, offset)
        image = delta.apply(offset, 1, offset)
    return image


def rewritten(image: MetadataImage) -> MetadataImage:
    """Write the image to bytes and replay these."""
    delta = MetadataDelta(EMPTY)
    for record, version in image_records(image):
        delta.replay(frame.decode(frame.encode(record, version)).record, image.offset)
    return delta.apply(image.offset, image.epoch, image.timestamp_ms)


numbers = st.integers(0, 1000)
steps = st.lists(st.tuples(st.integers(0, 10), numbers, numbers), max_size=40)


@settings(max_examples=50)
@given(steps)
def test_snapshot_of_any_history_gives_the_image_again(steps: list[Step]) -> None:
    image = history(steps, level=30)

    assert rewritten(image) == image
    assert losses(image) == ()


@settings(max_examples=30)
@given(steps, st.sampled_from([4, 6, 7, 8, 11, 14, 15, 17, 22, 23, 29]))
def test_snapshot_at_any_level_is_stable_after_its_losses(steps: list[Step], level: int) -> None:
    image = history(steps, level)

    once = rewritten(image)

    assert rewritten(once) == once
    assert once.features.metadata_version == level
    assert once.topics.by_name.keys() == image.topics.by_name.keys()
    assert losses(once) == ()


FULL = history([], level=30)
DELTA = MetadataDelta(FULL)
for _record in (
    RegisterBrokerRecord(
        broker_id=BROKERS[0],
        is_migrating_zk_broker=True,
        in_controlled_shutdown=True,
        log_dirs=DIRECTORIES[:2],
        cordoned_log_dirs=DIRECTORIES[:1],
    ),
    RegisterControllerRecord(controller_id=100),
    ZkMigrationStateRecord(zk_migration_state=0),
    TopicRecord(name="foo", topic_id=TOPIC),
    PartitionRecord(
        partition_id=0,
        topic_id=TOPIC,
        replicas=BROKERS[:1],
        directories=DIRECTORIES[:1],
        eligible_leader_replicas=BROKERS[1:],
    ),
    UserScramCredentialRecord(name="a"),
    DelegationTokenRecord(token_id="t"),
):
    DELTA.replay(_record, 1)
FULL = DELTA.apply(1, 1, 1)

SHUTDOWN = "the inControlledShutdown state of one or more brokers"
ZK = "the isMigratingZkBroker state of one or more brokers"
ONLINE = "the online log directories of one or more brokers"
ASSIGNED = "the directory assignment state of one or more replicas"
CONTROLLERS = "controller registration data"


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        (30, ()),
        (23, ()),
        (17, ()),
        (16, (ONLINE, ASSIGNED)),
        (14, (CONTROLLERS, ONLINE, ASSIGNED)),
        (13, ("delegation tokens", CONTROLLERS, ONLINE, ASSIGNED)),
        (10, ("SCRAM credentials", "delegation tokens", CONTROLLERS, ONLINE, ASSIGNED)),
        (7, (ZK, "SCRAM credentials", "delegation tokens", CONTROLLERS, ONLINE, ASSIGNED)),
        (
            6,
            (SHUTDOWN, ZK, "SCRAM credentials", "delegation tokens", CONTROLLERS, ONLINE, ASSIGNED),
        ),
    ],
)
def test_old_levels_lose_what_kafka_says(level: int, expected: tuple[str, ...]) -> None:
    levels = {**FULL.features.levels, "metadata.version": level}
    image = replace(FULL, features=replace(FULL.features, levels=levels))

    written = rewritten(image)

    assert losses(image) == expected
    broker = written.cluster.brokers[BROKERS[0]]
    partition = written.topics.by_name["foo"].partitions[0]
    assert broker.in_controlled_shutdown == (level >= 7)
    assert broker.is_migrating_zk_broker == (level >= 8)
    assert broker.directories == (DIRECTORIES[:2] if level >= 17 else ())
    assert broker.cordoned_directories == (DIRECTORIES[:1] if level >= 30 else None)
    assert partition.directories == (DIRECTORIES[:1] if level >= 17 else (MIGRATING,))
    assert partition.elr == (BROKERS[1:] if level >= 23 else ())
    assert bool(written.security.scram) == (level >= 11)
    assert bool(written.security.tokens) == (level >= 14)
    assert bool(written.cluster.controllers) == (level >= 15)


def test_features_are_not_written_before_their_record_existed() -> None:
    levels = {"metadata.version": 3, "group.version": 1}
    image = replace(FULL, features=replace(FULL.features, levels=levels))

    written = rewritten(image)

    assert written.features.levels == {}
    assert written.features.zk_migration_state is None


def test_order_is_the_one_of_kafkas_snapshots() -> None:
    quota = ClientQuotaRecord(entity=(QuotaEntity(entity_type="user"),), key="k", value=1.0)
    delta = MetadataDelta(FULL)
    for record in (
        FeatureLevelRecord(name="group.version", feature_level=1),
        ConfigRecord(resource_type=4, name="a", value="b"),
        quota,
        ProducerIdsRecord(next_producer_id=1000),
        AccessControlEntryRecord(id=UUID(int=3)),
    ):
        delta.replay(record, 2)

    written = image_records(delta.apply(2, 1, 1))

    assert [record.NAME.removesuffix("_RECORD") for record, _ in written] == [
        "FEATURE_LEVEL",
        "FEATURE_LEVEL",
        "ZK_MIGRATION_STATE",
        "REGISTER_BROKER",
        "REGISTER_CONTROLLER",
        "TOPIC",
        "PARTITION",
        "CONFIG",
        "CLIENT_QUOTA",
        "PRODUCER_IDS",
        "ACCESS_CONTROL_ENTRY",
        "USER_SCRAM_CREDENTIAL",
        "DELEGATION_TOKEN",
    ]
    assert [version for record, version in written if record.NAME == "PARTITION_RECORD"] == [2]
    producer_ids = next(record for record, _ in written if isinstance(record, ProducerIdsRecord))
    assert (producer_ids.broker_id, producer_ids.broker_epoch) == (-1, -1)


OF_A_SNAPSHOT = (
    RegisterBrokerRecord,
    RegisterControllerRecord,
    TopicRecord,
    PartitionRecord,
    ConfigRecord,
    ClientQuotaRecord,
    ZkMigrationStateRecord,
    AccessControlEntryRecord,
    UserScramCredentialRecord,
    DelegationTokenRecord,
)
"""Not ProducerIdsRecord, of which a snapshot has the next id alone, nor FeatureLevelRecord."""


def set_in_all(cls: type[Struct], version: int) -> Any:
    """Return a value with something in each field, and one element in each array."""
    return cls(**{spec.name: value_of(spec.kind, version) for spec in field_specs(cls)})


def value_of(kind: Kind, version: int) -> Any:
    match kind.form:
        case Form.ARRAY:
            assert kind.element is not None
            return (value_of(kind.element, version),)
        case Form.STRUCT:
            assert kind.struct is not None
            return set_in_all(kind.struct, version)
    return every_record.values(kind, version)[0]


@pytest.mark.parametrize("kind", OF_A_SNAPSHOT, ids=lambda kind: kind.NAME)
def test_every_field_of_a_record_survives_image_and_snapshot(kind: type[Record]) -> None:
    telling = set_in_all(kind, kind.HIGHEST_VERSION)
    if isinstance(telling, ClientQuotaRecord):
        telling = msgspec.structs.replace(telling, remove=False)
    delta = MetadataDelta(EMPTY)
    delta.replay(FeatureLevelRecord(name=levels.FEATURE_NAME, feature_level=levels.LATEST), 0)
    if kind is PartitionRecord:
        delta.replay(TopicRecord(name="t", topic_id=telling.topic_id), 1)  # type: ignore[attr-defined]

    delta.replay(telling, 2)

    assert telling in [record for record, _ in image_records(delta.apply(2, 1, 1))]
