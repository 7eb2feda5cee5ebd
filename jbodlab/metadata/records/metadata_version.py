"""Levels of metadata.version: their names, and which version of a record each one writes.

Source: `org.apache.kafka.server.common.MetadataVersion` of Kafka 4.4.
"""

from __future__ import annotations

from typing import NamedTuple

from jbodlab.metadata.records.cluster_records import (
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
)
from jbodlab.metadata.records.frame import VersionedRecord
from jbodlab.metadata.records.schema import RawRecord, Record
from jbodlab.metadata.records.topic_records import PartitionChangeRecord, PartitionRecord

FEATURE_NAME = "metadata.version"


class Level(NamedTuple):
    """One level; ``changes_records`` if a downgrade below it is impossible after its use."""

    level: int
    name: str
    changes_records: bool


LEVELS = (
    Level(1, "3.0-IV1", True),
    Level(2, "3.1-IV0", False),
    Level(3, "3.2-IV0", True),
    Level(4, "3.3-IV0", False),
    Level(5, "3.3-IV1", True),
    Level(6, "3.3-IV2", True),
    Level(7, "3.3-IV3", True),
    Level(8, "3.4-IV0", True),
    Level(9, "3.5-IV0", False),
    Level(10, "3.5-IV1", False),
    Level(11, "3.5-IV2", True),
    Level(12, "3.6-IV0", False),
    Level(13, "3.6-IV1", True),
    Level(14, "3.6-IV2", True),
    Level(15, "3.7-IV0", True),
    Level(16, "3.7-IV1", False),
    Level(17, "3.7-IV2", True),
    Level(18, "3.7-IV3", False),
    Level(19, "3.7-IV4", False),
    Level(20, "3.8-IV0", False),
    Level(21, "3.9-IV0", False),
    Level(22, "4.0-IV0", False),
    Level(23, "4.0-IV1", True),
    Level(24, "4.0-IV2", False),
    Level(25, "4.0-IV3", False),
    Level(26, "4.1-IV0", False),
    Level(27, "4.1-IV1", False),
    Level(28, "4.2-IV0", False),
    Level(29, "4.2-IV1", False),
    Level(30, "4.3-IV0", True),
    Level(31, "4.4-IV0", False),
    Level(32, "4.4-IV1", True),
    Level(33, "4.4-IV2", True),
    Level(34, "4.5-IV0", False),
)

MINIMUM = 1
"""Level before the first FeatureLevelRecord."""
FEATURE_LEVEL_RECORDS = 4
NO_OP_RECORDS = 5
REGISTRATION_CHANGE_LEVEL = 6
CONTROLLED_SHUTDOWN_LEVEL = 7
ZK_MIGRATION_LEVEL = 8
SCRAM_LEVEL = 11
TRANSACTION_LEVEL = 13
DELEGATION_TOKEN_LEVEL = 14
CONTROLLER_REGISTRATION_LEVEL = 15
JBOD_LEVEL = 17
"""First level that knows log directories."""
ELR_LEVEL = 23
CORDONED_DIRECTORIES_LEVEL = 30
LATEST = 30
"""Latest stable level that is written; the one that Kafka 4.3 writes."""

_NAMES = {level.level: level.name for level in LEVELS}
_LEVELS_BY_NAME = {level.name: level.level for level in LEVELS}
_UNSTABLE_FROM = 34
_LEVELS_BY_RELEASE = {
    # The levels ascend, so the last one of a release stays.
    level.name.partition("-")[0]: level.level
    for level in LEVELS
    if level.level < _UNSTABLE_FROM
}


def name_of(level: int) -> str:
    """Return the name of a level, such as ``3.7-IV2``.

    Raises:
        ValueError: the level is unknown.
    """
    if level not in _NAMES:
        raise ValueError(f"unknown metadata.version {level}")
    return _NAMES[level]


def parse_release(text: str) -> int:
    """Return the level that a release (``3.9``, ``3.9.2``) or a level's name means.

    A release means its latest stable level.

    Raises:
        ValueError: neither is known.
    """
    if text in _LEVELS_BY_NAME:
        return _LEVELS_BY_NAME[text]
    release = ".".join(text.split(".")[:2])
    if release not in _LEVELS_BY_RELEASE:
        raise ValueError(f"unknown metadata.version {text!r}")
    return _LEVELS_BY_RELEASE[release]


def downgrade_is_safe(current: int, target: int) -> bool:
    """Return whether every record written at the current level can be read at the lower target."""
    return not any(level.changes_records for level in LEVELS if target < level.level <= current)


def record_version(record_type: type[Record], level: int) -> int:
    """Return the version of a record type that is written at a level.

    Raises:
        ValueError: for BrokerRegistrationChangeRecord, whose version follows from its fields; see
            `versioned`.
    """
    if record_type is BrokerRegistrationChangeRecord:
        raise ValueError("the version of BrokerRegistrationChangeRecord depends on its fields")
    if record_type is RegisterBrokerRecord:
        if level < CONTROLLED_SHUTDOWN_LEVEL:
            return 0
        if level < ZK_MIGRATION_LEVEL:
            return 1
        if level < JBOD_LEVEL:
            return 2
        return 3 if level < CORDONED_DIRECTORIES_LEVEL else 4
    if record_type in (PartitionRecord, PartitionChangeRecord):
        if level < JBOD_LEVEL:
            return 0
        return 1 if level < ELR_LEVEL else 2
    return 0


def registration_change_version(record: BrokerRegistrationChangeRecord) -> int:
    """Return the version of a registration change: the lowest with fields for all its changes."""
    if record.cordoned_log_dirs is not None:
        return 3
    if record.log_dirs:
        return 2
    return 1 if record.in_controlled_shutdown else 0


def versioned(record: Record, level: int) -> VersionedRecord:
    """Pair a record with the version in which it is written at a level."""
    if isinstance(record, BrokerRegistrationChangeRecord):
        return VersionedRecord(record, registration_change_version(record))
    if isinstance(record, RawRecord):
        return VersionedRecord(record, record.version)
    return VersionedRecord(record, record_version(type(record), level))
