"""Settings as they are described of topics and brokers, beside what Apache Kafka 4.3.1 describes.

`topic_configs_4.3.1.txt` is what its `kafka-configs --describe --all` prints of a topic without
configs (name, value, the default among the synonyms), `broker_configs_4.3.1.txt` what its
`KafkaConfig.configDef` defines (name, type, default).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from jbodlab.config.key_table import ConfigType
from jbodlab.config.value_sources import BrokerLayers, describe_broker, describe_topic

GOLDEN = Path(__file__).parents[2] / "golden"
NOTHING_SET = BrokerLayers(broker={}, all_brokers={}, static={})
REQUIRED = {"node.id", "process.roles", "controller.listener.names"}
"""Of these Kafka has no default; here the start of a process says that they are missing."""

OTHER_DEFAULTS = {"offsets.topic.segment.bytes", "queued.max.request.bytes"}
"""Documented in docs/differences-from-kafka.md."""


OF_THE_AUTHORIZER = {"allow.everyone.if.no.acl.found", "super.users"}
"""Which Kafka describes only where they are set."""


def rows(name: str) -> Iterator[list[str]]:
    return (line.split("|") for line in (GOLDEN / name).read_text().splitlines())


def test_topics_have_kafkas_settings_values_and_synonyms() -> None:
    ours = {
        each.name: (each.value, [f"{one.name}={one.value}" for one in each.synonyms])
        for each in describe_topic({}, NOTHING_SET)
    }
    for name, value, synonym in rows("topic_configs_4.3.1.txt"):
        assert ours.pop(name) == (value, [synonym] if synonym else []), name
    assert set(ours) == {"min.insync.replicas", "retention.bytes"}


def test_brokers_have_kafkas_settings_types_and_defaults() -> None:
    ours = {each.name: each for each in describe_broker(NOTHING_SET)}
    for name, kind, default in rows("broker_configs_4.3.1.txt"):
        found = ours.pop(name)
        assert found.config_type == ConfigType[kind].value, name
        if name not in (*REQUIRED, *OTHER_DEFAULTS) and kind != "PASSWORD":
            assert found.value == (None if default == "null" else default), name
    others = {name for name in ours if not name.startswith(("jbodlab.", "log.dir."))}
    assert others == OF_THE_AUTHORIZER


def test_internal_settings_and_those_that_are_dynamic_only_are_described_where_they_are_set() -> (
    None
):
    rate, delay = "leader.replication.throttled.rate", "log.initial.task.delay.ms"
    layers = BrokerLayers(broker={rate: "5"}, all_brokers={}, static={delay: "7"})
    found = {each.name: each for each in describe_broker(layers)}
    assert (found[rate].value, found[rate].source) == ("5", 2)
    assert (found[delay].value, found[delay].source) == ("7", 4)


def test_synonyms_are_in_their_own_unit_and_the_value_in_that_of_the_topic() -> None:
    layers = BrokerLayers(
        broker={}, all_brokers={}, static={"log.retention.hours": "2", "log.roll.hours": "3"}
    )
    found = {each.name: each for each in describe_topic({"segment.ms": "7"}, layers)}
    retention, roll = found["retention.ms"], found["segment.ms"]
    assert (retention.value, retention.source) == ("7200000", 4)
    assert [(one.name, one.value) for one in retention.synonyms] == [("log.retention.hours", "2")]
    assert (roll.value, roll.source) == ("7", 1)
    assert [(one.name, one.value) for one in roll.synonyms] == [
        ("segment.ms", "7"),
        ("log.roll.hours", "3"),
    ]


def test_passwords_are_described_without_their_values() -> None:
    layers = BrokerLayers(broker={}, all_brokers={}, static={"ssl.key.password": "secret"})
    found = {each.name: each for each in describe_broker(layers)}["ssl.key.password"]
    assert found.is_sensitive
    assert found.value is None
    assert [one.value for one in found.synonyms] == [None]


def test_the_internal_size_of_segments_is_described_where_it_is_set() -> None:
    name = "internal.segment.bytes"
    assert name not in {each.name for each in describe_topic({}, NOTHING_SET)}
    (found,) = (each for each in describe_topic({name: "9"}, NOTHING_SET) if each.name == name)
    assert (found.value, found.source) == ("9", 1)


def test_what_nobody_knows_is_described_as_a_secret_and_what_a_listener_has_by_its_type() -> None:
    of_listener = "listener.name.plaintext.max.connections"
    layers = BrokerLayers(broker={"own": "v", of_listener: "5"}, all_brokers={}, static={"x": "y"})
    found = {each.name: each for each in describe_broker(layers)}

    own = found["own"]
    assert (own.value, own.is_sensitive, own.is_read_only, own.config_type) == (None, True, True, 0)
    limit = found[of_listener]
    assert (limit.value, limit.is_sensitive, limit.is_read_only) == ("5", False, True)
    assert limit.config_type == ConfigType.INT.value
    assert "x" not in found
