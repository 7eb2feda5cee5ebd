"""Bytes of data records as Kafka's own serialisers wrote them, both ways."""

from __future__ import annotations

from pathlib import Path

import pytest

from jbodlab.metadata.records import frame
from jbodlab.metadata.records.cluster_records import (
    ENTER_CONTROLLED_SHUTDOWN,
    UNFENCE,
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)
from jbodlab.metadata.records.config_records import (
    BeginTransactionRecord,
    ClientQuotaRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    NoOpRecord,
    ProducerIdsRecord,
    QuotaEntity,
    ZkMigrationStateRecord,
)
from jbodlab.metadata.records.schema import Record
from jbodlab.metadata.records.security_records import UserScramCredentialRecord
from jbodlab.metadata.records.topic_records import (
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from jbodlab.vocabulary import kafka_uuid
from jbodlab.vocabulary.directory_id import UNASSIGNED
from jbodlab.vocabulary.ids import (
    BrokerEpoch,
    BrokerId,
    DirectoryId,
    LeaderEpoch,
    PartitionEpoch,
    TopicId,
)

GOLDEN = Path(__file__).parents[3] / "golden" / "metadata_records.txt"
LINES = [line for line in GOLDEN.read_text().splitlines() if line and line[0] != "#"]
BYTES = {name: bytes.fromhex(text) for name, text in (line.split(":") for line in LINES)}

B8, B9 = BrokerId(8), BrokerId(9)
EPOCH = BrokerEpoch(5)
FOO = TopicId(kafka_uuid.parse("5JPuABiJTPu2pQjpZWM6_A"))
DIR_1 = DirectoryId(kafka_uuid.parse("b4d9ExdORgaQq38CyHwWTA"))
DIR_2 = DirectoryId(kafka_uuid.parse("P2aL9r4sSqqyt7bC0uierg"))

RECORDS: dict[str, tuple[Record, int]] = {
    "feature_level": (FeatureLevelRecord(name="metadata.version", feature_level=17), 0),
    "register_broker_v3": (
        RegisterBrokerRecord(
            broker_id=B8,
            incarnation_id=kafka_uuid.parse("kxAT73dKQsitIedpiPtwBA"),
            broker_epoch=EPOCH,
            end_points=(BrokerEndpoint(name="PLAINTEXT", host="localhost", port=9092),),
            features=(
                BrokerFeature(
                    name="metadata.version", min_supported_version=1, max_supported_version=22
                ),
            ),
            rack=None,
            fenced=True,
            log_dirs=(DIR_1, DIR_2),
        ),
        3,
    ),
    "registration_change_unfence": (
        BrokerRegistrationChangeRecord(broker_id=B8, broker_epoch=EPOCH, fenced=UNFENCE),
        0,
    ),
    "registration_change_controlled_shutdown": (
        BrokerRegistrationChangeRecord(
            broker_id=B8, broker_epoch=EPOCH, in_controlled_shutdown=ENTER_CONTROLLED_SHUTDOWN
        ),
        1,
    ),
    "registration_change_one_directory": (
        BrokerRegistrationChangeRecord(broker_id=B8, broker_epoch=EPOCH, log_dirs=(DIR_1,)),
        2,
    ),
    "registration_change_empty_directories": (
        BrokerRegistrationChangeRecord(broker_id=B8, broker_epoch=EPOCH, log_dirs=()),
        2,
    ),
    "topic": (TopicRecord(name="foo", topic_id=FOO), 0),
    "partition_v1": (
        PartitionRecord(
            partition_id=0,
            topic_id=FOO,
            replicas=(B8, B9),
            isr=(B8, B9),
            leader=B8,
            leader_epoch=LeaderEpoch(0),
            partition_epoch=PartitionEpoch(0),
            directories=(DIR_1, UNASSIGNED),
        ),
        1,
    ),
    "partition_change_directories": (
        PartitionChangeRecord(partition_id=0, topic_id=FOO, directories=(DIR_2, UNASSIGNED)),
        1,
    ),
    "partition_change_leader": (
        PartitionChangeRecord(partition_id=0, topic_id=FOO, isr=(B9,), leader=B9),
        1,
    ),
    "partition_change_every_field": (
        PartitionChangeRecord(
            partition_id=0,
            topic_id=FOO,
            isr=(B9,),
            leader=BrokerId(-1),
            replicas=(B9, B8),
            removing_replicas=(),
            adding_replicas=(BrokerId(7),),
            leader_recovery_state=1,
            eligible_leader_replicas=(B8,),
            last_known_elr=(),
            directories=(DIR_2, DIR_1),
        ),
        2,
    ),
    "no_op": (NoOpRecord(), 0),
    "begin_transaction": (BeginTransactionRecord(name="Bootstrap records"), 0),
    "end_transaction": (EndTransactionRecord(), 0),
    "zk_migration_state": (ZkMigrationStateRecord(zk_migration_state=0), 0),
    "remove_topic": (RemoveTopicRecord(topic_id=FOO), 0),
    "unregister_broker": (UnregisterBrokerRecord(broker_id=B8, broker_epoch=EPOCH), 0),
    "producer_ids": (
        ProducerIdsRecord(broker_id=B8, broker_epoch=EPOCH, next_producer_id=1000),
        0,
    ),
    "config_set": (
        ConfigRecord(resource_type=2, resource_name="foo", name="min.insync.replicas", value="2"),
        0,
    ),
    "config_delete": (
        ConfigRecord(resource_type=2, resource_name="foo", name="min.insync.replicas", value=None),
        0,
    ),
    "scram": (
        UserScramCredentialRecord(
            name="alice",
            mechanism=1,
            salt=b"\x01\x02",
            stored_key=b"\x03",
            server_key=b"\x04",
            iterations=4096,
        ),
        0,
    ),
    "client_quota": (
        ClientQuotaRecord(
            entity=(QuotaEntity(entity_type="user", entity_name=None),),
            key="producer_byte_rate",
            value=1024.0,
        ),
        0,
    ),
}


def test_every_golden_record_is_checked() -> None:
    assert RECORDS.keys() == BYTES.keys()


@pytest.mark.parametrize("name", BYTES)
def test_record_is_encoded_as_kafka_does(name: str) -> None:
    record, version = RECORDS[name]

    assert frame.encode(record, version).hex() == BYTES[name].hex()


@pytest.mark.parametrize("name", BYTES)
def test_kafkas_record_is_decoded(name: str) -> None:
    assert frame.decode(BYTES[name]) == RECORDS[name]
