"""The requests of the quorum at the listener of a controller: from messages to the core and back.

Rights are those of `kafka.server.ControllerApis`: whoever takes part in the quorum needs
CLUSTER_ACTION, as a Fetch gives away everything in the metadata.

Source: `kafka.server.ControllerApis`, `org.apache.kafka.raft.KafkaRaftClient`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any

import msgspec

from controller.quorum.driver import Served
from controller.quorum.raft_log import RaftLog
from controller.quorum.raft_wire import registration_of, request_of
from jbodlab.controller_api import requests
from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.kafka_wire.fetch_response import FetchedPartition, FetchedTopic
from jbodlab.kafka_wire.leader_hints import CurrentLeader
from jbodlab.kafka_wire.leader_hints import NodeEndpoint as FetchEndpoint
from jbodlab.metadata.image.metadata_image import MetadataImage
from jbodlab.metadata.records.cluster_records import RegisterControllerRecord
from jbodlab.raft.log_view import OffsetAndEpoch
from jbodlab.raft.messages import FetchSnapshotAnswer, QuorumFetchAnswer, VoterChangeAnswer
from jbodlab.security.acl import AclOperation
from jbodlab.server.answer import Handler, Later, RequestContext, in_background
from jbodlab.server.api import Api
from jbodlab.server.failures import FailsBySchema
from jbodlab.server.resources import Elsewhere, Resources, on_cluster
from jbodlab.server.response import Response
from jbodlab.server.response_structs import ResponseStructs
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import METADATA_TOPIC, METADATA_TOPIC_ID, NO_LEADER

VOTE = ResponseStructs(ApiKey.VOTE, 2)
BEGIN_QUORUM_EPOCH = ResponseStructs(ApiKey.BEGIN_QUORUM_EPOCH, 1)
END_QUORUM_EPOCH = ResponseStructs(ApiKey.END_QUORUM_EPOCH, 1)
FETCH = ResponseStructs(ApiKey.FETCH, 18)
FETCH_SNAPSHOT = ResponseStructs(ApiKey.FETCH_SNAPSHOT, 1)
ADD_RAFT_VOTER = ResponseStructs(ApiKey.ADD_RAFT_VOTER, 1)
REMOVE_RAFT_VOTER = ResponseStructs(ApiKey.REMOVE_RAFT_VOTER, 0)
UPDATE_RAFT_VOTER = ResponseStructs(ApiKey.UPDATE_RAFT_VOTER, 0)
CONTROLLER_REGISTRATION = ResponseStructs(ApiKey.CONTROLLER_REGISTRATION, 0)
API_VERSIONS = ResponseStructs(ApiKey.API_VERSIONS, 4)


class QuorumParts(msgspec.Struct, frozen=True):
    """The parts of a controller that handlers are made of.

    Attributes:
        cluster_id: Id of the cluster.
        log: The log of the quorum; its core answers the requests of other controllers.
        image: Returns the committed metadata.
        decide: Has the active controller decide on what a tool asks.
        register: Registers a controller, where this one is active.
    """

    cluster_id: str
    log: RaftLog
    image: Callable[[], MetadataImage]
    decide: Callable[[requests.Request[Any]], Awaitable[Any]]
    register: Callable[[RegisterControllerRecord], Coroutine[Any, Any, None]]


Make = Callable[[Served, str], Response]
"""`(answer, name of the listener)` to the response."""


class QuorumApi(FailsBySchema):
    """One request of the quorum.

    Args:
        key: Its API.
        parts: Of the controller.
        make: Makes the response.
    """

    def __init__(self, key: ApiKey, parts: QuorumParts, make: Make) -> None:
        self._key = key
        self._parts = parts
        self._make = make

    def answer(self, request: Any, context: RequestContext) -> Later:
        """Have the core answer."""
        asked = request_of(self._key, request, self._parts.cluster_id)
        listener = context.listener_name
        return Later(self._parts.log.ask(asked), lambda served: self._make(served, listener))


class ControllerHandler(FailsBySchema):
    """A handler that is made of the parts of a controller."""

    def __init__(self, parts: QuorumParts) -> None:
        self._parts = parts


class ControllerRegistrationApi(ControllerHandler):
    """ControllerRegistration: another controller wants to be in the metadata."""

    def answer(self, request: Any, context: RequestContext) -> Later:
        """Register it."""
        return in_background(self._register(registration_of(request)))

    async def _register(self, record: RegisterControllerRecord) -> Response:
        await self._parts.register(record)
        return CONTROLLER_REGISTRATION.response()


def _leader(served: Served) -> dict[str, int]:
    answer = served.answer
    leader = NO_LEADER if answer.leader_id is None else answer.leader_id
    return {"leader_id": leader, "leader_epoch": answer.epoch}


def _endpoints(served: Served, listener: str, kind: Callable[..., Any]) -> tuple[Any, ...]:
    """Return where the leader is reached at the listener of the asker, if that is known."""
    answer = served.answer
    return tuple(
        kind(node_id=answer.leader_id, host=each.host, port=each.port)
        for each in answer.leader_endpoints
        if each.name == listener and answer.leader_id is not None
    )


def _of_partition(structs: ResponseStructs, served: Served, listener: str) -> Response:
    """Return a response whose partition says who leads, and perhaps whether a vote is granted."""
    answer = served.answer
    vote = {"vote_granted": answer.is_granted} if hasattr(answer, "is_granted") else {}
    partition = structs.PartitionData(
        partition_index=0, error_code=answer.error, **_leader(served), **vote
    )
    topic = structs.TopicData(topic_name=METADATA_TOPIC, partitions=(partition,))
    return structs.response(
        topics=(topic,), node_endpoints=_endpoints(served, listener, structs.NodeEndpoint)
    )


def _fetched(served: Served, listener: str) -> Response:
    answer = served.answer
    assert isinstance(answer, QuorumFetchAnswer)
    partition = FetchedPartition(
        partition_index=0,
        error_code=answer.error,
        high_watermark=answer.high_watermark,
        last_stable_offset=-1,
        log_start_offset=answer.log_start_offset,
        records=(served.data,) if served.data else (),
        records_size=len(served.data),
        diverging_epoch=(
            None if answer.diverging is None else (answer.diverging.epoch, answer.diverging.offset)
        ),
        current_leader=CurrentLeader(**_leader(served)),
        snapshot_id=answer.snapshot,
    )
    return FETCH.response(
        responses=(FetchedTopic(METADATA_TOPIC, METADATA_TOPIC_ID, (partition,)),),
        node_endpoints=_endpoints(served, listener, partial(FetchEndpoint, rack=None)),
    )


def _snapshot_piece(served: Served, listener: str) -> Response:
    answer, structs = served.answer, FETCH_SNAPSHOT
    assert isinstance(answer, FetchSnapshotAnswer)
    error, snapshot, position = answer.error, OffsetAndEpoch(-1, -1), 0  # type: ignore[arg-type]
    if answer.read is not None:
        snapshot, position, _ = answer.read
        if not served.size:
            error = ErrorCode.SNAPSHOT_NOT_FOUND
        elif position >= served.size:
            error = ErrorCode.POSITION_OUT_OF_RANGE
    partition = structs.PartitionSnapshot(
        index=0,
        error_code=error,
        snapshot_id=structs.SnapshotId(end_offset=snapshot.offset, epoch=snapshot.epoch),
        current_leader=structs.LeaderIdAndEpoch(**_leader(served)),
        size=served.size,
        position=position,
        unaligned_records=served.data,
    )
    topic = structs.TopicSnapshot(name=METADATA_TOPIC, partitions=(partition,))
    return structs.response(
        topics=(topic,), node_endpoints=_endpoints(served, listener, structs.NodeEndpoint)
    )


def _changed(structs: ResponseStructs, served: Served, listener: str) -> Response:
    answer = served.answer
    assert isinstance(answer, VoterChangeAnswer)
    return structs.response(error_code=answer.error, error_message=answer.message or None)


def _updated(served: Served, listener: str) -> Response:
    structs, leader = UPDATE_RAFT_VOTER, _leader(served)
    reached = {"host": "", "port": -1}
    for each in _endpoints(served, listener, dict):
        reached = {"host": each["host"], "port": each["port"]}
    return structs.response(
        error_code=served.answer.error, current_leader=structs.CurrentLeader(**leader, **reached)
    )


CLUSTER_ACTION = on_cluster(AclOperation.CLUSTER_ACTION)
MEMBERSHIP = Elsewhere(on_cluster(AclOperation.ALTER))
"""Not demanded of the controller that a request is about; `known_controllers` looks."""


ITEMS_MAX = 1_000
"""More than any request has: voters and their endpoints."""


def api_of(
    key: ApiKey,
    versions: tuple[int, int],
    handler: Callable[[QuorumParts], Handler],
    resources: Resources,
) -> Api[QuorumParts]:
    """Return the declaration of an API of a controller."""
    return Api(
        key=key, versions=versions, max_items=ITEMS_MAX, resources=resources, handler=handler
    )


def _api(
    key: ApiKey, versions: tuple[int, int], make: Make, resources: Resources = CLUSTER_ACTION
) -> Api[QuorumParts]:
    return api_of(key, versions, lambda parts: QuorumApi(key, parts, make), resources)


QUORUM_APIS: tuple[Api[QuorumParts], ...] = (
    _api(ApiKey.FETCH, (13, 18), _fetched),
    _api(ApiKey.VOTE, (0, 2), partial(_of_partition, VOTE)),
    _api(ApiKey.BEGIN_QUORUM_EPOCH, (0, 1), partial(_of_partition, BEGIN_QUORUM_EPOCH)),
    _api(ApiKey.END_QUORUM_EPOCH, (0, 1), partial(_of_partition, END_QUORUM_EPOCH)),
    _api(ApiKey.FETCH_SNAPSHOT, (0, 1), _snapshot_piece),
    _api(ApiKey.ADD_RAFT_VOTER, (0, 1), partial(_changed, ADD_RAFT_VOTER), MEMBERSHIP),
    _api(ApiKey.REMOVE_RAFT_VOTER, (0, 0), partial(_changed, REMOVE_RAFT_VOTER), MEMBERSHIP),
    _api(ApiKey.UPDATE_RAFT_VOTER, (0, 0), _updated),
    api_of(ApiKey.CONTROLLER_REGISTRATION, (0, 0), ControllerRegistrationApi, CLUSTER_ACTION),
)
