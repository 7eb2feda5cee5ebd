"""The time for which requests occupy the event loop: the quota `request_percentage` of clients.

Requests of followers, and those that other brokers forward, do not count.
"""

from __future__ import annotations

from typing import Any

from broker.api.followers import asking_replica
from broker.clients.client_quotas import ClientQuotas
from broker.metadata.metadata_cache import MetadataCache
from jbodlab.metadata.client_quota import REQUEST_PERCENTAGE
from jbodlab.server.answer import Answer, Later, RequestContext
from jbodlab.server.request_counts import RequestCounts


class RequestQuota:
    """Takes the time of requests from the accounts of clients.

    Args:
        quotas: The accounts.
        cache: Knows followers, and whether there are quotas.
        counts: Has the clock by which requests are timed.
    """

    def __init__(self, quotas: ClientQuotas, cache: MetadataCache, counts: RequestCounts) -> None:
        self._quotas = quotas
        self._cache = cache
        self._counts = counts

    def throttle_ms(
        self, request: Any, context: RequestContext, answer: Answer, begun_s: float
    ) -> int:
        """Return how long a client has to wait; see `jbodlab.server.measured.Throttle`."""
        if not self._cache.image.quotas:
            return 0
        is_forwarded = isinstance(answer, Later) and answer.is_forwarded
        if is_forwarded or asking_replica(request, context, self._cache) >= 0:
            return 0
        return self._quotas.throttle(
            REQUEST_PERCENTAGE,
            context.header.client_id,
            context.session,
            self._counts.now_s() - begun_s,
        )
