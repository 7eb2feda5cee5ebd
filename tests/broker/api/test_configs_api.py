"""DescribeConfigs and the two ways of changing configs, as clients see them."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from jbodlab.controller_api import requests
from jbodlab.kafka_wire import api_table
from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.peers.client import KafkaConnection
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import Offset
from tests.broker.api.conftest import Cluster
from tests.waiting import called

TOPIC, BROKER, LOGGER, CLIENT_METRICS = 2, 4, 8, 16


async def describe(
    client: KafkaConnection, version: int, kind: int, name: str, *keys: str, **fields: Any
) -> Any:
    from importlib import import_module

    module = import_module(f"kio.schema.describe_configs.v{version}.request")
    resource = module.DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=keys or None
    )
    request = module.DescribeConfigsRequest(resources=(resource,), **fields)
    (result,) = (await client.call(ApiKey.DESCRIBE_CONFIGS, version, request)).results
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result


async def alter(client: KafkaConnection, kind: int, name: str, key: str, value: str) -> Any:
    from kio.schema.incremental_alter_configs.v1 import request as kio

    request = kio.IncrementalAlterConfigsRequest(
        resources=(
            kio.AlterConfigsResource(
                resource_type=kind,  # type: ignore[arg-type]
                resource_name=name,
                configs=(
                    kio.AlterableConfig(name=key, config_operation=0, value=value),  # type: ignore[arg-type]
                ),
            ),
        ),
        validate_only=False,
    )
    answer = await client.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request)
    (result,) = answer.responses
    return result


@pytest.mark.parametrize("version", range(1, 5))
async def test_topics_and_this_broker_are_described(
    cluster: Cluster, client: KafkaConnection, version: int
) -> None:
    cluster.publish_topic("foo", cluster.partition(1))
    found = await describe(client, version, TOPIC, "foo", "segment.bytes", include_synonyms=True)
    assert found.error_code == ErrorCode.NONE
    (entry,) = found.configs
    assert (entry.name, entry.value, entry.config_source) == ("segment.bytes", "1073741824", 5)
    assert not entry.read_only
    assert [each.name for each in entry.synonyms] == ["log.segment.bytes"]
    found = await describe(client, version, BROKER, "1")
    by_name = {entry.name: entry for entry in found.configs}
    assert by_name["node.id"].read_only
    assert not by_name["cordoned.log.dirs"].read_only
    assert by_name["broker.rack"].value is None
    assert by_name["broker.id"].value == by_name["node.id"].value == "1"
    assert by_name["ssl.key.password"].is_sensitive
    assert all(entry.synonyms == () for entry in found.configs)
    if version >= 3:
        types = {name: by_name[name].config_type for name in ("node.id", "log.dirs")}
        assert types == {"node.id": 3, "log.dirs": 7}
        found = await describe(client, version, BROKER, "1", "node.id", include_documentation=True)
        assert found.configs[0].documentation


async def test_levels_of_loggers_are_described_and_changed_in_this_process(
    client: KafkaConnection,
) -> None:
    logger = logging.getLogger("broker.test_levels")

    async def level() -> str:
        found = await describe(client, 4, LOGGER, "1")
        by_name = {entry.name: entry for entry in found.configs}
        assert by_name["root"].config_source == 6
        return str(by_name[logger.name].value)

    try:
        assert (await alter(client, LOGGER, "1", logger.name, "TRACE")).error_code == ErrorCode.NONE
        assert (await level(), logger.isEnabledFor(5)) == ("TRACE", True)
        assert (await alter(client, LOGGER, "1", logger.name, "FATAL")).error_code == ErrorCode.NONE
        assert (await level(), logger.isEnabledFor(logging.ERROR)) == ("FATAL", False)
        refused = await alter(client, LOGGER, "1", logger.name, "fatal")
        assert refused.error_code == ErrorCode.INVALID_CONFIG
        assert "not a supported log level" in refused.error_message
        assert (await alter(client, LOGGER, "2", logger.name, "INFO")).error_code == (
            ErrorCode.INVALID_REQUEST
        )
    finally:
        logger.setLevel(logging.NOTSET)


async def test_subscriptions_to_client_metrics_are_described(client: KafkaConnection) -> None:
    found = await describe(client, 4, CLIENT_METRICS, "s", include_synonyms=True)
    assert [(entry.name, entry.value, entry.config_source) for entry in found.configs] == [
        ("interval.ms", "300000", 5),
        ("match", "", 5),
        ("metrics", "", 5),
    ]


@pytest.mark.parametrize(
    ("kind", "name", "code", "said"),
    [
        (TOPIC, "nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ""),
        (BROKER, "2", ErrorCode.INVALID_REQUEST, "expected 1"),
        (BROKER, "one", ErrorCode.INVALID_REQUEST, "one"),
        (LOGGER, "2", ErrorCode.INVALID_REQUEST, "expected 1"),
        (CLIENT_METRICS, "", ErrorCode.INVALID_REQUEST, "name must not be empty"),
        (99, "x", ErrorCode.INVALID_REQUEST, "Unknown resource type 99"),
    ],
)
async def test_what_this_broker_cannot_describe_is_refused(
    client: KafkaConnection, kind: int, name: str, code: ErrorCode, said: str
) -> None:
    found = await describe(client, 4, kind, name)
    assert (found.error_code, found.configs) == (code, ())
    assert said in (found.error_message or "")


async def test_of_all_brokers_only_what_was_set_is_described(client: KafkaConnection) -> None:
    found = await describe(client, 4, BROKER, "")
    assert (found.error_code, found.configs) == (ErrorCode.NONE, ())


async def test_a_change_is_answered_when_it_has_arrived(
    cluster: Cluster, client: KafkaConnection
) -> None:
    offset = Offset(cluster.cache.image.offset + 1)
    cluster.controller.results["IncrementalAlterConfigs"] = requests.AlterConfigsResponse(
        responses=(
            requests.AlteredResource(
                resource_type=TOPIC,
                resource_name="foo",
                error_code=ErrorCode.INVALID_CONFIG,
                error_message="bad",
            ),
        ),
        metadata_offset=offset,
    )
    answering = asyncio.create_task(alter(client, TOPIC, "foo", "retention.ms", "5"))
    await called(cluster.controller.calls)
    assert not answering.done()
    cluster.publish_topic("foo", cluster.partition(1))
    result = await answering
    assert (result.error_code, result.error_message) == (ErrorCode.INVALID_CONFIG, "bad")
    (request,) = cluster.controller.calls
    assert request.resources[0].configs == (
        requests.ConfigChange(name="retention.ms", config_operation=0, value="5"),
    )


async def test_what_was_done_before_has_arrived_with_batches_that_change_nothing(
    cluster: Cluster, client: KafkaConnection
) -> None:
    """The log of a new controller begins with such batches, and names their offset."""
    offset = Offset(cluster.cache.image.offset + 2)
    cluster.controller.results["IncrementalAlterConfigs"] = requests.AlterConfigsResponse(
        responses=(requests.AlteredResource(resource_type=TOPIC, resource_name="foo"),),
        metadata_offset=offset,
    )
    answering = asyncio.create_task(alter(client, TOPIC, "foo", "retention.ms", "5"))
    await called(cluster.controller.calls)
    assert not answering.done()
    cluster.empty_batches = 2
    async with asyncio.timeout(10):
        assert (await answering).error_code == ErrorCode.NONE


@pytest.mark.parametrize(
    ("name", "value", "code", "named"),
    [
        ("2", "5", ErrorCode.INVALID_REQUEST, "expected 1"),
        ("1", "/elsewhere", ErrorCode.INVALID_CONFIG, "/elsewhere"),
    ],
)
async def test_what_this_broker_refuses_does_not_reach_the_controller(
    cluster: Cluster, client: KafkaConnection, name: str, value: str, code: ErrorCode, named: str
) -> None:
    result = await alter(client, BROKER, name, "cordoned.log.dirs", value)
    assert result.error_code == code
    assert named in result.error_message
    assert cluster.controller.calls == []


async def test_groups_are_described_and_listed_that_have_configs(
    cluster: Cluster, client: KafkaConnection
) -> None:
    cluster.publish_group_configs("g", consumer_session_timeout_ms="50000")

    found = {}
    for group_id in ("g", "h"):
        answer = await describe(client, 4, 32, group_id, include_synonyms=True)
        found[group_id] = {each.name: each for each in answer.configs}

    name = "consumer.session.timeout.ms"
    assert [(each[name].value, each[name].config_source) for each in found.values()] == [
        ("50000", 8),
        ("45000", 5),
    ]
    assert [(s.name, s.value) for s in found["g"][name].synonyms] == [
        (name, "50000"),
        (f"group.{name}", "45000"),
    ]
    request_class = api_table.request_class(ApiKey.LIST_CONFIG_RESOURCES, 1)
    listed = await client.call(ApiKey.LIST_CONFIG_RESOURCES, 1, request_class(resource_types=(32,)))
    assert [each.resource_name for each in listed.config_resources] == ["g"]


async def test_topics_and_brokers_are_listed(cluster: Cluster, client: KafkaConnection) -> None:
    cluster.publish_topic("foo", cluster.partition(1))
    for types, listed in [
        (
            (),
            [
                ("foo", TOPIC),
                *((each, BROKER) for each in ("1", "2", "3")),
                *((each, LOGGER) for each in ("1", "2", "3")),
            ],
        ),
        ((TOPIC,), [("foo", TOPIC)]),
        ((CLIENT_METRICS,), []),
    ]:
        request_class = api_table.request_class(ApiKey.LIST_CONFIG_RESOURCES, 1)
        answer = await client.call(
            ApiKey.LIST_CONFIG_RESOURCES, 1, request_class(resource_types=types)
        )
        found = [(each.resource_name, each.resource_type) for each in answer.config_resources]
        assert found == listed


async def test_what_is_set_without_effect_is_warned_about(
    cluster: Cluster, client: KafkaConnection, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.publish_topic("foo")
    altered = requests.AlteredResource(resource_type=TOPIC, resource_name="foo")
    cluster.controller.results["IncrementalAlterConfigs"] = requests.AlterConfigsResponse(
        responses=(altered,), metadata_offset=Offset(-1)
    )
    await alter(client, TOPIC, "foo", "retention.ms", "5")
    assert "is ignored" not in caplog.text
    await alter(client, TOPIC, "foo", "flush.ms", "5")
    assert "configuration flush.ms of topic foo is ignored" in caplog.text
