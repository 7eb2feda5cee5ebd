from __future__ import annotations

import pytest

from jbodlab.config import group_configs, kafka_configs
from jbodlab.config.key_table import Values, read
from jbodlab.vocabulary.errors import ConfigError


def node(**settings: str) -> Values:
    properties = {name.replace("_", "."): value for name, value in settings.items()}
    return read(kafka_configs.NODE, properties)[0]


@pytest.mark.parametrize(
    "configs",
    [
        {},
        {"consumer.session.timeout.ms": "45000"},
        {"consumer.session.timeout.ms": "60000", "consumer.heartbeat.interval.ms": "15000"},
        {"consumer.assignment.interval.ms": "0"},
    ],
)
def test_group_settings_within_the_bounds_of_the_broker(configs: dict[str, str]) -> None:
    group_configs.check(configs, node())


@pytest.mark.parametrize(
    ("configs", "reason"),
    [
        ({"consumer.session.timeout": "1"}, "Unknown group config name"),
        ({"consumer.session.timeout.ms": "x"}, "invalid value 'x'"),
        ({"consumer.session.timeout.ms": "44999"}, "must be between 45000 and 60000"),
        ({"consumer.session.timeout.ms": "60001"}, "must be between 45000 and 60000"),
        ({"consumer.heartbeat.interval.ms": "4999"}, "must be between 5000 and 15000"),
        ({"consumer.assignment.interval.ms": "15001"}, "must be between 0 and 15000"),
    ],
)
def test_wrong_group_settings_are_named(configs: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        group_configs.check(configs, node())


def test_session_outlasts_the_heartbeat_interval() -> None:
    values = node(
        group_consumer_min_session_timeout_ms="1000", group_consumer_session_timeout_ms="6000"
    )

    with pytest.raises(ConfigError, match=r"must be more than consumer.heartbeat.interval.ms"):
        group_configs.check({"consumer.session.timeout.ms": "5000"}, values)


def test_every_group_setting_has_its_broker_settings() -> None:
    for name, key in kafka_configs.GROUP.items():
        assert key.synonyms == ((f"group.{name}", 1),)
        assert {f"group.{name}", *group_configs.bounds(name)} <= kafka_configs.NODE.keys()
