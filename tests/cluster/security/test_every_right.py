"""Each API in each version, asked by a user who lacks one right, is refused as by Apache Kafka.

The user has all rights on everything but one kind of resource, or none at all. Compared is whether
an answer has codes that say who may not do something; what else is in it depends on the cluster.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from typing import Any
from uuid import UUID

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from broker.api.table import APIS
from jbodlab.kafka_wire.api_table import ApiKey, request_class
from jbodlab.peers.client import KafkaConnection
from jbodlab.vocabulary.errors import JbodlabError
from lab.cluster import security, wait_for
from lab.cluster.security import client_files
from lab.testing.clusters import Cluster
from tests.broker.api.every_api import OF_EVERY_CLIENT, VALUES, error_codes, request_of_ones
from tests.simulation.clients import message

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.kafka,
    pytest.mark.soak,
    pytest.mark.xdist_group("every-right"),
    pytest.mark.timeout(1800),
]

RELEASE = "kafka:4.3.1"
USER = "mallory"
CALL_S, ACL_S, COORDINATED_S = 5.0, 20.0, 60.0
GROUP = VALUES["string"]
"""The name of everything in a request of ones."""
REFUSALS = {29, 30, 31, 53, 65}
"""Codes that say that a right on a topic, a group, the cluster, an id or a token is missing."""
ENDS_SOMETHING = {ApiKey.UNREGISTER_BROKER, ApiKey.ADD_RAFT_VOTER, ApiKey.REMOVE_RAFT_VOTER}
KINDS = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "cluster": ResourceType.BROKER,
    "transactional id": ResourceType.TRANSACTIONAL_ID,
}
NAMES = {"cluster": "kafka-cluster"}
OTHERWISE = {
    ("topic", "OFFSET_DELETE-0"): "Kafka looks for the group first, which is not there",
    ("topic", "SHARE_GROUP_HEARTBEAT-1"): "no share groups are served",
}
"""Answers that differ, and why, by the missing right and the request."""
Told = dict[str, frozenset[int] | None]
"""By API and version, the codes of refusals; None where there was no answer."""


@contextmanager
def allowed(cluster: Cluster, kinds: list[str]) -> Iterator[None]:
    """Give the user all rights on kinds of resources."""
    admin = AdminClient({**cluster.client_config("librdkafka", "admin"), "log_level": 0})
    entries = [
        AclBinding(
            KINDS[kind],
            NAMES.get(kind, "*"),
            ResourcePatternType.LITERAL,
            f"User:{USER}",
            "*",
            AclOperation.ALL,
            AclPermissionType.ALLOW,
        )
        for kind in kinds
    ]
    of_user = AclBindingFilter(
        ResourceType.ANY,
        None,
        ResourcePatternType.ANY,
        f"User:{USER}",
        None,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )

    def count() -> int:
        return len(admin.describe_acls(of_user).result(ACL_S))

    before = count()
    for made in admin.create_acls(entries).values() if entries else ():
        made.result(ACL_S)
    wait_for("rights at the broker", lambda: count() == before + len(entries), ACL_S)
    yield
    for gone in admin.delete_acls([of_user]).values():
        gone.result(ACL_S)
    wait_for("no rights at the broker", lambda: count() == 0, ACL_S)


MEANT = {"replica_id": -1, "session_epoch": -1, "resource_type": 2, "topic_id": UUID(int=7)}
"""The request of a consumer, in no session; a topic as resource of settings; an id that is none."""


def meant(request: Any) -> Any:
    """Return a request of ones with values that mean something."""
    found: dict[str, Any] = {}
    for field in fields(request):
        value = getattr(request, field.name)
        if field.name == "topic_id" and getattr(request, "name", None):
            continue
        if field.name in MEANT:
            found[field.name] = MEANT[field.name]
        elif isinstance(value, tuple) and value and is_dataclass(value[0]):
            found[field.name] = tuple(map(meant, value))
    return replace(request, **found)


async def asked(cluster: Cluster, *, ends_something: bool) -> Told:
    """Ask every API in every version that the broker accepts."""
    state = cluster.inner.state
    way = security.client(client_files(state, USER)["java"]).security
    address = state.brokers[0].host, state.brokers[0].port

    async def connected() -> KafkaConnection:
        return await KafkaConnection.open(
            *address, client_id="asks", timeout_s=CALL_S, security=way
        )

    connection, found = await connected(), Told()
    names = message(ApiKey.API_VERSIONS, 3, client_software_name="a", client_software_version="1")
    served = await connection.call(ApiKey.API_VERSIONS, 3, names)
    for row in served.api_keys:
        key = ApiKey(row.api_key) if row.api_key in set(ApiKey) else None
        if key not in APIS or key in OF_EVERY_CLIENT or (key in ENDS_SOMETHING and ends_something):
            continue
        for version in range(row.min_version, row.max_version + 1):
            if version not in APIS[key].accepted_versions:
                continue
            name = f"{key.name}-{version}"
            try:
                request = meant(request_of_ones(request_class(key, version)))
                answer = await connection.call(key, version, request, CALL_S)
                found[name] = frozenset(error_codes(answer) & REFUSALS)
            except (JbodlabError, OSError, TimeoutError):
                found[name] = None
                connection.close()
                connection = await connected()
    connection.close()
    return found


@pytest.fixture(scope="module")
def both() -> Iterator[tuple[Cluster, Cluster]]:
    closed = {"brokers": 1, "disks": 1, "security": "sasl_ssl"}
    with Cluster(**closed) as own, Cluster(**closed, engine=RELEASE) as kafkas:
        for cluster in (own, kafkas):
            # Refusals of a coordinator are told only where there is one.
            consumer = Consumer({**cluster.client_config("librdkafka"), "group.id": GROUP})
            consumer.committed([TopicPartition(GROUP, 0)], timeout=COORDINATED_S)
            consumer.close()
        yield own, kafkas


@pytest.mark.parametrize("missing", ["all", *KINDS])
def test_a_missing_right_is_told_as_by_kafka(both: tuple[Cluster, Cluster], missing: str) -> None:
    kinds = [] if missing == "all" else [kind for kind in KINDS if kind != missing]
    told: list[Told] = []
    for cluster in both:
        with allowed(cluster, kinds):
            told.append(asyncio.run(asked(cluster, ends_something="cluster" in kinds)))

    own, kafkas = told
    unanswered = sorted(name for name in own if kafkas.get(name) is not None and own[name] is None)
    differing = {
        name: (sorted(codes), sorted(theirs))
        for name, codes in own.items()
        if codes is not None and (theirs := kafkas.get(name)) is not None and theirs != codes
    }
    compared = sum(own[name] is not None and kafkas.get(name) is not None for name in own)
    print(f"{missing}: {compared} of {len(own)} compared; {differing}")
    assert set(differing) == {name for kind, name in OTHERWISE if kind == missing}, differing
    assert unanswered == []
