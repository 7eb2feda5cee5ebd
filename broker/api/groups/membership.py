"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup: members of classic groups.

While a coordinator is being loaded, most of its clients are told so and come again. Java's consumer
throws that error where it synchronizes or sends a heartbeat: SyncGroup then says that the group is
about to rebalance, whereupon every client joins anew, and a heartbeat is taken for a good one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from msgspec.structs import replace

from broker.api.parts import ApiHandler, serves
from broker.api.services.coordinators import check_group_id, request_of
from broker.groups import requests, responses
from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.security.acl import AclOperation
from jbodlab.server.answer import Later, RequestContext
from jbodlab.server.failures import FailsBySchema
from jbodlab.server.resources import on_group
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError

if TYPE_CHECKING:
    from kio.schema.heartbeat.v4.request import HeartbeatRequest
    from kio.schema.join_group.v9.request import JoinGroupRequest
    from kio.schema.leave_group.v5.request import LeaveGroupRequest
    from kio.schema.sync_group.v5.request import SyncGroupRequest

PROTOCOL_NULL_FROM = 7
"""Version of JoinGroup from which the protocol of a refused member may be null."""

MANY_LEAVE_FROM = 3


@serves(ApiKey.JOIN_GROUP, (0, 9), on_group(AclOperation.READ))
class JoinGroupApi(ApiHandler):
    """Answers when the generation of the member is there."""

    def answer(self, request: JoinGroupRequest, context: RequestContext) -> Later:
        """Join; a client that goes away meanwhile is a member no longer."""
        check_group_id(request.group_id)
        asked = request_of(requests.JoinGroup, request, context)
        future = self._parts.groups.submit(request.group_id, asked)
        return Later(future, lambda joined: _joined(joined, context.version))

    def failure(
        self, request: JoinGroupRequest, context: RequestContext, error: KafkaError
    ) -> responses.JoinGroupResponse:
        """Return the error."""
        refused = responses.JoinGroupResponse(error_code=error.code, member_id=request.member_id)
        return _joined(refused, context.version)


def _joined(joined: responses.JoinGroupResponse, version: int) -> responses.JoinGroupResponse:
    if joined.protocol_name is None and version < PROTOCOL_NULL_FROM:
        return replace(joined, protocol_name="")
    return joined


@serves(ApiKey.SYNC_GROUP, (0, 5), on_group(AclOperation.READ))
class SyncGroupApi(ApiHandler, FailsBySchema):
    """Answers when the leader has sent the assignments; while loading, clients join anew."""

    TOLD_AS: ClassVar = {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.REBALANCE_IN_PROGRESS}

    def answer(self, request: SyncGroupRequest, context: RequestContext) -> Later:
        """Bring or ask for assignments."""
        check_group_id(request.group_id)
        asked = request_of(requests.SyncGroup, request, context)
        return Later(self._parts.groups.submit(request.group_id, asked))


@serves(ApiKey.HEARTBEAT, (0, 4), on_group(AclOperation.READ))
class HeartbeatApi(ApiHandler, FailsBySchema):
    """Takes signs of life; while loading, a member is kept, and so is its heartbeat."""

    TOLD_AS: ClassVar = {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.NONE}

    def answer(self, request: HeartbeatRequest, context: RequestContext) -> Later:
        """Take a sign of life."""
        check_group_id(request.group_id)
        asked = request_of(requests.Heartbeat, request, context)
        return Later(self._parts.groups.submit(request.group_id, asked))


@serves(ApiKey.LEAVE_GROUP, (0, 5), on_group(AclOperation.READ))
class LeaveGroupApi(ApiHandler, FailsBySchema):
    """Takes members out of their group."""

    def answer(self, request: LeaveGroupRequest, context: RequestContext) -> Later:
        """Let members leave."""
        check_group_id(request.group_id)
        given = {}
        if context.version < MANY_LEAVE_FROM:
            one: Any = request
            given["members"] = (requests.LeavingMember(one.member_id),)
        asked = request_of(requests.LeaveGroup, request, context, **given)
        return Later(self._parts.groups.submit(request.group_id, asked))
