"""Configs of topics and brokers: what is written, what is refused, and all of it or nothing."""

from __future__ import annotations

from typing import Any

import pytest

from controller.decide.partitions.topics import delete_topics
from controller.decide.settings.configs import alter_configs, incremental_alter_configs
from jbodlab.controller_api.requests import (
    AlterConfigsRequest,
    AlteredResource,
    ConfigChange,
    ConfigResource,
    DeleteTopicsRequest,
    IncrementalAlterConfigsRequest,
    TopicToDelete,
)
from jbodlab.metadata.records.config_records import ConfigRecord
from jbodlab.metadata.records.topic_records import PartitionChangeRecord
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import BrokerId
from tests.builders import PureController

TOPIC, BROKER, CLIENT_METRICS = 2, 4, 16
SET, DELETE, APPEND, SUBTRACT = range(4)
Change = tuple[int, str, str | None]


def cluster(level: int = 30, **settings: Any) -> PureController:
    controller = PureController(level=level, **settings)
    controller.add_broker(1, "A1,A2")
    controller.add_broker(2, "B1,B2")
    controller.create("foo", (1, 2))
    return controller


def resource(kind: int, name: str, *changes: Change) -> ConfigResource:
    return ConfigResource(
        resource_type=kind,
        resource_name=name,
        configs=tuple(
            ConfigChange(name=key, config_operation=operation, value=value)
            for operation, key, value in changes
        ),
    )


def alter(
    controller: PureController, *resources: ConfigResource, **fields: Any
) -> tuple[AlteredResource, ...]:
    request = IncrementalAlterConfigsRequest(resources=resources, **fields)
    return controller.ask(incremental_alter_configs, request).responses


def altered(controller: PureController, kind: int, name: str, *changes: Change) -> ErrorCode:
    (answer,) = alter(controller, resource(kind, name, *changes))
    return answer.error_code


def refusal(
    controller: PureController, kind: int, name: str, *changes: Change
) -> tuple[ErrorCode, str]:
    before = controller.state.image.configs
    (answer,) = alter(controller, resource(kind, name, *changes))
    assert controller.records == ()
    assert controller.state.image.configs == before
    return answer.error_code, answer.error_message


def configs(controller: PureController, kind: int = TOPIC, name: str = "foo") -> dict[str, str]:
    return dict(controller.state.image.configs.resource(kind, name))


def test_only_real_changes_are_written() -> None:
    controller = cluster()
    assert not altered(
        controller, TOPIC, "foo", (SET, "retention.ms", "5"), (SET, "segment.ms", "7")
    )
    assert controller.written() == [
        ConfigRecord(resource_type=2, resource_name="foo", name="retention.ms", value="5"),
        ConfigRecord(resource_type=2, resource_name="foo", name="segment.ms", value="7"),
    ]
    assert not altered(
        controller,
        TOPIC,
        "foo",
        (SET, "retention.ms", "5"),
        (DELETE, "segment.ms", None),
        (DELETE, "flush.ms", None),
    )
    assert controller.written() == [
        ConfigRecord(resource_type=2, resource_name="foo", name="segment.ms", value=None)
    ]


def test_lists_are_appended_to_and_subtracted_from() -> None:
    controller = cluster()
    key = "leader.replication.throttled.replicas"
    for operation, value, after in [
        (APPEND, "0:1", "0:1"),
        (APPEND, "0:1,0:2,0:3", "0:1,0:2,0:3"),
        (SUBTRACT, "0:2,9:9", "0:1,0:3"),
        (SUBTRACT, "0:1,0:3", ""),
    ]:
        assert not altered(controller, TOPIC, "foo", (operation, key, value))
        assert configs(controller) == {key: after}


def test_of_one_resource_all_changes_are_made_or_none() -> None:
    controller = cluster()
    controller.create("bar", (1,))
    answers = alter(
        controller,
        resource(TOPIC, "foo", (SET, "retention.ms", "5"), (SET, "segment.ms", "x")),
        resource(TOPIC, "bar", (SET, "retention.ms", "6")),
    )
    assert [answer.error_code for answer in answers] == [40, 0]
    assert "segment.ms" in answers[0].error_message
    assert configs(controller) == {}
    assert configs(controller, name="bar") == {"retention.ms": "6"}


def test_validation_only_writes_nothing() -> None:
    controller = cluster()
    change = resource(TOPIC, "foo", (SET, "retention.ms", "5"))
    (answer,) = alter(controller, change, validate_only=True)
    assert answer.error_code == ErrorCode.NONE
    assert controller.records == ()
    assert configs(controller) == {}


