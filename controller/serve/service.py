"""The gRPC service: translate, submit, translate back.

A request that cannot be translated is refused with INVALID_ARGUMENT. The error of a whole operation
is returned in the response: at its top if it has an error code there, otherwise in each element.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from functools import partial
from typing import Any, Generic, TypeVar, get_args

import msgspec
from google.protobuf.message import Message
from msgspec.structs import fields, replace

from controller.decide.brokers.brokers import heartbeat, late_heartbeat
from controller.decide.brokers.registration import register_broker, unregister_broker
from controller.decide.partitions.added_partitions import create_partitions
from controller.decide.partitions.directories import assign_replicas_to_dirs
from controller.decide.partitions.elections import elect_leaders
from controller.decide.partitions.isr import alter_partition
from controller.decide.partitions.reassignments import (
    alter_partition_reassignments,
    list_partition_reassignments,
)
from controller.decide.partitions.topics import create_topics, delete_topics
from controller.decide.settings.acls import create_acls, delete_acls
from controller.decide.settings.client_quotas import alter_client_quotas
from controller.decide.settings.configs import alter_configs, incremental_alter_configs
from controller.decide.settings.feature_updates import update_features
from controller.decide.settings.producer_ids import allocate_producer_ids
from controller.decide.settings.scram_credentials import alter_user_scram_credentials
from controller.decide.state import ControllerResult, ControllerState, IdSource, Randomness
from controller.lead.active_controller import ActiveController, Decision
from controller.lead.leadership import Leadership
from controller.limits import HELD_REQUESTS_MAX, STREAMS_MAX
from controller.quorum.description import describe_quorum, describe_without_term
from controller.quorum.replicated_log import NotLeaderError
from controller.serve.authorized import Authorized, check_caller
from jbodlab.controller_api import requests
from jbodlab.controller_api.translate import from_proto, to_proto
from jbodlab.controller_api.transport import Refusal, RpcRefusedError
from jbodlab.metadata.records.control_records import KRaftVoterEndpoint
from jbodlab.metadata.records.features import KRAFT_VERSION
from jbodlab.raft.messages import AddVoterRequest, RaiseKRaftVersionRequest, RemoveVoterRequest
from jbodlab.raft.voters import ReplicaKey
from jbodlab.vocabulary.errors import DecodeError, KafkaError
from jbodlab.vocabulary.ids import NO_LEADER, BrokerId

RequestT = TypeVar("RequestT", bound=requests.Request[Any])
ResponseT = TypeVar("ResponseT")


Decide = Callable[[RequestT, ControllerState, int], ControllerResult[ResponseT]]
"""`(request, state, now_ms)` to the response and the records."""


class Call(msgspec.Struct, Generic[RequestT, ResponseT], frozen=True):
    """A request that the controller decides.

    Attributes:
        request: Its type.
        response: Type of its response.
        decide: Its decision.
        late: The decision instead when the request has waited too long, which is half of the
            interval for heartbeats.
    """

    request: type[RequestT]
    response: type[ResponseT]
    decide: Decide[RequestT, ResponseT]
    late: Decide[RequestT, ResponseT] | None = None


class Query(msgspec.Struct, Generic[RequestT, ResponseT], frozen=True):
    """A request that is answered at once, from what is committed.

    Attributes:
        request: Its type.
        answer: The response of a node, which may have no term.
        is_of_leader: Whether the response is of use only while no other node leads.
    """

    request: type[RequestT]
    answer: Callable[[RequestT, Leadership], ResponseT]
    is_of_leader: bool = False


class Change(msgspec.Struct, Generic[RequestT, ResponseT], frozen=True):
    """A request to change the quorum, in place of its metadata.

    Attributes:
        request: Its type.
        response: Type of its response, which says no more than an error.
        make: Makes the change; returns when it is committed.
    """

    request: type[RequestT]
    response: type[ResponseT]
    make: Callable[[RequestT, Leadership], Awaitable[None]]


def calls(
    randomness: Randomness, new_id: IdSource
) -> tuple[Call[Any, Any] | Query[Any, Any] | Change[Any, Any], ...]:
    """Return everything that brokers ask of the controller but the stream of metadata.

    Args:
        randomness: Where placement begins.
        new_id: Draws topic ids.
    """
    create = partial(create_topics, randomness=randomness, new_id=new_id)
    grow = partial(create_partitions, randomness=randomness)
    r = requests
    return (
        Call(r.BrokerRegistrationRequest, r.BrokerRegistrationResponse, register_broker),
        Call(r.BrokerHeartbeatRequest, r.BrokerHeartbeatResponse, heartbeat, late_heartbeat),
        Call(r.UnregisterBrokerRequest, r.UnregisterBrokerResponse, unregister_broker),
        Call(
            r.AssignReplicasToDirsRequest, r.AssignReplicasToDirsResponse, assign_replicas_to_dirs
        ),
        Call(r.AlterPartitionRequest, r.AlterPartitionResponse, alter_partition),
        Call(r.CreateTopicsRequest, r.CreateTopicsResponse, create),
        Call(r.DeleteTopicsRequest, r.DeleteTopicsResponse, delete_topics),
        Call(r.CreatePartitionsRequest, r.CreatePartitionsResponse, grow),
        Call(r.ElectLeadersRequest, r.ElectLeadersResponse, elect_leaders),
        Call(
            r.AlterPartitionReassignmentsRequest,
            r.AlterPartitionReassignmentsResponse,
            alter_partition_reassignments,
        ),
        Call(r.AllocateProducerIdsRequest, r.AllocateProducerIdsResponse, allocate_producer_ids),
        Call(r.IncrementalAlterConfigsRequest, r.AlterConfigsResponse, incremental_alter_configs),
        Call(r.AlterConfigsRequest, r.AlterConfigsResponse, alter_configs),
        Call(r.AlterClientQuotasRequest, r.AlterClientQuotasResponse, alter_client_quotas),
        Call(
            r.CreateAclsRequest,
            r.CreateAclsResponse,
            partial(create_acls, new_id=new_id),
        ),
        Call(r.DeleteAclsRequest, r.DeleteAclsResponse, delete_acls),
        Call(
            r.AlterUserScramCredentialsRequest,
            r.AlterUserScramCredentialsResponse,
            alter_user_scram_credentials,
        ),
        Call(r.UpdateFeaturesRequest, r.UpdateFeaturesResponse, update_features),
        Query(r.ListPartitionReassignmentsRequest, _reassignments, is_of_leader=True),
        Query(r.DescribeQuorumRequest, _quorum),
        Change(r.AddRaftVoterRequest, r.AddRaftVoterResponse, _add_voter),
        Change(r.RemoveRaftVoterRequest, r.RemoveRaftVoterResponse, _remove_voter),
        Change(r.ResignLeadershipRequest, r.ResignLeadershipResponse, _resign),
        Query(r.FindControllerRequest, _who_leads),
    )


def _reassignments(
    request: requests.ListPartitionReassignmentsRequest, leadership: Leadership
) -> requests.ListPartitionReassignmentsResponse:
    return list_partition_reassignments(request, leadership.term.controller.committed.image)


def _quorum(
    _: requests.DescribeQuorumRequest, leadership: Leadership
) -> requests.DescribeQuorumResponse:
    committed = leadership.committed
    if not leadership.is_active:
        return describe_without_term(
            leadership.cluster_id, leadership.epoch, leadership.leader, committed.end_offset
        )
    controller = leadership.term.controller
    return describe_quorum(
        replace(controller.state, image=committed.image),
        controller.epoch,
        committed.end_offset,
        controller.now_ms(),
        controller.wall_ms(),
        leadership.followers,
        leadership.directory_id,
    )


async def _add_voter(request: requests.AddRaftVoterRequest, leadership: Leadership) -> None:
    await leadership.change_voters(
        AddVoterRequest(
            voter=ReplicaKey(request.voter_id, request.voter_directory_id),
            endpoints=tuple(
                KRaftVoterEndpoint(name=each.name, host=each.host, port=each.port)
                for each in request.listeners
            ),
            acks_commit=request.ack_when_committed,
            timeout_ms=request.timeout_ms,
            is_again=request.is_again,
        )
    )


async def _remove_voter(request: requests.RemoveRaftVoterRequest, leadership: Leadership) -> None:
    voter = ReplicaKey(request.voter_id, request.voter_directory_id)
    await leadership.change_voters(RemoveVoterRequest(voter=voter, is_again=request.is_again))


async def _resign(request: requests.ResignLeadershipRequest, leadership: Leadership) -> None:
    # The leader of a later epoch took the place of the one that was meant.
    if leadership.term.controller.epoch == request.leader_epoch:
        leadership.resign(request.successor)


def _who_leads(
    _: requests.FindControllerRequest, leadership: Leadership
) -> requests.FindControllerResponse:
    # Requests wait at a node that was elected, so it may be called.
    leader = leadership.node_id if leadership.is_claiming else leadership.leader
    return requests.FindControllerResponse(
        node_id=leadership.node_id,
        leader_id=NO_LEADER if leader is None else leader,
        leader_epoch=leadership.epoch,
        is_active=leadership.is_active,
        controllers=tuple(
            requests.ControllerAddress(node_id=BrokerId(node_id), host=each.host, port=each.port)
            for node_id, record in leadership.committed.image.cluster.controllers.items()
            for each in record.end_points
            if each.name == leadership.listener_name
        ),
    )


class ControllerService:
    """Answers calls; `jbodlab.controller_api.transport.RpcService`.

    Args:
        leadership: Of this node. The active controller of its term runs the operations, and the
            stream of that term has the committed metadata; while there is none, all that needs it
            is refused.
        heartbeat_interval_ms: Half of it is the longest that a heartbeat may wait in the queue.
        hold_ms: How long a request waits at a node that was elected and has not claimed yet.
        randomness: Where placement begins.
        new_id: Draws ids of topics and of access control entries.
        monotonic_s: Clock for the log.
    """

    def __init__(
        self,
        *,
        leadership: Leadership,
        heartbeat_interval_ms: int,
        hold_ms: int,
        randomness: Randomness,
        new_id: IdSource,
        monotonic_s: Callable[[], float],
    ) -> None:
        self._authorized = Authorized(monotonic_s)
        self._leadership = leadership
        self._hold_s = hold_ms / 1000
        self._heartbeat_deadline_ms = heartbeat_interval_ms // 2
        self._calls = {each.request.method(): each for each in calls(randomness, new_id)}
        self._streams = 0
        self.held = 0
        """Requests that wait until this node has claimed."""

    @property
    def _controller(self) -> ActiveController:
        return self._leadership.term.controller

    async def unary(self, method: str, message: Message) -> Any:
        """Carry out a request."""
        try:
            return await self._unary(message)
        except NotLeaderError as error:
            raise self._refused(error) from error

    def _refused(self, error: NotLeaderError) -> NotLeaderError:
        """Return a refusal that names the leader, if it is known."""
        known = _who_leads(requests.FindControllerRequest(), self._leadership)
        return NotLeaderError(
            is_outcome_unknown=error.is_outcome_unknown, hint=to_proto(known).SerializeToString()
        )

    async def _unary(self, message: Message) -> Any:
        request = _translated(message)
        if self._is_secured() and hasattr(request, "caller"):
            check_caller(request)
        return to_proto(await self.decide(request, size_bytes=message.ByteSize()))

    def _is_secured(self) -> bool:
        is_active = self._leadership.is_active
        return is_active and self._controller.state.settings.authorizer is not None

    async def decide(self, request: Any, *, size_bytes: int = 0) -> Any:
        """Return the response to a request, which names its caller where rights are to decide.

        Raises:
            NotLeaderError: this node does not lead.
        """
        call = self._calls[request.method()]
        if isinstance(call, Query):
            if call.is_of_leader:
                await self._claimed()
            answer = call.answer(request, self._leadership)
            if call.is_of_leader:
                await self._leadership.confirmed()
            return answer
        await self._claimed()
        try:
            if isinstance(call, Change):
                await self._submit(request, lambda *_: ControllerResult(response=None), call)
                await call.make(request, self._leadership)
                return call.response()
            if isinstance(request, requests.UpdateFeaturesRequest):
                request = await self._with_kraft_version(request, call)
            return await self._submit(request, call.decide, call, size_bytes=size_bytes)
        except KafkaError as error:
            return failed(request, call.response, error)

    async def _with_kraft_version(
        self, request: requests.UpdateFeaturesRequest, call: Call[Any, Any]
    ) -> requests.UpdateFeaturesRequest:
        """Raise the level of kraft.version, which the quorum has; returns the other features."""
        levels = {each.feature: each.max_version_level for each in request.feature_updates}
        level = levels.get(KRAFT_VERSION)
        if level is None:
            return request
        # All of it or nothing: the rest is checked first.
        await self._submit(replace(request, validate_only=True), call.decide, call)
        await self._leadership.change_voters(
            RaiseKRaftVersionRequest(level=level, validates_only=request.validate_only)
        )
        rest = (each for each in request.feature_updates if each.feature != KRAFT_VERSION)
        return replace(request, feature_updates=tuple(rest))

    async def _submit(
        self,
        request: Any,
        decision: Decide[Any, Any],
        call: Call[Any, Any] | Change[Any, Any],
        *,
        size_bytes: int = 0,
    ) -> Any:
        decide: Decision[Any] = partial(decision, request)
        if self._is_secured() and getattr(request, "caller", None) is not None:
            decide = partial(
                self._authorized.decide,
                decision,
                lambda part, error: failed(part, call.response, error),
                request,
            )
        late: Decision[Any] | None = None
        deadline_ms = _queue_deadline_ms(request)
        if isinstance(call, Call) and call.late is not None:
            late = partial(call.late, request)
            deadline_ms = self._heartbeat_deadline_ms
        return await self._controller.submit(
            decide, deadline_ms=deadline_ms, late=late, size_bytes=size_bytes
        )

    async def stream(self, method: str, message: Message) -> AsyncGenerator[Message, None]:
        """Yield committed batches from an offset on; there is no other method that streams."""
        try:
            async for response in self._stream(message):
                yield response
        except NotLeaderError as error:
            raise self._refused(error) from error

    async def _stream(self, message: Message) -> AsyncGenerator[Message, None]:
        request: requests.MetadataStreamRequest = _translated(message)
        await self._claimed()
        cluster_id = self._controller.state.settings.cluster_id
        if request.cluster_id != cluster_id:
            raise RpcRefusedError(
                Refusal.FAILED_PRECONDITION,
                f"INCONSISTENT_CLUSTER_ID: expected {cluster_id}, but got {request.cluster_id}",
            )
        if self._streams >= STREAMS_MAX:
            raise RpcRefusedError(
                Refusal.RESOURCE_EXHAUSTED,
                f"the limit of {STREAMS_MAX} open metadata streams is reached",
            )
        self._streams += 1
        try:
            async for response in self._leadership.term.stream.subscribe(request):
                yield to_proto(response)
        finally:
            self._streams -= 1

    async def _claimed(self) -> None:
        """Wait a moment while this node was elected and has not claimed yet, with few others."""
        if self._leadership.is_claiming and self.held < HELD_REQUESTS_MAX:
            self.held += 1
            try:
                await self._leadership.claimed(self._hold_s)
            finally:
                self.held -= 1


def _queue_deadline_ms(request: object) -> int | None:
    """Return how long a request may wait for its turn; None for any time.

    A client whose timeout is 0 does not want to wait for the effect of what it asks for. Its
    request is carried out like any other.
    """
    timeout_ms: int = getattr(request, "timeout_ms", 0)
    return timeout_ms if timeout_ms > 0 else None


def _translated(message: Any) -> Any:
    try:
        return from_proto(message)
    except DecodeError as error:
        raise RpcRefusedError(Refusal.INVALID_ARGUMENT, str(error)) from error


def failed(request: msgspec.Struct, response: type[msgspec.Struct], error: KafkaError) -> Any:
    """Return the response in which a whole request fails.

    Where it has no code at its top, each element of the request has one: the first field of the
    response is a list that answers the first field of the request. An element of it repeats the
    fields that it cannot be made without.
    """
    told = {"error_code": error.code, "error_message": error.message}
    answered = fields(response)[0]
    if "error_code" in response.__struct_fields__:
        return response(**told)
    element, _ = get_args(answered.type)
    repeated = [each.name for each in fields(element) if each.required]
    return response(
        **{
            answered.name: tuple(
                element(**{name: getattr(each, name) for name in repeated}, **told)
                for each in getattr(request, request.__struct_fields__[0])
            )
        }
    )
