"""Which requests come from brokers that follow."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from broker.metadata_cache import MetadataCache
from broker.replica.client_requests import CONSUMER_ID
from jbodlab.security.acl import AclOperation
from jbodlab.server.answer import RequestContext
from jbodlab.server.resources import Resource, on_cluster


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
