"""The settings of groups out of the broker's."""

from __future__ import annotations

import pytest

from broker.groups.settings import GroupSettings, group_settings
from jbodlab.config import kafka_configs, key_table
from jbodlab.vocabulary.errors import ConfigError


def settings(**texts: str) -> GroupSettings:
    found = {name.replace("_", "."): text for name, text in texts.items()}
    return group_settings(key_table.read(kafka_configs.NODE, found)[0])


def test_defaults_are_those_of_kafka() -> None:
    protocols = ("classic", "consumer", "streams")
    assert settings() == GroupSettings(rebalance_protocols=protocols)


def test_what_the_file_says() -> None:
    found = settings(offsets_retention_minutes="2", group_consumer_assignors="RANGE")

    assert found.offsets_retention_ms == 120_000
    assert found.consumer_assignors == ("range",)


@pytest.mark.parametrize(
    ("texts", "key"),
    [
        ({"group_min_session_timeout_ms": "2000000"}, "group.min.session.timeout.ms"),
        ({"group_consumer_session_timeout_ms": "70000"}, "group.consumer.session.timeout.ms"),
        ({"group_consumer_heartbeat_interval_ms": "4000"}, "group.consumer.min.heartbeat"),
        ({"group_consumer_assignment_interval_ms": "20000"}, "group.consumer.assignment"),
        (
            {
                "group_consumer_heartbeat_interval_ms": "45000",
                "group_consumer_max_heartbeat_interval_ms": "50000",
            },
            "group.consumer.heartbeat.interval.ms",
        ),
        ({"offsets_topic_num_partitions": "0"}, "offsets.topic.num.partitions"),
        ({"group_consumer_migration_policy": "sideways"}, "group.consumer.migration.policy"),
    ],
)
def test_contradictions_name_the_setting(texts: dict[str, str], key: str) -> None:
    with pytest.raises(ConfigError) as raised:
        settings(**texts)

    assert raised.value.key.startswith(key)
