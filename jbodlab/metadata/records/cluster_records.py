"""Records about brokers and controllers: registrations with their directories, and fencing.

Fields, versions, tags and defaults are those of Kafka's message schemas of the same names
(KIP-631, KIP-858 for the directories, KIP-919 for controllers, KIP-1066 for cordoned directories).
"""

# wire() returns a dataclasses.field, so no value is shared between records.
# ruff: noqa: RUF009

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar
from uuid import UUID

from jbodlab.kafka_wire.kinds import (
    BOOL,
    BROKER_EPOCH,
    BROKER_ID,
    DIRECTORY_ID,
    INT8,
    INT16,
    INT32,
    STRING,
    UINT16,
    UUID_KIND,
    array,
    nullable,
    struct_of,
)
from jbodlab.kafka_wire.schema import Struct, wire
from jbodlab.metadata.records.schema import Record
from jbodlab.vocabulary.ids import BrokerEpoch, BrokerId, DirectoryId

FENCE = 1
UNFENCE = -1
ENTER_CONTROLLED_SHUTDOWN = 1
NO_CHANGE = 0
"""Codes of BrokerRegistrationChangeRecord; there is none for leaving a controlled shutdown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerEndpoint(Struct):
    """One listener of a broker or controller; the name is unique among its listeners."""

    name: str = wire(STRING)
    host: str = wire(STRING)
    port: int = wire(UINT16)
    security_protocol: int = wire(INT16)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerFeature(Struct):
    """A feature and the levels of it that a node supports."""

    name: str = wire(STRING)
    min_supported_version: int = wire(INT16)
    max_supported_version: int = wire(INT16)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBrokerRecord(Record):
    """A whole registration, replacing an earlier one; `log_dirs` are the online directories."""

    API_KEY: ClassVar[int] = 0
    NAME: ClassVar[str] = "REGISTER_BROKER_RECORD"
    HIGHEST_VERSION: ClassVar[int] = 4

    broker_id: BrokerId = wire(BROKER_ID)
    is_migrating_zk_broker: bool = wire(BOOL, since=2)
    incarnation_id: UUID = wire(UUID_KIND)
    broker_epoch: BrokerEpoch = wire(BROKER_EPOCH)
    end_points: tuple[BrokerEndpoint, ...] = wire(array(struct_of(BrokerEndpoint)))
    features: tuple[BrokerFeature, ...] = wire(array(struct_of(BrokerFeature)))
    rack: str | None = wire(nullable(STRING))
    fenced: bool = wire(BOOL, default=True)
    in_controlled_shutdown: bool = wire(BOOL, since=1)
    log_dirs: tuple[DirectoryId, ...] = wire(array(DIRECTORY_ID), since=3, tag=0)
    cordoned_log_dirs: tuple[DirectoryId, ...] | None = wire(
        nullable(array(DIRECTORY_ID)), since=4, tag=1, default=None
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRegistrationChangeRecord(Record):
    """A difference to a registration; an empty `log_dirs` means no change."""

    API_KEY: ClassVar[int] = 17
    NAME: ClassVar[str] = "BROKER_REGISTRATION_CHANGE_RECORD"
    HIGHEST_VERSION: ClassVar[int] = 3

    broker_id: BrokerId = wire(BROKER_ID)
    broker_epoch: BrokerEpoch = wire(BROKER_EPOCH)
    fenced: int = wire(INT8, tag=0)
    in_controlled_shutdown: int = wire(INT8, since=1, tag=1)
    log_dirs: tuple[DirectoryId, ...] = wire(array(DIRECTORY_ID), since=2, tag=2)
    cordoned_log_dirs: tuple[DirectoryId, ...] | None = wire(
        nullable(array(DIRECTORY_ID)), since=3, tag=3, default=None
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class UnregisterBrokerRecord(Record):
    """A broker leaves the cluster for good."""

    API_KEY: ClassVar[int] = 1
    NAME: ClassVar[str] = "UNREGISTER_BROKER_RECORD"

    broker_id: BrokerId = wire(BROKER_ID)
    broker_epoch: BrokerEpoch = wire(BROKER_EPOCH)


@dataclass(frozen=True, slots=True, kw_only=True)
class FenceBrokerRecord(Record):
    """A broker is fenced; written below metadata.version 6."""

    API_KEY: ClassVar[int] = 7
    NAME: ClassVar[str] = "FENCE_BROKER_RECORD"

    id: BrokerId = wire(BROKER_ID)
    epoch: BrokerEpoch = wire(BROKER_EPOCH)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnfenceBrokerRecord(Record):
    """A broker is no longer fenced; written below metadata.version 6."""

    API_KEY: ClassVar[int] = 8
    NAME: ClassVar[str] = "UNFENCE_BROKER_RECORD"

    id: BrokerId = wire(BROKER_ID)
    epoch: BrokerEpoch = wire(BROKER_EPOCH)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterControllerRecord(Record):
    """A controller announces itself, replacing its earlier registration."""

    API_KEY: ClassVar[int] = 27
    NAME: ClassVar[str] = "REGISTER_CONTROLLER_RECORD"

    controller_id: int = wire(INT32)
    incarnation_id: UUID = wire(UUID_KIND)
    zk_migration_ready: bool = wire(BOOL)
    end_points: tuple[BrokerEndpoint, ...] = wire(array(struct_of(BrokerEndpoint)))
    features: tuple[BrokerFeature, ...] = wire(array(struct_of(BrokerFeature)))


@dataclass(frozen=True, slots=True, kw_only=True)
class UnregisterControllerRecord(Record):
    """A controller's registration is removed."""

    API_KEY: ClassVar[int] = 29
    NAME: ClassVar[str] = "UNREGISTER_CONTROLLER_RECORD"

    controller_id: int = wire(INT32)
