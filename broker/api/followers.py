"""Which requests come from brokers that follow.

A broker is believed to be the one that its requests name if it has the user of that one, be it from
its certificate or from its login (`jbodlab.broker.principal`). Where brokers have no users of their
own, whoever has the right to CLUSTER_ACTION may be any of them, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from broker.fetch.fetch_requests import CONSUMER_ID
from broker.metadata.metadata_cache import MetadataCache
from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.security.acl import AclOperation, ResourceType
from jbodlab.server.answer import Answer, Handler, RequestContext
from jbodlab.server.api import Api
from jbodlab.server.resources import Resource, on_cluster
from jbodlab.server.response import Response
from jbodlab.server.rights import DeniedError
from jbodlab.vocabulary.errors import KafkaError

OF_FOLLOWERS = frozenset({ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.OFFSET_FOR_LEADER_EPOCH})
"""APIs whose requests may name the broker that asks."""


def named_replica(request: Any) -> int:
    """Return the id of the broker that a request says to come from; negative if it does not."""
    # Since version 15 of Fetch the id is in a tagged field, together with its epoch.
    state = getattr(request, "replica_state", None)
    replica_id: int = getattr(request, "replica_id", -1) if state is None else state.replica_id
    return replica_id


def by_follower(request: Any) -> Iterable[Resource]:
    """Return the cluster for who asks as a follower: only a broker may."""
    return on_cluster(AclOperation.CLUSTER_ACTION)(request) if named_replica(request) >= 0 else ()


def asking_replica(request: Any, context: RequestContext, cache: MetadataCache) -> int:
    """Return the id of the broker that asks as a follower; negative for everybody else.

    Followers use the listener of the brokers; a client that names an id at another listener is a
    consumer. Fetch checks which process of that broker asks: see `FetchService`.
    """
    replica_id = named_replica(request)
    if replica_id >= 0 and not cache.is_for_brokers(context.session.listener_name):
        return CONSUMER_ID
    return replica_id


def known_followers(
    api: Api[Any], handler: Handler, name_for: Callable[[int], str], cache: MetadataCache
) -> Handler:
    """Return the handler of an API, which refuses brokers that name another one's id."""
    return KnownFollowers(handler, name_for, cache) if api.key in OF_FOLLOWERS else handler


class KnownFollowers:
    """The handler of an API for followers that are who they say to be.

    Args:
        handler: Answers them.
        name_for: Tells the user of a broker by its id.
        cache: Knows the listener of the brokers.
    """

    def __init__(
        self, handler: Handler, name_for: Callable[[int], str], cache: MetadataCache
    ) -> None:
        self._handler = handler
        self._name_for = name_for
        self._cache = cache

    def answer(self, request: Any, context: RequestContext) -> Answer:
        """Answer a request; see `Handler`."""
        broker_id = asking_replica(request, context, self._cache)
        if broker_id >= 0 and context.session.user != self._name_for(broker_id):
            raise DeniedError(ResourceType.CLUSTER)
        return self._handler.answer(request, context)

    def failure(self, request: Any, context: RequestContext, error: KafkaError) -> Response:
        """Return the response in which every part of the request fails."""
        tell = self._handler.failure
        if isinstance(error, DeniedError):
            tell = getattr(self._handler, "refused", tell)
        response: Response = tell(request, context, error)
        return response
