"""Requests that clients may make: every request without any right, and requests with some."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from importlib import import_module
from typing import Any
from uuid import UUID

import pytest

from broker.api.table import APIS
from broker.groups import requests, responses
from broker.replica.waiting.append_entries import AppendResult
from broker.transactions.requests import AddPartitions, EndTransaction, InitProducerId
from jbodlab.controller_api.requests import (
    Caller,
    CreatedTopic,
    CreateTopicsResponse,
    DeletedTopic,
    DeleteTopicsResponse,
    TopicConfigEntry,
)
from jbodlab.kafka_wire import api_table
from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.kafka_wire.codec import encode
from jbodlab.kafka_wire.headers import read_response_header, request_header
from jbodlab.security.acl import (
    CLUSTER_NAME,
    AccessControlEntry,
    AclOperation,
    PatternType,
    Permission,
    ResourceType,
)
from jbodlab.security.authorizer import AuthorizerSettings
from jbodlab.server.answer import with_throttle_time
from jbodlab.server.passed_on import client_id_for
from jbodlab.server.request_handler import Pending
from jbodlab.server.rights import AllRights, Client, EnforcedRights
from jbodlab.server.session import Session
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import CloseConnectionError
from jbodlab.vocabulary.ids import TopicPartition
from jbodlab.vocabulary.producer import Producer
from tests.broker.api.calls import BATCH, fetch, result
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

OTHER_ID = UUID(int=8)
NO_ERROR, TOPIC, GROUP, CLUSTER, TRANSACTION = {0}, {29}, {30}, {31}, {53}
A = AclOperation
ALICE = Caller(principal="User:alice", host="10.0.0.1")

TOPICS = {
    ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.METADATA, ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS,
    ApiKey.OFFSET_FOR_LEADER_EPOCH, ApiKey.CREATE_PARTITIONS, ApiKey.DELETE_RECORDS,
    ApiKey.DESCRIBE_PRODUCERS, ApiKey.DESCRIBE_TOPIC_PARTITIONS,
}  # fmt: skip
GROUPS = {
    ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH, ApiKey.JOIN_GROUP, ApiKey.HEARTBEAT,
    ApiKey.LEAVE_GROUP, ApiKey.SYNC_GROUP, ApiKey.DESCRIBE_GROUPS, ApiKey.DELETE_GROUPS,
    ApiKey.OFFSET_DELETE, ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.CONSUMER_GROUP_DESCRIBE,
    ApiKey.SHARE_GROUP_HEARTBEAT,
}  # fmt: skip
TRANSACTIONS = {
    ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.ADD_OFFSETS_TO_TXN, ApiKey.END_TXN,
    ApiKey.TXN_OFFSET_COMMIT, ApiKey.DESCRIBE_TRANSACTIONS,
}  # fmt: skip
LISTS = {ApiKey.LIST_GROUPS, ApiKey.LIST_TRANSACTIONS}
"""They have less in them, and no error."""


def refused(key: ApiKey, version: int) -> set[int]:
    """The codes of a request of ones, of a client without any right."""
    if key is ApiKey.METADATA and version in (10, 11):
        # There is no id of a topic in these versions, whoever asks.
        return {42}
    if key in TOPICS:
        return TOPIC
    if key in GROUPS:
        return GROUP
    if key in TRANSACTIONS and (key, version) not in (
        (ApiKey.ADD_PARTITIONS_TO_TXN, 4),
        (ApiKey.ADD_PARTITIONS_TO_TXN, 5),
    ):
        return TRANSACTION
    if key is ApiKey.FIND_COORDINATOR:
        return GROUP if version == 0 else TRANSACTION
    if key is ApiKey.DESCRIBE_LOG_DIRS and version < 3:
        return set()
    if key is ApiKey.DESCRIBE_CLUSTER:
        return NO_ERROR
    return CLUSTER


async def told(
    key: ApiKey,
    version: int,
    request: Any,
    cluster: Cluster,
    *acls: AccessControlEntry,
    auto_create_topics: bool = False,
    client_id: str = "client",
    user: str = "alice",
    **options: Any,
) -> Any:
    """The answer to alice."""
    cluster.publish_acls(*acls)
    rights = EnforcedRights(lambda: cluster.cache.image, AuthorizerSettings(), lambda: 0.0)
    apis = client_apis(
        cluster, **{"auto_create_topics": auto_create_topics, "rights": rights, **options}
    )
    session = Session(listener_name="CLIENTS", peer="10.0.0.1:1", user=user)
    body = encode(api_table.request_class(key, version), request)
    frame = memoryview(request_header(key, version, 42, client_id) + body)
    api_table.load(key, version, 100)
    answer = apis.dispatcher.handle(frame, session)
    if isinstance(answer, Pending):
        await answer.future
        answer = answer.buffers()
    message = b"".join(answer)[4:]
    _, position = read_response_header(message, key, version)
    response, _ = api_table.response_reader(key, version)(message, position)
    await asyncio.sleep(0)
    await apis.close()
    return response


def untouchable(*topics: tuple[str, UUID]) -> Cluster:
    """A cluster of which nothing but the metadata can be asked."""
    fails: Any = NoReplicas()
    cluster = Cluster(
        replicas=fails, controller=fails, groups=fails, transactions=fails, revival=fails
    )
    for name, topic_id in topics:
        cluster.publish_topic(name, topic_id=topic_id)
    return cluster


@pytest.mark.parametrize(
    ("key", "version"), [each for each in VERSIONS if each.values[0] not in OF_EVERY_CLIENT | LISTS]
)
async def test_a05_every_request(
    key: ApiKey, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(VALUES, "uuid", TOPIC_ID)
    request = request_of_ones(api_table.request_class(key, version))
    cluster = untouchable(("name", TOPIC_ID))
    response = await told(key, version, request, cluster)

    expected = refused(key, version)
    if key in (ApiKey.CREATE_TOPICS, ApiKey.METADATA, ApiKey.PRODUCE, ApiKey.FETCH):
        # Other places for an error stay empty.
        assert error_codes(response) - {0} == expected
    else:
        assert error_codes(response) - ({0} if expected != NO_ERROR else set()) == expected


@pytest.mark.parametrize(
    ("key", "version"),
    [
        pytest.param(key, APIS[key].accepted_versions[0], id=key.name)
        for key in sorted(TOPICS | {ApiKey.LIST_OFFSETS, ApiKey.DESCRIBE_CONFIGS})
    ],
)
async def test_a06_no_oracle(key: ApiKey, version: int) -> None:
    request = request_of_ones(api_table.request_class(key, version))

    there = await told(key, version, request, untouchable(("name", TOPIC_ID)))
    not_there = await told(key, version, request, untouchable())

    assert there == not_there


def allow(
    operation: AclOperation,
    name: str = "t",
    kind: ResourceType = ResourceType.TOPIC,
    permission: Permission = Permission.ALLOW,
) -> AccessControlEntry:
    return AccessControlEntry(
        kind, name, PatternType.LITERAL, "User:alice", "*", operation, permission
    )


ON_CLUSTER = ResourceType.CLUSTER


async def test_operations_are_those_that_are_allowed() -> None:
    from kio.schema.metadata.v8.request import MetadataRequest, MetadataRequestTopic

    request = MetadataRequest(
        topics=(MetadataRequestTopic(name="t"), MetadataRequestTopic(name="hidden")),
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=True,
        include_topic_authorized_operations=True,
    )
    cluster = untouchable(("t", TOPIC_ID), ("hidden", OTHER_ID))

    response = await told(ApiKey.METADATA, 8, request, cluster, allow(A.READ))

    topics = {topic.name: topic for topic in response.topics}
    assert int(topics["t"].error_code) == 0
    assert topics["t"].topic_authorized_operations == 264
    assert int(topics["hidden"].error_code) == 29
    assert topics["hidden"].topic_authorized_operations == -(1 << 31)
    assert response.cluster_authorized_operations == 0
    response = await told(
        ApiKey.METADATA, 8, request, cluster, allow(A.ALL, CLUSTER_NAME, ON_CLUSTER)
    )
    assert response.cluster_authorized_operations == 8096


async def test_all_topics_are_those_that_may_be_described() -> None:
    from kio.schema.metadata.v12.request import MetadataRequest, MetadataRequestTopic

    cluster = untouchable(("t", TOPIC_ID), ("hidden", OTHER_ID))

    all_topics = MetadataRequest(
        topics=None, allow_auto_topic_creation=False, include_topic_authorized_operations=False
    )

    response = await told(ApiKey.METADATA, 12, all_topics, cluster, allow(A.DESCRIBE))
    assert [topic.name for topic in response.topics] == ["t"]

    by_id = MetadataRequest(
        topics=tuple(
            MetadataRequestTopic(topic_id=each, name=None)
            for each in (TOPIC_ID, OTHER_ID, UUID(int=9))
        ),
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=False,
    )
    response = await told(ApiKey.METADATA, 12, by_id, cluster, allow(A.DESCRIBE))
    assert [(topic.name, int(topic.error_code)) for topic in response.topics] == [
        ("t", 0),
        (None, 29),
        (None, 100),
    ]


async def test_a_topic_to_delete_is_told_to_be_absent_to_who_may_describe_it() -> None:
    from kio.schema.delete_topics.v4.request import DeleteTopicsRequest

    cluster = Cluster()
    cluster.publish_topic("t")
    cluster.controller.results["DeleteTopics"] = DeleteTopicsResponse(
        responses=(
            DeletedTopic(
                name="absent", topic_id=None, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            ),
        )
    )
    request = DeleteTopicsRequest(
        topic_names=("t", "absent", "hidden"), timeout=timedelta(seconds=1)
    )

    response = await told(
        ApiKey.DELETE_TOPICS, 4, request, cluster, allow(A.DESCRIBE), allow(A.DESCRIBE, "absent")
    )

    assert {each.name: int(each.error_code) for each in response.responses} == {
        "t": 29,
        "absent": 3,
        "hidden": 29,
    }
    (asked,) = cluster.controller.calls
    assert [topic.name for topic in asked.topics] == ["absent"]


async def test_lists_of_groups_have_those_that_may_be_described() -> None:
    cluster = Cluster()
    cluster.groups.results[requests.ListGroups] = [
        [responses.ListedGroup(name, "consumer", "Stable", "classic") for name in ("g1", "g2")]
    ]
    request = request_of_ones(api_table.request_class(ApiKey.LIST_GROUPS, 0))

    async def listed(*acls: AccessControlEntry) -> list[str]:
        response = await told(ApiKey.LIST_GROUPS, 0, request, cluster, *acls)
        return [each.group_id for each in response.groups]

    assert await listed() == []
    assert await listed(allow(A.DESCRIBE, "g2", ResourceType.GROUP)) == ["g2"]
    assert await listed(allow(A.DESCRIBE, CLUSTER_NAME, ON_CLUSTER)) == ["g1", "g2"]


async def test_a07_partial() -> None:
    cluster = Cluster()
    cluster.publish_topic("t")
    cluster.publish_topic("hidden")
    cluster.replicas.results["append"] = [AppendResult(topic_partition=TopicPartition("t", 0))]

    response = await told(ApiKey.PRODUCE, 9, produced("t", "hidden"), cluster, allow(A.WRITE))

    assert {
        topic.name: [int(each.error_code) for each in topic.partition_responses]
        for topic in response.responses
    } == {"t": [0], "hidden": [29]}
    ((_, entries, *_rest),) = cluster.replicas.calls
    assert [entry.topic_partition.topic for entry in entries] == ["t"]


@pytest.mark.parametrize("version", [4, 12, 13, 17])
async def test_a07_partial_fetch(version: int) -> None:
    """By id as by name; an id that nobody has is told as such."""
    cluster = Cluster()
    ids = {name: cluster.publish_topic(name) for name in ("t", "hidden")}
    batch = b"batch".ljust(70, b"\0")
    cluster.replicas.results["fetch"] = [result(TopicPartition("t", 0), batch)]
    unknown: dict[UUID | str, set[int]] = {UUID(int=99): {100}} if version >= 13 else {}
    expected: dict[UUID | str, set[int]] = {
        ids["t"] if version >= 13 else "t": {0},
        ids["hidden"] if version >= 13 else "hidden": {29},
        **unknown,
    }
    request = fetch(version, *((topic, [0]) for topic in expected))

    response = await told(ApiKey.FETCH, version, request, cluster, allow(A.READ))

    assert {
        topic.topic_id if version >= 13 else topic.topic: {
            int(each.error_code) for each in topic.partitions
        }
        for topic in response.responses
    } == expected
    (hidden,) = (
        topic.partitions[0]
        for topic in response.responses
        if int(topic.partitions[0].error_code) == 29
    )
    assert (hidden.high_watermark, hidden.records or b"") == (-1, b"")


async def test_a07_without_acks_the_connection_is_closed() -> None:
    cluster = Cluster()
    cluster.replicas.results["append"] = [AppendResult(topic_partition=TopicPartition("t", 0))]

    with pytest.raises(CloseConnectionError, match="Topic authorization failed"):
        await told(ApiKey.PRODUCE, 9, produced("t", "hidden", acks=0), cluster, allow(A.WRITE))

    assert len(cluster.replicas.calls) == 1


async def test_a08_consumer_as_replica() -> None:
    """A reader of a topic may not read it as a broker."""
    request = request_of_ones(api_table.request_class(ApiKey.FETCH, 12))
    assert request.replica_id == 1

    response = await told(ApiKey.FETCH, 12, request, untouchable(), allow(A.READ, "name"))

    assert error_codes(response) == {0, 29}


def produced(*topics: str, acks: int = -1) -> Any:
    from kio.schema.produce.v9 import request as kio

    return kio.ProduceRequest(
        transactional_id=None,
        acks=acks,
        timeout=timedelta(seconds=1),
        topic_data=tuple(
            kio.TopicProduceData(
                name=name,
                partition_data=(kio.PartitionProduceData(index=0, records=BATCH),),
            )
            for name in topics
        ),
    )


async def test_the_configs_of_a_new_topic_are_told_to_who_may_describe_them() -> None:
    from kio.schema.create_topics.v7.request import CreatableTopic, CreateTopicsRequest

    request = CreateTopicsRequest(
        topics=(
            CreatableTopic(
                name="t", num_partitions=1, replication_factor=1, assignments=(), configs=()
            ),
        ),
        timeout=timedelta(0),
        validate_only=True,
    )
    cluster = Cluster()
    cluster.controller.results["CreateTopics"] = CreateTopicsResponse(
        topics=(
            CreatedTopic(
                name="t",
                num_partitions=1,
                replication_factor=1,
                configs=(TopicConfigEntry(name="segment.ms", value="1"),),
            ),
        )
    )

    async def created(*acls: AccessControlEntry) -> tuple[int, int, int]:
        response = await told(ApiKey.CREATE_TOPICS, 7, request, cluster, allow(A.CREATE), *acls)
        (topic,) = response.topics
        assert int(topic.error_code) == 0
        return topic.topic_config_error_code, topic.num_partitions, len(topic.configs)

    assert await created() == (29, -1, 0)
    assert await created(allow(A.DESCRIBE_CONFIGS)) == (0, 1, 1)
    assert [call.caller for call in cluster.controller.calls] == [ALICE, ALICE]


async def test_g04_an_auto_created_topic_is_created_for_the_client() -> None:
    from kio.schema.metadata.v8.request import MetadataRequest, MetadataRequestTopic

    request = MetadataRequest(
        topics=(MetadataRequestTopic(name="t"),),
        allow_auto_topic_creation=True,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )
    cluster = Cluster()
    cluster.controller.results["CreateTopics"] = CreateTopicsResponse(
        topics=(CreatedTopic(name="t"),)
    )

    async def code(*acls: AccessControlEntry) -> int:
        response = await told(ApiKey.METADATA, 8, request, cluster, *acls, auto_create_topics=True)
        return int(response.topics[0].error_code)

    assert await code() == 29
    assert await code(allow(A.DESCRIBE)) == 29
    assert cluster.controller.calls == []
    assert await code(allow(A.DESCRIBE), allow(A.CREATE)) == 3
    assert [call.caller for call in cluster.controller.calls] == [ALICE]


async def test_what_a_broker_passes_on_is_decided_for_the_client() -> None:
    cluster = Cluster()
    cluster.publish_topic("t")
    cluster.replicas.results["append"] = [AppendResult(topic_partition=TopicPartition("t", 0))]
    request = replace(produced("t"), transactional_id="x")
    may_write = [
        allow(A.WRITE)._replace(principal="User:CN=bob b"),
        allow(A.WRITE, "x", ResourceType.TRANSACTIONAL_ID)._replace(principal="User:CN=bob b"),
    ]
    broker = allow(A.CLUSTER_ACTION, CLUSTER_NAME, ON_CLUSTER)
    for_bob = client_id_for(Client("User:CN=bob b", "10.0.0.2"))

    async def codes(client_id: str, *acls: AccessControlEntry) -> set[int]:
        return error_codes(
            await told(ApiKey.PRODUCE, 9, request, cluster, *acls, client_id=client_id)
        )

    assert await codes(for_bob, *may_write, broker) == NO_ERROR
    assert await codes(for_bob, broker) == TRANSACTION
    assert await codes(for_bob, may_write[1], broker) == TOPIC
    assert await codes("client", *may_write, broker) == TRANSACTION, "it is no right to write"
    assert await codes(for_bob, *may_write) == TRANSACTION, "alice is no broker"


@pytest.mark.parametrize("version", [12, 17])
@pytest.mark.parametrize("enforced", [True, False])
async def test_g02_a_broker_follows_as_nobody_but_itself(version: int, enforced: bool) -> None:
    cluster = Cluster()
    topic_id = cluster.publish_topic("t")
    cluster.replicas.results["fetch"] = [result(TopicPartition("t", 0), b"")]
    named: dict[str, Any] = {"replica_id": 1}
    if version >= 15:
        kio = import_module(f"kio.schema.fetch.v{version}.request")
        named = {"replica_state": kio.ReplicaState(replica_id=1, replica_epoch=7)}
    request = fetch(version, ("t" if version < 13 else topic_id, [0]), **named)
    may_follow = allow(A.CLUSTER_ACTION, CLUSTER_NAME, ON_CLUSTER)._replace(principal="User:*")
    options: dict[str, Any] = {} if enforced else {"rights": AllRights()}

    async def codes(user: str) -> set[int]:
        response = await told(
            ApiKey.FETCH,
            version,
            request,
            cluster,
            may_follow,
            user=user,
            follower_names="broker-{}".format,
            **options,
        )
        return {int(each.error_code) for topic in response.responses for each in topic.partitions}

    assert await codes("broker-1") == NO_ERROR
    cluster.replicas.calls.clear()
    assert await codes("broker-2") == TOPIC
    assert await codes("admin") == TOPIC
    assert not cluster.replicas.calls


@pytest.mark.parametrize(
    ("key", "version"),
    [
        (ApiKey.INIT_PRODUCER_ID, 4),
        (ApiKey.ADD_PARTITIONS_TO_TXN, 3),
        (ApiKey.ADD_OFFSETS_TO_TXN, 3),
        (ApiKey.END_TXN, 5),
    ],
)
async def test_a_broker_forwards_requests_of_producers_that_may_write(
    key: ApiKey, version: int
) -> None:
    cluster = Cluster()
    cluster.publish_topic("name", cluster.partition(1), cluster.partition(1))
    cluster.publish_topic("__consumer_offsets")
    cluster.transactions.results = {
        AddPartitions: {TopicPartition("name", 1): ErrorCode.NONE}
    } | dict.fromkeys((InitProducerId, EndTransaction), Producer(7, 1))
    request = request_of_ones(api_table.request_class(key, version))
    if key is ApiKey.INIT_PRODUCER_ID:
        request = replace(request, transactional_id="name")
    broker = allow(A.CLUSTER_ACTION, CLUSTER_NAME, ON_CLUSTER)
    for_bob = client_id_for(Client("User:bob", "10.0.0.2"))
    of_bob = [
        allow(operation, "*", kind)._replace(principal="User:bob")
        for operation, kind in (
            (A.WRITE, ResourceType.TRANSACTIONAL_ID),
            (A.WRITE, ResourceType.TOPIC),
            (A.READ, ResourceType.GROUP),
        )
    ]

    async def codes(client_id: str, *acls: AccessControlEntry) -> set[int]:
        return error_codes(await told(key, version, request, cluster, *acls, client_id=client_id))

    assert await codes(for_bob, *of_bob, broker) == NO_ERROR
    assert await codes(for_bob, *of_bob) & (TRANSACTION | TOPIC), "alice is no broker"
    assert await codes(for_bob, broker) & (TRANSACTION | TOPIC), "bob may not write"


def test_a_refusal_tells_a_throttle_time_where_it_has_a_place() -> None:
    second = timedelta(seconds=1)
    old, new = (api_table.response_class(ApiKey.DESCRIBE_GROUPS, version) for version in (0, 1))
    refusal: Any = old(groups=())
    newer: Any = new(groups=(), throttle_time=timedelta(0))

    answer: Any = with_throttle_time(newer, second)

    assert answer.throttle_time == second
    assert with_throttle_time(refusal, second) is refusal


ALTERING = {
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: ("responses", "partitions"),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: ("topics", "partitions"),
    ApiKey.ELECT_LEADERS: ("replica_election_results", "partition_result"),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: ("results",),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: ("results",),
}
"""Clients of Java count the elements also where the whole is refused."""


@pytest.mark.parametrize(
    ("key", "version"), [each for each in VERSIONS if each.values[0] in ALTERING]
)
async def test_a_refusal_repeats_the_elements_that_clients_count(key: ApiKey, version: int) -> None:
    request = request_of_ones(api_table.request_class(key, version))

    response = await told(key, version, request, untouchable())

    elements = (response,)
    for field in ALTERING[key]:
        elements = tuple(one for each in elements for one in getattr(each, field))
    assert len(elements) == 1
    assert getattr(elements[0], "error_code", 31) == 31
    named = getattr(elements[0], "user", getattr(elements[0], "partition_index", None))
    assert named in (None, "name", 1)


def every_right_but(key: ApiKey, version: int, request: Any) -> list[list[AccessControlEntry]]:
    """Rights to some of what a request touches, in every combination that is not all of it."""
    touched = sorted(set(APIS[key].resources(request)), key=str)
    names = {each: each.name if isinstance(each.name, str) else "name" for each in touched}
    return [
        [
            allow(each.operation, names[each], each.kind)
            for number, each in enumerate(touched)
            if chosen >> number & 1
        ]
        for chosen in range(2 ** len(touched) - 1)
    ]


@pytest.mark.parametrize(
    ("key", "version"), [each for each in VERSIONS if each.values[0] not in OF_EVERY_CLIENT]
)
async def test_what_a_client_without_some_of_the_rights_is_told_can_be_encoded(
    key: ApiKey, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(VALUES, "uuid", TOPIC_ID)
    request = request_of_ones(api_table.request_class(key, version))
    for acls in every_right_but(key, version, request):
        # Nothing else is there: an error that nobody expected is an answer, too.
        await told(key, version, request, untouchable(("name", TOPIC_ID)), *acls)


@pytest.mark.parametrize("version", range(7))
async def test_a_refused_coordinator_is_no_node(version: int) -> None:
    key = ApiKey.FIND_COORDINATOR
    request = request_of_ones(api_table.request_class(key, version))

    response = await told(key, version, request, untouchable())

    (found,) = getattr(response, "coordinators", (response,))
    assert (found.node_id, found.host, found.port) == (-1, "", -1)


@pytest.mark.parametrize("operation", [A.ALTER, A.CLUSTER_ACTION])
@pytest.mark.parametrize("version", APIS[ApiKey.WRITE_TXN_MARKERS].accepted_versions)
async def test_markers_are_written_for_who_may_alter_the_cluster(
    version: int, operation: AclOperation
) -> None:
    key = ApiKey.WRITE_TXN_MARKERS
    request = request_of_ones(api_table.request_class(key, version))
    acl = allow(operation, CLUSTER_NAME, ON_CLUSTER)

    response = await told(key, version, request, untouchable(), acl)

    assert error_codes(response) != CLUSTER
