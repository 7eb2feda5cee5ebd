"""The rows of `kafka_configs.tsv` agree with each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from jbodlab.config import kafka_configs, key_table
from jbodlab.config.key_table import Key

TABLES = (kafka_configs.NODE, kafka_configs.BROKER, kafka_configs.TOPIC, kafka_configs.GROUP)
ROOT = Path(__file__).parents[3]
KAFKAS_INTERNAL = {
    "group.consumer.regex.refresh.interval.ms",
    "log.initial.task.delay.ms",
    "unclean.leader.election.interval.ms",
}
"""Which Kafka defines, and does not document."""

UPDATE_MODES = {"read-only", "per-broker", "cluster-wide"}


def test_a_row_becomes_a_key() -> None:
    assert kafka_configs.TOPIC["segment.ms"] == Key(
        "segment.ms",
        key_table.ConfigType.LONG,
        "604800000",
        "age at which a segment is rolled",
        minimum=1,
        maximum=2**63 - 1,
        synonyms=(("log.roll.ms", 1), ("log.roll.hours", 3_600_000)),
    )
    load_factor = kafka_configs.NODE["log.cleaner.io.buffer.load.factor"]
    assert (load_factor.minimum, load_factor.maximum) == (0.01, 1)
    assert kafka_configs.NODE["log.cleanup.policy"].choices == ("delete", "compact")
    assert kafka_configs.NODE["log.dirs"].default is None
    assert kafka_configs.NODE["cordoned.log.dirs"].update_mode == "per-broker"


@pytest.mark.parametrize("table", TABLES)
def test_every_default_is_a_value_that_may_be_set(table: dict[str, Key]) -> None:
    defaults = {name: key.default for name, key in table.items() if key.default}

    _, unknown = key_table.read(table, defaults)

    assert not unknown


def test_every_setting_has_a_meaning_or_says_why_it_has_no_effect() -> None:
    assert all(key.meaning.strip() for table in TABLES for key in table.values())
    assert not kafka_configs.NODE["log.cleaner.threads"].has_effect
    assert kafka_configs.NODE["log.cleaner.enable"].has_effect


def test_settings_of_brokers_say_how_they_are_updated_and_others_what_they_inherit() -> None:
    assert {key.update_mode for key in kafka_configs.BROKER.values()} == UPDATE_MODES
    for table in (kafka_configs.TOPIC, kafka_configs.GROUP):
        for key in table.values():
            assert {name for name, _ in key.synonyms} <= kafka_configs.NODE.keys(), key.name


def test_the_settings_that_kafka_does_not_have_are_documented_as_in_the_table() -> None:
    golden = (ROOT / "tests" / "golden" / "broker_configs_4.3.1.txt").read_text().splitlines()
    of_kafka = {line.split("|")[0] for line in golden} | KAFKAS_INTERNAL

    rows = [
        f"| `{name}` | {key.default or 'null'} | {key.meaning} |"
        for name, key in kafka_configs.NODE.items()
        if name not in of_kafka
    ]

    assert rows
    assert "\n".join(rows) in (ROOT / "docs" / "running.md").read_text()
