"""Which value of a setting is in force, and what makes no sense and is passed over."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.disk.directory.log_dir import LogDir
from broker.disk.upkeep.cordon import Cordon
from broker.metadata.dynamic_config import DynamicConfig
from jbodlab.config import value_sources
from jbodlab.config.key_table import Values
from jbodlab.config.node_config import read_values
from jbodlab.metadata.image.metadata_delta import MetadataDelta
from jbodlab.metadata.image.metadata_image import EMPTY, MetadataImage
from jbodlab.metadata.records.config_records import BROKER_RESOURCE, ConfigRecord
from jbodlab.vocabulary.errors import ConfigError
from jbodlab.vocabulary.ids import BrokerId, DirectoryId
from tests.broker.disks import directory_id

DIRS = ("/disk-1", "/disk-2")


def dynamic(**static: str) -> DynamicConfig:
    values, unknown = read_values({key.replace("_", "."): v for key, v in static.items()})
    assert unknown == []
    return DynamicConfig(BrokerId(1), values, DIRS)


class Metadata:
    """An image that grows by config records, told to one listener."""

    def __init__(self, config: DynamicConfig) -> None:
        self.config = config
        self.image: MetadataImage = EMPTY

    def set(self, broker: str, key: str, value: str | None) -> None:
        delta = MetadataDelta(self.image)
        offset = self.image.offset + 1
        delta.replay(
            ConfigRecord(
                resource_type=BROKER_RESOURCE, resource_name=broker, name=key, value=value
            ),
            offset,
        )
        self.image = delta.apply(offset, 1, 0)
        self.config.metadata_changed(delta, self.image)


def test_one_broker_goes_before_all_brokers_before_the_file_before_the_default() -> None:
    config = dynamic(log_index_interval_bytes="1000")
    metadata = Metadata(config)
    heard: list[int] = []
    config.add_listener(lambda values: heard.append(values.integer("log.index.interval.bytes")))
    for broker, value in [("", "2000"), ("1", "3000"), ("2", "9"), ("1", None), ("", None)]:
        metadata.set(broker, "log.index.interval.bytes", value)
    assert heard == [2000, 3000, 2000, 1000]
    assert dynamic().values.integer("log.index.interval.bytes") == 4096


def test_the_sources_of_a_value_are_told_in_the_order_of_their_strength() -> None:
    config = dynamic(log_retention_hours="2")
    metadata = Metadata(config)
    metadata.set("", "log.retention.ms", "50")
    metadata.set("1", "log.retention.ms", "40")
    described = {each.name: each for each in value_sources.describe_topic({}, config.layers)}
    found = described["retention.ms"]
    assert (found.value, found.source) == ("40", 2)
    assert [(each.name, each.value, each.source) for each in found.synonyms] == [
        ("log.retention.ms", "40", 2),
        ("log.retention.ms", "50", 3),
        ("log.retention.hours", "2", 4),
    ]


@pytest.mark.parametrize(
    ("broker", "key", "value"),
    [
        ("1", "log.index.interval.bytes", "many"),
        ("1", "node.id", "7"),
        ("", "cordoned.log.dirs", "*"),
    ],
)
def test_what_makes_no_sense_is_passed_over(broker: str, key: str, value: str) -> None:
    config = dynamic(log_index_interval_bytes="1000")
    before = config.values.properties
    Metadata(config).set(broker, key, value)
    assert config.values.properties == before


def test_a_listener_that_fails_keeps_nobody_else_from_the_change() -> None:
    config = dynamic()
    heard: list[Values] = []

    def broken(_: Values) -> None:
        raise ZeroDivisionError

    config.add_listener(broken)
    config.add_listener(heard.append)
    Metadata(config).set("1", "log.index.interval.bytes", "77")
    assert len(heard) == 1


def test_only_directories_of_this_broker_may_be_cordoned() -> None:
    config = dynamic()
    for value in ("/disk-1", "/disk-1, /disk-2", "*", ""):
        config.check_own("cordoned.log.dirs", value)
    with pytest.raises(ConfigError, match="/disk-3"):
        config.check_own("cordoned.log.dirs", "/disk-1,/disk-3")


def test_cordoned_directories_are_marked_and_told_once_for_each_change(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    root = tmp_path_factory.mktemp("dirs")
    one, two = LogDir(root / "1", directory_id(1)), LogDir(root / "2", directory_id(2))
    told: list[tuple[DirectoryId, ...]] = []
    cordon = Cordon(lambda: (one, two), told.append)
    opened = [
        cordon.apply(value)
        for value in ("", "", str(one.path), "*", f"{two.path},/nowhere", str(two.path), "")
    ]
    assert opened == [False, False, False, False, True, False, True]
    assert told == [
        (),
        (one.directory_id,),
        (one.directory_id, two.directory_id),
        (two.directory_id,),
        (),
    ]
    assert [one.is_cordoned, two.is_cordoned] == [False, False]
    for log_dir in (one, two):
        log_dir.stop()


def test_a_replaced_disk_is_cordoned_under_its_new_id() -> None:
    before, after = (LogDir(Path("/disk-1"), directory_id(number)) for number in (1, 2))
    dirs = [before]
    told: list[tuple[DirectoryId, ...]] = []
    cordon = Cordon(lambda: dirs, told.append)
    cordon.apply("/disk-1")
    dirs[:] = [after]
    cordon.log_dir_returned(before, after, ())
    assert after.is_cordoned
    assert told == [(directory_id(1),), (directory_id(2),)]
    for log_dir in (before, after):
        log_dir.stop()
