"""Every version of every API: whatever is answered has the bytes of that version."""

from __future__ import annotations

from typing import Any

import pytest

from broker.api.handlers import ClientApis
from broker.api.table import APIS
from broker.api.transactions.add_partitions import BATCHED_FROM
from jbodlab.kafka_wire import api_table
from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.kafka_wire.codec import encode
from jbodlab.kafka_wire.headers import read_request_header, read_response_header, request_header
from jbodlab.security.acl import CLUSTER_NAME, ResourceType
from jbodlab.server.answer import RequestContext
from jbodlab.server.request_handler import Pending
from jbodlab.server.session import Session
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from tests.broker.api.conftest import Cluster, client_apis
from tests.broker.api.every_api import (
    OF_EVERY_CLIENT,
    TOPIC_ID,
    VALUES,
    VERSIONS,
    NoReplicas,
    error_codes,
    request_of_ones,
)

CONNECTION = Session(listener_name="CLIENTS", peer="client:1")


def failing_apis() -> ClientApis:
    fails: Any = NoReplicas()
    cluster = Cluster(replicas=fails, controller=fails, groups=fails, revival=fails)
    return client_apis(cluster, auto_create_topics=False)


OF_PARTITIONS = (
    ApiKey.PRODUCE,
    ApiKey.FETCH,
    ApiKey.LIST_OFFSETS,
    ApiKey.DELETE_RECORDS,
    ApiKey.OFFSET_FOR_LEADER_EPOCH,
    ApiKey.DESCRIBE_PRODUCERS,
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.WRITE_TXN_MARKERS,
)
"""Many clients raise what they do not try again, such as an error of a disk."""


def _told(key: ApiKey, version: int) -> set[int]:
    """Return the codes that a storage error is told with, by a broker without any topic."""
    if key == ApiKey.DESCRIBE_LOG_DIRS and version < 3:
        # There is no place for it.
        return set()
    if key == ApiKey.OFFSET_COMMIT:
        # That a partition does not exist is known without the coordinator.
        unknown = (
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if version < 10 else ErrorCode.UNKNOWN_TOPIC_ID
        )
        return {unknown}
    if key == ApiKey.ADD_PARTITIONS_TO_TXN and version >= BATCHED_FROM:
        return {ErrorCode.KAFKA_STORAGE_ERROR}
    if key in (ApiKey.ELECT_LEADERS, ApiKey.ALTER_PARTITION_REASSIGNMENTS):
        # Clients find the whole failed and each partition, which has a code of partitions.
        has_whole = (key, version) != (ApiKey.ELECT_LEADERS, 0)
        whole = {ErrorCode.KAFKA_STORAGE_ERROR} if has_whole else set()
        return {ErrorCode.NOT_LEADER_OR_FOLLOWER} | whole
    if key == ApiKey.TXN_OFFSET_COMMIT:
        return {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    if key in OF_PARTITIONS:
        return {ErrorCode.NOT_LEADER_OR_FOLLOWER}
    return {ErrorCode.KAFKA_STORAGE_ERROR}


@pytest.mark.parametrize(("key", "version"), VERSIONS)
def test_failure_of_a_request_is_told_in_every_version(key: ApiKey, version: int) -> None:
    request_class = api_table.request_class(key, version)
    body = encode(request_class, request_of_ones(request_class))
    frame = memoryview(request_header(key, version, 42, "client") + body)
    header = read_request_header(frame)
    request, _ = api_table.request_reader(key, version, 100)(frame, header.body_offset)
    context = RequestContext(header, CONNECTION)

    _, handler = failing_apis().dispatcher.served[key]
    failure = handler.failure(request, context, KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "why"))
    message = b"".join(api_table.response_encoder(key, version)(failure, bytearray()))
    response, end = api_table.response_reader(key, version)(message, 0)

    assert end == len(message)
    assert error_codes(response) == _told(key, version)


@pytest.mark.parametrize(("key", "version"), VERSIONS)
def test_every_api_names_what_a_request_touches(
    key: ApiKey, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(VALUES, "uuid", TOPIC_ID)
    request = request_of_ones(api_table.request_class(key, version))

    touched = list(APIS[key].resources(request))

    assert bool(touched) == (key not in OF_EVERY_CLIENT)
    for resource in touched:
        is_cluster = resource.kind is ResourceType.CLUSTER
        assert resource.name in ((CLUSTER_NAME,) if is_cluster else ("name", TOPIC_ID))


@pytest.mark.parametrize("version", range(3, 13))
def test_error_that_nobody_expected_becomes_unknown_server_error(
    version: int, caplog: pytest.LogCaptureFixture
) -> None:
    request_class = api_table.request_class(ApiKey.PRODUCE, version)
    body = encode(request_class, request_of_ones(request_class))
    frame = memoryview(request_header(ApiKey.PRODUCE, version, 42, "client") + body)
    api_table.load(ApiKey.PRODUCE, version, 100)

    answer = failing_apis().dispatcher.handle(frame, CONNECTION)

    assert not isinstance(answer, Pending)
    message = b"".join(answer)[4:]
    _, position = read_response_header(message, ApiKey.PRODUCE, version)
    response, _ = api_table.response_reader(ApiKey.PRODUCE, version)(message, position)
    assert error_codes(response) == {-1}
    assert "ZeroDivisionError" in caplog.text
