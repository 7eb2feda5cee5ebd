"""Records about configs, features, quotas and producer ids, and those that keep the log's order.

Fields, versions, tags and defaults are those of Kafka's message schemas of the same names
(KIP-631, KIP-584 for features, KIP-868 for metadata transactions).
"""

from jbodlab.kafka_wire.kinds import Int8, Int16, Int64
from jbodlab.kafka_wire.schema import Struct, field
from jbodlab.metadata.records.schema import Record
from jbodlab.vocabulary.ids import UNKNOWN_BROKER_EPOCH, BrokerEpoch, BrokerId

TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4
GROUP_RESOURCE = 32
"""Resource types of a config; a broker's name is its id, or empty for all brokers."""
CLIENT_METRICS_RESOURCE = 16
BROKER_LOGGER_RESOURCE = 8
"""Not one of records: levels of loggers are changed in a process only."""


class ConfigRecord(Record, api_key=4):
    """A config is set, or deleted when the value is null."""

    resource_type: Int8 = field("2 topic, 4 broker, 8 broker logger, 16 client metrics, 32 group")
    resource_name: str = field("topic, group or id of a broker; empty: all brokers")
    name: str = field("key of the config")
    value: str | None = field("its value; null deletes the config")


class FeatureLevelRecord(Record, api_key=12):
    """The level of a feature; 0 switches it off."""

    name: str = field("name of the feature")
    feature_level: Int16 = field("level that is finalized; 0: the feature is off")


class QuotaEntity(Struct):
    """One part of whom a quota is for; the name is null for the default entity."""

    entity_type: str = field("user, client-id or ip")
    entity_name: str | None = field("name of the entity; null: its default")


class ClientQuotaRecord(Record, api_key=14):
    """A quota is set or removed."""

    entity: tuple[QuotaEntity, ...] = field("who the quota is for, such as a user with a client id")
    key: str = field("key of the quota, such as producer_byte_rate")
    value: float = field("limit, in the unit of the key; without meaning in a removal")
    remove: bool = field("whether the quota is removed")


class ProducerIdsRecord(Record, api_key=15):
    """A block of producer ids was handed out; the next one begins at `next_producer_id`."""

    broker_id: BrokerId = field("broker that asked for the block")
    broker_epoch: BrokerEpoch = field("epoch of its registration", default=UNKNOWN_BROKER_EPOCH)
    next_producer_id: Int64 = field("first id behind the block")


class NoOpRecord(Record, api_key=20):
    """Changes no state; an idle controller writes it to show that it is alive."""


class ZkMigrationStateRecord(Record, api_key=21):
    """State of a migration from ZooKeeper; 0 in a cluster that never had one."""

    zk_migration_state: Int8 = field("0 none, 1 before, 2 in progress, 3 done, 4 not yet known")


class BeginTransactionRecord(Record, api_key=23):
    """The records that follow become visible together, or not at all."""

    name: str | None = field("what the transaction is for, in words, or null", tag=0, default=None)


class EndTransactionRecord(Record, api_key=24):
    """The records since the begin become visible."""


class AbortTransactionRecord(Record, api_key=25):
    """The records since the begin never happened."""

    reason: str | None = field(
        "why the transaction is aborted, in words, or null", tag=0, default=None
    )
