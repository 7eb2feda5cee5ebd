"""Requests for brokers only: our own APIs, and to ask as a follower."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

from broker.fetch.fetch_requests import FetchResult
from broker.metadata.metadata_cache import MetadataCache
from jbodlab.kafka_admin.client import opened
from jbodlab.kafka_admin.errors import RequestError
from jbodlab.kafka_admin.log_dirs import describe_log_dir_states, revive_log_dir
from jbodlab.kafka_admin.properties import AdminProperties
from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import TopicPartition
from tests.broker.api.calls import fetch
from tests.broker.api.conftest import LISTENER, US, Cluster, serving


@pytest.mark.parametrize("listener_of_brokers", [LISTENER, "BROKERS"])
async def test_own_apis_are_told_to_nobody_and_served_at_the_listener_of_brokers(
    listener_of_brokers: str,
) -> None:
    cluster = Cluster(cache=MetadataCache(US, listener_of_brokers))
    async with serving(cluster, auto_create_topics=False):
        connection = await cluster.connect()
        kio = import_module("kio.schema.api_versions.v3.request")
        told = await connection.call(
            ApiKey.API_VERSIONS,
            3,
            kio.ApiVersionsRequest(client_software_name="t", client_software_version="1"),
        )
        connection.close()
        assert max(each.api_key for each in told.api_keys) < 1000
        async with opened([("127.0.0.1", cluster.port)], AdminProperties()) as admin:
            if listener_of_brokers == LISTENER:
                await describe_log_dir_states(admin, None)
                return
            with pytest.raises(RequestError) as raised:
                await describe_log_dir_states(admin, None)
            assert raised.value.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            refused = await revive_log_dir(admin, None, "/disk-1", 10)
            assert refused.error_code == 31
            assert refused.error_message == (
                "listener CLIENTS does not serve this request; use the listener of "
                "inter.broker.listener.name"
            )


@pytest.mark.parametrize(("listener_of_brokers", "asks_as"), [(LISTENER, 2), ("BROKERS", -1)])
async def test_a_broker_follows_by_the_listener_of_brokers_only(
    listener_of_brokers: str, asks_as: int
) -> None:
    cluster = Cluster(cache=MetadataCache(US, listener_of_brokers))
    found: Any = FetchResult(topic_partition=TopicPartition("t", 0), topic_id=None)
    cluster.replicas.results["fetch"] = [found]
    async with serving(cluster, auto_create_topics=False):
        connection = await cluster.connect()
        await connection.call(ApiKey.FETCH, 12, fetch(12, ("t", [0]), replica_id=2))
        connection.close()
    ((_, params, _),) = cluster.replicas.calls
    assert params.replica_id == asks_as
