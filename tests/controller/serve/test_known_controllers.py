"""Rights at the listener of controllers, and ids that belong to certificates: the case QC74."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from datetime import timedelta
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from controller.quorum.raft_wire import SENT_IN, request_message
from controller.serve.known_controllers import KnownControllers, RightsOfControllers
from controller.serve.raft_apis import QuorumParts
from controller.serve.tool_apis import APIS
from jbodlab.kafka_wire.api_table import ApiKey, request_class
from jbodlab.kafka_wire.headers import RequestHeader
from jbodlab.metadata.image.metadata_image import EMPTY
from jbodlab.metadata.records.cluster_records import RegisterControllerRecord
from jbodlab.raft.log_view import OffsetAndEpoch
from jbodlab.raft.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchSnapshotRequest,
    Request,
    VoteRequest,
)
from jbodlab.raft.voters import NOBODY, ReplicaKey
from jbodlab.security.acl import AclOperation
from jbodlab.security.authorizer import AuthorizerSettings
from jbodlab.security.node_names import NodeNames
from jbodlab.server.answer import Later, RequestContext
from jbodlab.server.passed_on import client_id_for
from jbodlab.server.request_counts import RequestCounts
from jbodlab.server.resources import Resource
from jbodlab.server.response import Response
from jbodlab.server.rights import AllRights, Client, DeniedError, EnforcedRights, Rights
from jbodlab.server.served import served
from jbodlab.server.session import Session
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import BrokerId, LeaderEpoch, Offset
from tests.controller.quorum.nodes import directory_of

CLUSTER_ID = "cluster"
ME = ReplicaKey(BrokerId(101), directory_of(101))
LEADER, EPOCH = BrokerId(101), LeaderEpoch(3)
END = OffsetAndEpoch(Offset(5), EPOCH)
NAMES = NodeNames("controller-{id}")
SUPER_USER = "kafkas-controller"
SETTINGS = AuthorizerSettings(super_users=frozenset({f"User:{SUPER_USER}"}))
ALTER = AclOperation.ALTER

REQUESTS: dict[str, Request] = {
    "vote": VoteRequest(candidate=ME, epoch=EPOCH, voter=None, end=END, is_pre_vote=False),
    "begin": BeginQuorumEpochRequest(leader_id=LEADER, epoch=EPOCH, endpoints=(), voter=None),
    "end": EndQuorumEpochRequest(leader_id=LEADER, epoch=EPOCH, successors=(), endpoints=()),
    "fetch": FetchRequest(
        replica=ME, epoch=EPOCH, end=END, max_wait_ms=0, max_bytes=1, high_watermark=0
    ),
    "snapshot": FetchSnapshotRequest(
        replica=ME, epoch=EPOCH, snapshot=END, position=0, max_bytes=1
    ),
}


class Doors:
    """The APIs of a controller behind their filters."""

    def __init__(self, rights: Rights) -> None:
        self.asked: list[Request] = []
        rights = RightsOfControllers(rights, NAMES)
        apis = served(
            APIS,
            QuorumParts(
                CLUSTER_ID,
                SimpleNamespace(ask=self._ask, kraft_version=0),
                lambda: EMPTY,
                self._decide,
                self._register,
            ),
            rights=rights,
            counts=RequestCounts(lambda: 0.0),
            filters=[partial(KnownControllers, NAMES, rights)],
        )
        self._handlers = {api.key: handler for api, handler in apis}

    async def _register(self, record: RegisterControllerRecord) -> None:
        raise AssertionError(record)

    def _ask(self, request: Request) -> asyncio.Future[Any]:
        self.asked.append(request)
        return asyncio.get_running_loop().create_future()

    async def _decide(self, request: object) -> object:
        raise AssertionError("a tool asks")

    def send(
        self, key: ApiKey, message: Any, user: str, version: int, client_id: str = ""
    ) -> ErrorCode:
        """Return the error at the top of the answer; NONE once the core was asked."""
        context = RequestContext(
            RequestHeader(key, version, 1, client_id, 0),
            Session(listener_name="CONTROLLER", peer="10.0.0.1:1", user=user),
        )
        handler = self._handlers[key]
        try:
            answer = handler.answer(message, context)
        except DeniedError as error:
            refused: Any = handler.failure(message, context, error)
            return ErrorCode(refused.error_code)
        assert isinstance(answer, Later | Response)
        return ErrorCode.NONE

    def ask(
        self,
        request: Request,
        user: str,
        client_id: str = "",
        served: Mapping[int, range] | None = None,
    ) -> ErrorCode:
        sent = request_message(request, CLUSTER_ID, served or SENT_IN)
        assert sent is not None
        key, version, message = sent
        return self.send(key, message, user, version, client_id)


class WithEntry(EnforcedRights):
    """Rights where `User:alice` has an entry for operations on the cluster."""

    def __init__(self, operations: Collection[AclOperation]) -> None:
        super().__init__(lambda: EMPTY, SETTINGS, lambda: 0.0)
        self._of_alice = operations

    def allows(self, client: Client, resource: Resource, *, is_asked_for: bool = True) -> bool:
        if client.principal == "User:alice" and resource.operation in self._of_alice:
            return True
        return super().allows(client, resource, is_asked_for=is_asked_for)


DENIED, ALLOWED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.NONE


@pytest.mark.parametrize("name", REQUESTS)
@pytest.mark.parametrize(
    ("user", "expected"),
    [
        # Before the first access control entry is known: so a quorum begins.
        ("controller-101", ALLOWED),
        ("controller-102", DENIED),
        ("controller-0101", DENIED),
        (SUPER_USER, ALLOWED),
        ("alice", DENIED),
        ("ANONYMOUS", DENIED),
    ],
)
async def test_who_takes_part_in_the_quorum_has_cluster_action_under_its_own_id(
    name: str, user: str, expected: ErrorCode
) -> None:
    doors = Doors(WithEntry(()))

    assert doors.ask(REQUESTS[name], user) is expected
    assert len(doors.asked) == (expected is ALLOWED)


@pytest.mark.parametrize("name", REQUESTS)
async def test_a_right_by_an_entry_is_not_tied_to_an_id_and_another_right_is_none(
    name: str,
) -> None:
    action, alter = Doors(WithEntry({AclOperation.CLUSTER_ACTION})), Doors(WithEntry({ALTER}))

    assert action.ask(REQUESTS[name], "alice") is ALLOWED
    assert alter.ask(REQUESTS[name], "alice") is DENIED


@pytest.mark.parametrize("name", REQUESTS)
async def test_without_an_authorizer_names_of_controllers_are_tied_too(name: str) -> None:
    doors = Doors(AllRights())

    assert doors.ask(REQUESTS[name], "controller-102") is DENIED
    assert doors.ask(REQUESTS[name], "controller-101") is ALLOWED
    assert doors.ask(REQUESTS[name], "ANONYMOUS") is ALLOWED


@pytest.mark.parametrize("key", [ApiKey.ADD_RAFT_VOTER, ApiKey.REMOVE_RAFT_VOTER])
@pytest.mark.parametrize(
    ("user", "allows", "expected"),
    [
        ("controller-101", (), ALLOWED),
        ("controller-102", (), DENIED),
        (SUPER_USER, (), ALLOWED),
        ("alice", (), DENIED),
        ("alice", {AclOperation.CLUSTER_ACTION}, DENIED),
        ("alice", {ALTER}, ALLOWED),
    ],
)
async def test_a_controller_changes_its_own_membership_only_and_others_need_alter(
    key: ApiKey, user: str, allows: Collection[AclOperation], expected: ErrorCode
) -> None:
    fields: dict[str, Any] = {
        "cluster_id": CLUSTER_ID,
        "voter_id": 101,
        "voter_directory_id": directory_of(101),
    }
    if key is ApiKey.ADD_RAFT_VOTER:
        fields |= {"timeout": timedelta(seconds=1), "listeners": ()}
    message = request_class(key, 0)(**fields)

    doors = Doors(WithEntry(allows))

    assert doors.send(key, message, user, 0) is expected


@pytest.mark.parametrize("name", REQUESTS)
async def test_a_request_of_each_version_names_its_sender(name: str) -> None:
    doors = Doors(AllRights())
    for version in range(20):
        served = {key: range(version, version + 1) for key in SENT_IN}
        if request_message(REQUESTS[name], CLUSTER_ID, served) is not None:
            assert doors.ask(REQUESTS[name], "controller-102", served=served) is DENIED
            assert doors.ask(REQUESTS[name], "controller-101", served=served) is ALLOWED


@pytest.mark.parametrize("name", ["fetch", "snapshot"])
async def test_a_controller_that_has_lost_its_log_reads_as_nobody(name: str) -> None:
    doors, request = Doors(WithEntry(())), replace(REQUESTS[name], replica=NOBODY)

    assert doors.ask(request, "controller-101") is ALLOWED
    assert doors.ask(request, "alice") is DENIED


@pytest.mark.parametrize("name", REQUESTS)
async def test_nobody_speaks_for_another_client_at_this_listener(name: str) -> None:
    forwarded = client_id_for(Client(f"User:{SUPER_USER}", "10.0.0.2"))

    for rights in (WithEntry(()), AllRights()):
        assert Doors(rights).ask(REQUESTS[name], "controller-101", forwarded) is DENIED


async def test_everybody_may_ask_for_versions() -> None:
    doors = Doors(WithEntry(()))
    message = request_class(ApiKey.API_VERSIONS, 0)()

    assert doors.send(ApiKey.API_VERSIONS, message, "alice", 0) is ALLOWED
