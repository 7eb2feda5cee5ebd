"""ReviveLogDir and DescribeLogDirStates: the APIs that jbodlab has in addition to Kafka's.

ApiVersions does not list them, because Kafka's clients and proxies treat an unknown key as an
error. Our tools know the keys.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from broker.api.parts import ApiHandler, serves
from broker.disk.directory import LogDir
from broker.metadata.metadata_cache import MetadataCache
from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.kafka_wire.describe_log_dir_states import DescribeLogDirStatesRequest
from jbodlab.kafka_wire.revive_log_dir import ReviveLogDirRequest
from jbodlab.security.acl import AclOperation
from jbodlab.server.answer import Answer, Handler, Later, RequestContext, in_background
from jbodlab.server.failures import FailsBySchema
from jbodlab.server.resources import on_cluster
from jbodlab.server.response import Response
from jbodlab.server.response_structs import ResponseStructs
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError

REVIVE_LOG_DIR = ResponseStructs(ApiKey.REVIVE_LOG_DIR, 0)
STATES = ResponseStructs(ApiKey.DESCRIBE_LOG_DIR_STATES, 0)


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


@serves(
    ApiKey.REVIVE_LOG_DIR,
    (0, 0),
    on_cluster(AclOperation.ALTER),
    around=lambda parts: partial(BrokersOnly, cache=parts.cache),
)
class ReviveLogDirApi(ApiHandler, FailsBySchema):
    """Brings a repaired directory back online without a restart, though the client goes away."""

    def answer(self, request: ReviveLogDirRequest, context: RequestContext) -> Later:
        """Revive one directory; takes as long as the recovery of its logs."""
        return in_background(self._revive(request.path))

    async def _revive(self, path: str) -> Response:
        revived = await self._parts.revival.revive(path)
        return REVIVE_LOG_DIR.response(directory_id=revived.directory_id, replicas=revived.replicas)


@serves(
    ApiKey.DESCRIBE_LOG_DIR_STATES,
    (0, 0),
    on_cluster(AclOperation.DESCRIBE),
    around=lambda parts: partial(BrokersOnly, cache=parts.cache),
)
class DescribeLogDirStatesApi(ApiHandler, FailsBySchema):
    """Answers from memory: no file is touched, so that a hung disk delays nothing."""

    def answer(self, request: DescribeLogDirStatesRequest, context: RequestContext) -> Response:
        """Describe id, state and conditions of every configured directory."""
        return STATES.response(log_dirs=tuple(map(_entry, self._parts.log_dirs())))


def _entry(log_dir: LogDir) -> Any:
    return STATES.LogDirStateEntry(
        path=str(log_dir.path),
        directory_id=log_dir.directory_id,
        state=log_dir.state.name,
        conditions=log_dir.condition.names if log_dir.is_online else (),
        cause=log_dir.cause,
    )
