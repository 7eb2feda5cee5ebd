"""Which requests come from brokers that follow."""

from __future__ import annotations

from typing import Any

from broker.metadata_cache import MetadataCache
from broker.replica.client_requests import CONSUMER_ID
from jbodlab.server.answer import RequestContext


def asking_replica(request: Any, context: RequestContext, cache: MetadataCache) -> int:
    """Return the id of the broker that asks as a follower; negative for everybody else.

    Brokers follow by the listener that they find each other at; whoever names an id at another one
    is a consumer. Which process of that broker it is, Fetch tells: see `FetchService`.
    """
    # From version 15 of Fetch on it stands in a tagged field, together with its epoch.
    state = getattr(request, "replica_state", None)
    replica_id: int = getattr(request, "replica_id", -1) if state is None else state.replica_id
    if replica_id >= 0 and not cache.is_for_brokers(context.session.listener_name):
        return CONSUMER_ID
    return replica_id
