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
        {"share.session.timeout.ms": "50000", "share.auto.offset.reset": "by_duration:P1DT2H"},
        {"streams.num.standby.replicas": "2", "streams.initial.rebalance.delay.ms": "0"},
    ],
)
def test_group_settings_within_the_bounds_of_the_broker(configs: dict[str, str]) -> None:
    group_configs.check(configs, node())


@pytest.mark.parametrize(
    ("configs", "reason"),
    [
        ({"consumer.session.timeout": "1"}, "Unknown group config name"),
        ({"consumer.session.timeout.ms": "x"}, "invalid value 'x'"),
        (
            {"consumer.session.timeout.ms": "44999"},
            r"at least group.consumer.min.session.timeout.ms \(45000\)",
        ),
        (
            {"consumer.session.timeout.ms": "60001"},
            r"at most group.consumer.max.session.timeout.ms \(60000\)",
        ),
        (
            {"consumer.heartbeat.interval.ms": "4999"},
            r"at least group.consumer.min.heartbeat.interval.ms \(5000\)",
        ),
        (
            {"consumer.assignment.interval.ms": "15001"},
            r"at most group.consumer.max.assignment.interval.ms \(15000\)",
        ),
        ({"share.session.timeout.ms": "1"}, "group.share.min.session.timeout.ms"),
        ({"share.delivery.count.limit": "11"}, "group.share.max.delivery.count.limit"),
        ({"share.auto.offset.reset": "by_duration:P"}, "expected latest, earliest or"),
        ({"share.isolation.level": "x"}, "expected one of read_committed"),
        ({"streams.num.standby.replicas": "3"}, "group.streams.max.standby.replicas"),
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


def test_group_setting_inherits_from_the_broker_and_stays_within_its_bounds() -> None:
    own = {"share.auto.offset.reset", "share.isolation.level", "share.renew.acknowledge.enable"}
    for name, key in kafka_configs.GROUP.items():
        assert key.synonyms == (() if name in own else ((f"group.{name}", 1),))
        bounds = set(group_configs.bounds(name)) - {None}
        assert bounds <= kafka_configs.NODE.keys()
        assert len(bounds) == (
            0
            if name in own or name == "streams.initial.rebalance.delay.ms"
            else 1
            if name == group_configs.STANDBY_REPLICAS
            else 2
        )
