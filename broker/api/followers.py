"""Which requests come from brokers that follow."""

from __future__ import annotations

from typing import Any

from broker.metadata_cache import MetadataCache
from broker.replica.client_requests import CONSUMER_ID
from jbodlab.server.answer import RequestContext


def asking_replica(request: Any, context: RequestContext, cache: MetadataCache) -> int:
    """Return the id of the broker that asks as a follower; negative for everybody else.

    Followers use the listener of the brokers; a client that names an id at another listener is a
    consumer. Fetch checks which process of that broker asks: see `FetchService`.
    """
    # Since version 15 of Fetch the id is in a tagged field, together with its epoch.
    state = getattr(request, "replica_state", None)
    replica_id: int = getattr(request, "replica_id", -1) if state is None else state.replica_id
    if replica_id >= 0 and not cache.is_for_brokers(context.session.listener_name):
        return CONSUMER_ID
    return replica_id