@pytest.mark.parametrize(
    ("changes", "code", "named"),
    [
        ([(SET, "nope", "1")], 40, "Unknown topic config name: nope"),
        ([(SET, "retention.ms", "soon")], 40, "retention.ms"),
        ([(SET, "retention.ms", "-2")], 40, "retention.ms"),
        ([(SET, "min.insync.replicas", "0")], 40, "min.insync.replicas"),
        ([(SET, "cleanup.policy", "shrink")], 40, "cleanup.policy"),
        ([(APPEND, "cleanup.policy", "shrink")], 40, "cleanup.policy"),
        ([(SET, "min.cleanable.dirty.ratio", "2")], 40, "min.cleanable.dirty.ratio"),
        ([(APPEND, "retention.ms", "1")], 40, "Can't APPEND to key retention.ms"),
        ([(SUBTRACT, "nope", "1")], 40, "Can't SUBTRACT to key nope"),
        ([(SET, "retention.ms", None)], 42, "retention.ms"),
        ([(SET, "segment.ms", "1"), (DELETE, "segment.ms", None)], 42, "duplicate"),
        ([(9, "segment.ms", "1")], 42, "operation 9"),
        ([(SET, "leader.replication.throttled.replicas", "0")], 40, "throttled.replicas"),
        ([(SET, "min.compaction.lag.ms", "9"), (SET, "max.compaction.lag.ms", "8")], 40, "lag"),
    ],
)
def test_wrong_topic_configs_are_refused_by_name(
    changes: list[Change], code: int, named: str
) -> None:
    found, text = refusal(cluster(), TOPIC, "foo", *changes)
    assert found == code
    assert named in text


@pytest.mark.parametrize(
    ("name", "change", "code", "named"),
    [
        ("1", (SET, "node.id", "7"), 42, "Cannot update these configs dynamically: [node.id]"),
        ("1", (SET, "listeners", "PLAINTEXT://:1"), 42, "dynamically: [listeners]"),
        ("1", (SET, "ssl.keystore.type", "JKS"), 42, "only per-listener using the listener prefix"),
        ("", (SET, "sasl.jaas.config", "x"), 42, "broker id must be specified: [sasl.jaas"),
        ("", (SET, "listener.name.x.ssl.keystore.type", "JKS"), 42, "broker id must be specified"),
        ("1", (SET, "sasl.enabled.mechanisms", "PLAIN"), 42, "dynamically: [sasl.enabled"),
        ("1", (SET, "listener.name.x.plain.sasl.jaas.config", "y"), 42, "dynamically: [listener."),
        ("", (SET, "max.connections", "0"), 40, "must be at least 1"),
        ("1", (SET, "listener.name.x.max.connections", "many"), 40, "expected an integer"),
        ("1", (SET, "max.connections.per.ip.overrides", "host:1"), 40, "ADDRESS:NUMBER"),
        ("1", (SET, "log.retention.hours", "7"), 42, "log.retention.hours"),
        ("", (SET, "log.dirs", "/x"), 42, "log.dirs"),
        ("", (SET, "log.retention.ms", "x"), 40, "log.retention.ms"),
        ("1", (SET, "leader.replication.throttled.rate", "-1"), 40, "throttled.rate"),
        ("", (SET, "cordoned.log.dirs", "*"), 42, "cordoned.log.dirs"),
        ("1", (SET, "cordoned.log.dirs", "*,/x"), 40, "cordoned.log.dirs"),
        ("7", (SET, "log.retention.ms", "1"), 102, "No broker with id 7"),
        ("one", (SET, "log.retention.ms", "1"), 42, "one"),
        ("01", (SET, "log.retention.ms", "1"), 42, "01"),
    ],
)
def test_wrong_broker_configs_are_refused_by_name(
    name: str, change: Change, code: int, named: str
) -> None:
    found, text = refusal(cluster(), BROKER, name, change)
    assert found == code
    assert named in text


@pytest.mark.parametrize("name", ["", "1"])
@pytest.mark.parametrize(
    "setting",
    [
        ("my.own.key", "v"),
        ("listener.name.plaintext.max.connections", "5"),
        ("max.connections", "5"),
        ("max.connections.per.ip", "5"),
        ("max.connections.per.ip.overrides", "127.0.0.1:9"),
        ("max.connection.creation.rate", "5"),
    ],
)
def test_limits_of_connections_and_unknown_settings_of_brokers_are_stored(
    name: str, setting: tuple[str, str]
) -> None:
    controller = cluster()
    altered(controller, BROKER, name, (SET, *setting))
    assert controller.state.image.configs.resource(BROKER, name) == {setting[0]: setting[1]}


def test_what_does_not_exist_has_no_configs() -> None:
    controller = cluster()
    assert refusal(controller, TOPIC, "bar", (SET, "segment.ms", "1"))[0] == 3
    for kind, said in (
        (8, "Unknown resource type 8"),
        (99, "Unknown resource type 99"),
    ):
        assert refusal(controller, kind, "1", (SET, "a", "1")) == (42, said)
    change = resource(TOPIC, "foo", (SET, "segment.ms", "1"))
    assert [each.error_code for each in alter(controller, change, change)] == [42]


