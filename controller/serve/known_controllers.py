"""Which requests come from controllers that are who they say to be.

A name of `jbodlab.controller.principal` belongs to one controller. It has the right to
CLUSTER_ACTION without an access control entry, takes part in the quorum under its own id only, and
may add that id to the voters, or remove it, without the right to ALTER. Other names need the rights
that Kafka asks for, and are not tied to an id: so controllers of Apache Kafka have super users.

Source: `kafka.server.ControllerApis` for the rights; KIP-853 for controllers that add themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.raft.voters import NOBODY
from jbodlab.security.acl import USER, AclOperation, ResourceType
from jbodlab.security.node_names import NodeNames
from jbodlab.server.answer import Answer, Handler, RequestContext
from jbodlab.server.api import Api
from jbodlab.server.authorizing import check_whole
from jbodlab.server.passed_on import named_client
from jbodlab.server.resources import Resource, on_cluster
from jbodlab.server.response import Response
from jbodlab.server.rights import Client, DeniedError, Rights, client_of, cluster
from jbodlab.vocabulary.errors import KafkaError

OF_LEADERS = frozenset({ApiKey.BEGIN_QUORUM_EPOCH, ApiKey.END_QUORUM_EPOCH})
OF_VOTERS = frozenset({ApiKey.ADD_RAFT_VOTER, ApiKey.REMOVE_RAFT_VOTER})
"""APIs about the membership of a controller, be it the sender or not."""

ALTER = on_cluster(AclOperation.ALTER)


def named_ids(key: ApiKey, request: Any) -> Iterator[int]:
    """Yield the node ids that a request says to come from."""
    if key in (ApiKey.FETCH, ApiKey.FETCH_SNAPSHOT):
        # Since version 15 of Fetch the id is in a tagged field.
        replica_id = getattr(request, "replica_state", request).replica_id
        # A controller that may have lost its log asks as nobody, who is not counted.
        if replica_id != NOBODY.node_id:
            yield replica_id
    elif key in (ApiKey.UPDATE_RAFT_VOTER, *OF_VOTERS):
        yield request.voter_id
    elif key is ApiKey.CONTROLLER_REGISTRATION:
        yield request.controller_id
    elif key is ApiKey.VOTE or key in OF_LEADERS:
        for topic in request.topics:
            for each in topic.partitions:
                yield each.replica_id if key is ApiKey.VOTE else each.leader_id


class RightsOfControllers:
    """Rights of clients, among whom controllers need no access control entry.

    Args:
        rights: Of all others.
        names: Those of controllers.
    """

    def __init__(self, rights: Rights, names: NodeNames) -> None:
        self._rights = rights
        self._names = names
        self.is_enforced = rights.is_enforced

    def allows(self, client: Client, resource: Resource, *, is_asked_for: bool = True) -> bool:
        """Return whether a client may do something; see `Rights`."""
        kind, _, name = client.principal.partition(":")
        is_controller = kind == USER and self._names.id_of(name) is not None
        if is_controller and resource == cluster(AclOperation.CLUSTER_ACTION):
            return True
        return self._rights.allows(client, resource, is_asked_for=is_asked_for)

    def operations(self, client: Client, kind: ResourceType, name: str) -> int:
        """Return what a client may do to a resource, as bits."""
        return self._rights.operations(client, kind, name)

    def is_topic(self, name: str | UUID) -> bool:
        """Return whether there is a topic of this name or id."""
        return self._rights.is_topic(name)


class KnownControllers:
    """The handler of an API for controllers that are who they say to be; a filter of `served`.

    Args:
        names: Those of controllers.
        rights: Decide who may change the membership of others.
        api: The API.
        handler: Answers it.
    """

    def __init__(self, names: NodeNames, rights: Rights, api: Api[Any], handler: Handler) -> None:
        self._names = names
        self._rights = rights
        self._key = api.key
        self._handler = handler

    def answer(self, request: Any, context: RequestContext) -> Answer:
        """Answer a request; see `Handler`."""
        if named_client(context.header.client_id) is not None:
            # Brokers pass requests of others on by gRPC.
            raise DeniedError(ResourceType.CLUSTER)
        own_id = self._names.id_of(context.session.user)
        is_own = own_id is not None and all(
            each == own_id for each in named_ids(self._key, request)
        )
        if self._key in OF_VOTERS:
            if not is_own:
                check_whole(ALTER, request, self._rights, client_of(context.session))
        elif own_id is not None and not is_own:
            raise DeniedError(ResourceType.CLUSTER)
        return self._handler.answer(request, context)

    def failure(self, request: Any, context: RequestContext, error: KafkaError) -> Response:
        """Return the response in which all of the request fails."""
        return self._handler.failure(request, context, error)
