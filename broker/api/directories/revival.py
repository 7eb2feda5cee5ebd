"""ReviveLogDir: brings a repaired log directory back online without a restart."""

from __future__ import annotations

from broker.api.directories.brokers_only import BrokersOnly
from broker.api.parts import ApiHandler, ApiParts
from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.kafka_wire.revive_log_dir import ReviveLogDirRequest
from jbodlab.security.acl import AclOperation
from jbodlab.server.answer import Later, RequestContext, in_background
from jbodlab.server.api import Api
from jbodlab.server.failures import FailsBySchema
from jbodlab.server.resources import on_cluster
from jbodlab.server.response import Response
from jbodlab.server.response_structs import ResponseStructs

REVIVE_LOG_DIR = ResponseStructs(ApiKey.REVIVE_LOG_DIR, 0)


class ReviveLogDirApi(ApiHandler, FailsBySchema):
    """Asks the revival; it goes on although the client may not wait for its end."""

    def answer(self, request: ReviveLogDirRequest, context: RequestContext) -> Later:
        """Revive one directory; takes as long as the recovery of its logs."""
        return in_background(self._revive(request.path))

    async def _revive(self, path: str) -> Response:
        revived = await self._parts.revival.revive(path)
        return REVIVE_LOG_DIR.response(directory_id=revived.directory_id, replicas=revived.replicas)


APIS: tuple[Api[ApiParts], ...] = (
    Api(
        key=ApiKey.REVIVE_LOG_DIR,
        versions=(0, 0),
        resources=on_cluster(AclOperation.ALTER),
        handler=lambda parts: BrokersOnly(ReviveLogDirApi(parts), parts.cache),
    ),
)
