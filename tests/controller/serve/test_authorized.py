"""Requests of clients that brokers pass on: decided by the rights of the client."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import Any
from uuid import UUID

import pytest

from controller.decide.partitions.topics import create_topics
from controller.serve.authorized import Authorized, check_caller
from controller.serve.service import failed
from jbodlab.controller_api import requests
from jbodlab.controller_api.requests import (
    BROKER,
    Caller,
    CreateTopicsRequest,
    CreateTopicsResponse,
    NewTopic,
)
from jbodlab.controller_api.transport import RpcRefusedError
from jbodlab.metadata.records.security_records import AccessControlEntryRecord
from jbodlab.security.acl import CLUSTER_NAME, AclOperation, PatternType, Permission, ResourceType
from jbodlab.security.authorizer import AuthorizerSettings
from jbodlab.server.forwarded import FORWARDED
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from tests.builders import PureController

ALICE = Caller(principal="User:alice", host="10.0.0.1")


def allowed(name: str, kind: ResourceType = ResourceType.TOPIC) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(
        id=UUID(int=len(name)),
        resource_type=kind,
        resource_name=name,
        pattern_type=PatternType.LITERAL,
        principal=ALICE.principal,
        host="*",
        operation=AclOperation.CREATE,
        permission_type=Permission.ALLOW,
    )


def created(
    caller: Caller | None, *names: str, acls: tuple[AccessControlEntryRecord, ...] = ()
) -> tuple[dict[str, ErrorCode], set[str]]:
    """The codes of topics, and the topics that there are afterwards."""
    controller = PureController(authorizer=AuthorizerSettings(super_users=frozenset({"User:root"})))
    controller.add_broker(1, "a")
    controller.replay(*acls)
    request = CreateTopicsRequest(
        topics=tuple(NewTopic(name=name, num_partitions=1, replication_factor=1) for name in names),
        caller=caller,
    )
    ids = iter(range(1, 100))
    decide: Any = partial(create_topics, randomness=Random(1), new_id=lambda: UUID(int=next(ids)))
    response = controller.run(
        lambda state, now_ms: Authorized(lambda: 0.0).decide(
            decide,
            lambda part, error: failed(part, CreateTopicsResponse, error),
            request,
            state,
            now_ms,
        )
    )
    codes = {each.name: each.error_code for each in response.topics}
    return codes, set(controller.state.image.topics.by_name)


def test_g04_caller() -> None:
    denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED

    assert created(ALICE, "t") == ({"t": denied}, set())
    assert created(ALICE, "t", "u", acls=(allowed("t"),)) == (
        {"t": ErrorCode.NONE, "u": denied},
        {"t"},
    )
    everywhere = allowed(CLUSTER_NAME, ResourceType.CLUSTER)
    assert created(ALICE, "t", acls=(everywhere,))[1] == {"t"}
    assert created(Caller(principal="User:root", host=""), "t")[1] == {"t"}


@pytest.mark.parametrize("principal", [None, "", ":", "User:", ":alice", "alice"])
def test_g04_a_request_that_names_no_principal_is_refused(principal: str | None) -> None:
    caller = None if principal is None else Caller(principal=principal, host="10.0.0.1")

    with pytest.raises(RpcRefusedError, match="names no principal"):
        check_caller(CreateTopicsRequest(topics=(), caller=caller))


def test_a_broker_may_create_topics_of_the_brokers_own_for_itself_and_nothing_else() -> None:
    itself = Caller(principal=f"{BROKER}:1", host="")

    assert created(itself, "__consumer_offsets")[1] == {"__consumer_offsets"}
    with pytest.raises(KafkaError) as raised:
        created(itself, "t")
    assert raised.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_every_request_that_names_a_client_is_decided_for_it() -> None:
    """A request without a row is one that nobody looks at: `caller` and the row come together."""
    kinds = [
        each
        for each in vars(requests).values()
        if isinstance(each, type) and issubclass(each, requests.Request)
    ]
    named = {each.method() for each in kinds if "caller" in each.__struct_fields__}

    assert named == set(FORWARDED) - {"DescribeQuorum", "ListPartitionReassignments"}
