"""Records about configs, features, quotas and producer ids, and those that keep the log's order.

Fields, versions, tags and defaults are those of Kafka's message schemas of the same names
(KIP-631, KIP-584 for features, KIP-868 for metadata transactions).
"""

# wire() returns a dataclasses.field, so no value is shared between records.
# ruff: noqa: RUF009

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from jbodlab.kafka_wire.kinds import (
    BOOL,
    BROKER_EPOCH,
    BROKER_ID,
    FLOAT64,
    INT8,
    INT16,
    INT64,
    STRING,
    array,
    nullable,
    struct_of,
)
from jbodlab.kafka_wire.schema import Struct, wire
from jbodlab.metadata.records.schema import Record
from jbodlab.vocabulary.ids import UNKNOWN_BROKER_EPOCH, BrokerEpoch, BrokerId

TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4
GROUP_RESOURCE = 32
"""Resource types of a config; a broker's name is its id, or empty for all brokers."""
BROKER_LOGGER_RESOURCE = 8
CLIENT_METRICS_RESOURCE = 16


def unserved_resource(resource_type: int) -> str:
    """Return what a client is told that asks for the configs of another type."""
    known = {BROKER_LOGGER_RESOURCE: "broker loggers", CLIENT_METRICS_RESOURCE: "client metrics"}
    name = known.get(resource_type)
    return f"{name} are not supported" if name else f"unknown resource type {resource_type}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigRecord(Record):
    """A config is set, or deleted when the value is None."""

    API_KEY: ClassVar[int] = 4
    NAME: ClassVar[str] = "CONFIG_RECORD"

    resource_type: int = wire(INT8)
    resource_name: str = wire(STRING)
    name: str = wire(STRING)
    value: str | None = wire(nullable(STRING))


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureLevelRecord(Record):
    """The level of a feature; 0 switches it off."""

    API_KEY: ClassVar[int] = 12
    NAME: ClassVar[str] = "FEATURE_LEVEL_RECORD"

    name: str = wire(STRING)
    feature_level: int = wire(INT16)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaEntity(Struct):
    """One part of whom a quota is for; the name is None for the default entity."""

    entity_type: str = wire(STRING)
    entity_name: str | None = wire(nullable(STRING))


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientQuotaRecord(Record):
    """A quota is set or removed."""

    API_KEY: ClassVar[int] = 14
    NAME: ClassVar[str] = "CLIENT_QUOTA_RECORD"

    entity: tuple[QuotaEntity, ...] = wire(array(struct_of(QuotaEntity)))
    key: str = wire(STRING)
    value: float = wire(FLOAT64)
    remove: bool = wire(BOOL)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdsRecord(Record):
    """A block of producer ids was handed out; the next one begins at `next_producer_id`."""

    API_KEY: ClassVar[int] = 15
    NAME: ClassVar[str] = "PRODUCER_IDS_RECORD"

    broker_id: BrokerId = wire(BROKER_ID)
    broker_epoch: BrokerEpoch = wire(BROKER_EPOCH, default=UNKNOWN_BROKER_EPOCH)
    next_producer_id: int = wire(INT64)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoOpRecord(Record):
    """Changes nothing; an idle controller shows with it that it is alive."""

    API_KEY: ClassVar[int] = 20
    NAME: ClassVar[str] = "NO_OP_RECORD"


@dataclass(frozen=True, slots=True, kw_only=True)
class ZkMigrationStateRecord(Record):
    """State of a migration from ZooKeeper; 0 in a cluster that never had one."""

    API_KEY: ClassVar[int] = 21
    NAME: ClassVar[str] = "ZK_MIGRATION_STATE_RECORD"

    zk_migration_state: int = wire(INT8)


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginTransactionRecord(Record):
    """The records that follow become visible together, or not at all."""

    API_KEY: ClassVar[int] = 23
    NAME: ClassVar[str] = "BEGIN_TRANSACTION_RECORD"

    name: str | None = wire(nullable(STRING), tag=0, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTransactionRecord(Record):
    """The records since the begin become visible."""

    API_KEY: ClassVar[int] = 24
    NAME: ClassVar[str] = "END_TRANSACTION_RECORD"


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortTransactionRecord(Record):
    """The records since the begin never happened."""

    API_KEY: ClassVar[int] = 25
    NAME: ClassVar[str] = "ABORT_TRANSACTION_RECORD"

    reason: str | None = wire(nullable(STRING), tag=0, default=None)
