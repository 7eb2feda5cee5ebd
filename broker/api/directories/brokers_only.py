"""Rights to the APIs that jbodlab has in addition to Kafka's.

ApiVersions does not list them, because Kafka's clients and proxies treat an unknown key as an
error. Our tools know the keys.
"""

from __future__ import annotations

from typing import Any

from broker.metadata.metadata_cache import MetadataCache
from jbodlab.server.answer import Answer, Handler, RequestContext
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError


class BrokersOnly:
    """An API that is served at the listener of `inter.broker.listener.name` only.

    Args:
        api: Answers there.
        cache: Knows that listener. Where a broker has one listener for all, it is that one.
    """

    def __init__(self, api: Handler, cache: MetadataCache) -> None:
        self._api = api
        self.failure = api.failure
        self._cache = cache

    def answer(self, request: Any, context: RequestContext) -> Answer:
        """Answer a request, or refuse it; see `Handler`."""
        self._check(context)
        return self._api.answer(request, context)

    def _check(self, context: RequestContext) -> None:
        """Raise CLUSTER_AUTHORIZATION_FAILED for whoever may not use our own APIs."""
        if not self._cache.is_for_brokers(context.listener_name):
            raise KafkaError(
                ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
                f"listener {context.listener_name} does not serve this request; use the listener "
                "of inter.broker.listener.name",
            )
