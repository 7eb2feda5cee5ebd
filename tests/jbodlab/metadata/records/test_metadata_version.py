"""Levels of metadata.version and the record versions they write."""

from __future__ import annotations

import pytest

from jbodlab.metadata.records.cluster_records import (
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
)
from jbodlab.metadata.records.config_records import ConfigRecord
from jbodlab.metadata.records.frame import VersionedRecord
from jbodlab.metadata.records.metadata_version import (
    JBOD_LEVEL,
    LATEST,
    LEVELS,
    downgrade_is_safe,
    name_of,
    parse_release,
    record_version,
    versioned,
)
from jbodlab.metadata.records.schema import RawRecord
from jbodlab.metadata.records.topic_records import PartitionChangeRecord, PartitionRecord
from jbodlab.vocabulary.ids import DirectoryId
from jbodlab.vocabulary.kafka_uuid import ONE_UUID


def test_levels_are_dense() -> None:
    assert [level.level for level in LEVELS] == list(range(1, 35))


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("3.0", 1),
        ("3.3", 7),
        ("3.6", 14),
        ("3.7", 19),
        ("3.7-IV2", JBOD_LEVEL),
        ("3.9", 21),
        ("3.9.2", 21),
        ("3.9-IV0", 21),
        ("4.0", 25),
        ("4.1", 27),
        ("4.3", LATEST),
        ("4.4", 33),
        ("4.5-IV0", 34),
    ],
)
def test_release_means_its_latest_stable_level(text: str, level: int) -> None:
    assert parse_release(text) == level


@pytest.mark.parametrize("text", ["", "4.5", "3", "3.9-IV1", "17", "2.8"])
def test_unknown_release_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"unknown metadata\.version"):
        parse_release(text)


def test_names() -> None:
    assert name_of(17) == "3.7-IV2"
    with pytest.raises(ValueError, match="99"):
        name_of(99)


@pytest.mark.parametrize(
    ("level", "register_broker", "partition"),
    [
        (1, 0, 0),
        (6, 0, 0),
        (7, 1, 0),
        (8, 2, 0),
        (16, 2, 0),
        (17, 3, 1),
        (22, 3, 1),
        (23, 3, 2),
        (29, 3, 2),
        (30, 4, 2),
        (34, 4, 2),
    ],
)
def test_record_versions_follow_the_level(level: int, register_broker: int, partition: int) -> None:
    assert record_version(RegisterBrokerRecord, level) == register_broker
    assert record_version(PartitionRecord, level) == partition
    assert record_version(PartitionChangeRecord, level) == partition
    assert record_version(ConfigRecord, level) == 0


def test_version_of_a_registration_change_follows_its_purpose() -> None:
    directories = (DirectoryId(ONE_UUID),)
    fence = BrokerRegistrationChangeRecord(fenced=1)
    shutdown = BrokerRegistrationChangeRecord(in_controlled_shutdown=1)
    one_left = BrokerRegistrationChangeRecord(log_dirs=directories)
    uncordoned = BrokerRegistrationChangeRecord(cordoned_log_dirs=())

    for version, record in enumerate((fence, shutdown, one_left, uncordoned)):
        assert versioned(record, 30) == VersionedRecord(record, version)
    with pytest.raises(ValueError, match="depends on its fields"):
        record_version(BrokerRegistrationChangeRecord, 30)


def test_other_records_are_paired_with_the_version_of_the_level() -> None:
    assert versioned(PartitionRecord(), 22) == (PartitionRecord(), 1)
    raw = RawRecord(api_key=99, version=5, body=b"")
    assert versioned(raw, 22) == (raw, 5)


def test_downgrade_across_a_change_of_records_is_unsafe() -> None:
    assert downgrade_is_safe(22, 17)
    assert not downgrade_is_safe(17, 16)
    assert not downgrade_is_safe(23, 22)
    assert downgrade_is_safe(30, 30)
