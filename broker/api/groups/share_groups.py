"""ShareGroupHeartbeat: refused, as by a Kafka whose feature `share.version` is 0.

It is advertised all the same, so that a share consumer ends with an error that names the cause
(`broker.clients.client_behaviour`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from broker.api.groups.find_coordinator import NO_SHARE_GROUPS
from broker.api.parts import ApiHandler, serves
from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.security.acl import AclOperation
from jbodlab.server.answer import RequestContext
from jbodlab.server.failures import FailsBySchema
from jbodlab.server.resources import on_group
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError

if TYPE_CHECKING:
    from kio.schema.share_group_heartbeat.v1.request import ShareGroupHeartbeatRequest


@serves(ApiKey.SHARE_GROUP_HEARTBEAT, (1, 1), on_group(AclOperation.READ))
class ShareGroupHeartbeatApi(ApiHandler, FailsBySchema):
    """Takes no members."""

    def answer(self, request: ShareGroupHeartbeatRequest, context: RequestContext) -> NoReturn:
        """Refuse."""
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, NO_SHARE_GROUPS)