def test_subscriptions_to_client_metrics_are_records_until_their_last_setting_goes() -> None:
    controller = cluster()
    altered(controller, CLIENT_METRICS, "s", (SET, "interval.ms", "1000"), (SET, "metrics", "*"))
    assert configs(controller, CLIENT_METRICS, "s") == {"interval.ms": "1000", "metrics": "*"}
    altered(controller, CLIENT_METRICS, "s", (DELETE, "interval.ms", None))
    altered(controller, CLIENT_METRICS, "s", (DELETE, "metrics", None))
    assert (CLIENT_METRICS, "s") not in controller.state.image.configs.resources

    for name, change, code, said in (
        ("", (SET, "interval.ms", "1000"), 42, "Subscription name can't be empty"),
        ("s", (SET, "nope", "1"), 42, "Unknown client metrics configuration: nope"),
        ("s", (SET, "interval.ms", "99"), 42, "interval must be between 100 and 3600000"),
        ("s", (SET, "interval.ms", "x"), 40, "Not a number of type INT"),
        ("s", (SET, "match", "client_id=["), 40, "Illegal client matching pattern: client_id=["),
        ("s", (SET, "match", "foo=bar"), 40, "Illegal client matching pattern"),
        ("s", (SET, "match", "client_id"), 40, "Illegal client matching pattern"),
        ("s", (APPEND, "metrics", "x"), 40, "Can't APPEND to key metrics"),
    ):
        found, text = refusal(controller, CLIENT_METRICS, name, change)
        assert (found, said in text) == (code, True), text


def test_replacing_deletes_what_is_not_named() -> None:
    controller = cluster()
    altered(controller, TOPIC, "foo", (SET, "retention.ms", "5"), (SET, "segment.ms", "7"))
    request = AlterConfigsRequest(resources=(resource(TOPIC, "foo", (SET, "flush.ms", "9")),))
    assert not controller.ask(alter_configs, request).responses[0].error_code
    assert configs(controller) == {"flush.ms": "9"}


def test_what_nobody_could_set_any_more_can_be_deleted_and_does_not_stand_in_the_way() -> None:
    controller = cluster()
    for name, value in [("gone", "1"), ("cleanup.policy", "compact")]:
        controller.replay(
            ConfigRecord(resource_type=TOPIC, resource_name="foo", name=name, value=value)
        )
    assert not altered(controller, TOPIC, "foo", (SET, "retention.ms", "5"))
    assert not altered(controller, TOPIC, "foo", (DELETE, "gone", None))
    assert configs(controller) == {"cleanup.policy": "compact", "retention.ms": "5"}


def test_configs_go_with_their_topic_and_stay_with_an_unregistered_broker() -> None:
    controller = cluster()
    altered(controller, TOPIC, "foo", (SET, "retention.ms", "5"))
    controller.ask(delete_topics, DeleteTopicsRequest(topics=(TopicToDelete(name="foo"),)))
    assert configs(controller) == {}


def test_switching_unclean_election_on_elects_at_once() -> None:
    for kind, name in [(TOPIC, "foo"), (BROKER, "")]:
        controller = cluster()
        controller.alter_isr(1, "foo", (1,))
        controller.heartbeat(1, want_fence=True, want_shut_down=True)
        assert controller.partition("foo").leader == -1
        change = (SET, "unclean.leader.election.enable", "true")
        assert not altered(controller, kind, name, change)
        assert any(isinstance(each, PartitionChangeRecord) for each in controller.written())
        assert controller.partition("foo").leader == BrokerId(2)


GROUP = 32


def test_groups_are_configured_whether_they_are_there_or_not_and_within_the_nodes_bounds() -> None:
    controller = PureController(static_configs={"group.consumer.max.session.timeout.ms": "90000"})
    session, heartbeat = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"

    assert altered(controller, GROUP, "g", (SET, session, "90000")) is ErrorCode.NONE
    assert configs(controller, GROUP, "g") == {session: "90000"}

    for changes, code, words in (
        (((SET, session, "90001"),), 40, "group.consumer.max.session.timeout.ms (90000)"),
        (((SET, heartbeat, "4999"),), 40, "group.consumer.min.heartbeat.interval.ms (5000)"),
        (((SET, "retention.ms", "1"),), 40, "Unknown group config name"),
        (((APPEND, session, "1"),), 40, "not LIST"),
    ):
        found = refusal(controller, GROUP, "g", *changes)
        assert found[0] == code
        assert words in found[1]
    assert refusal(controller, GROUP, "", (SET, session, "50000"))[0] == 42
    assert altered(controller, GROUP, "g", (DELETE, session, None)) is ErrorCode.NONE
    assert configs(controller, GROUP, "g") == {}


@pytest.mark.parametrize("change", [(SET, "log.cleaner.threads", "2"), (DELETE, "x.y", None)])
def test_what_is_asked_of_a_broker_is_written_though_nothing_changes(change: Change) -> None:
    controller = cluster()
    for _ in range(2):
        assert altered(controller, BROKER, "1", change) == ErrorCode.NONE

        assert [record.name for record in controller.written()] == [change[1]]
