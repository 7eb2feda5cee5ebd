"""ShareGroupHeartbeat: refused, as by a Kafka whose feature `share.version` is 0.

It is advertised all the same. A share consumer of librdkafka that does not find it asks for its
coordinator again, for ever and in silence; the answer ends it with an error that names the cause.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.api.answer import RequestContext
from broker.api.groups.consumer_groups import ConsumerGroupHeartbeatResponse
from broker.api.groups.find_coordinator import NO_SHARE_GROUPS
from jbodlab.error_code import ErrorCode
from jbodlab.errors import KafkaError

if TYPE_CHECKING:
    from kio.schema.share_group_heartbeat.v1.request import ShareGroupHeartbeatRequest


class ShareGroupHeartbeatApi:
    """Takes no members."""

    def answer(
        self, request: ShareGroupHeartbeatRequest, context: RequestContext
    ) -> ConsumerGroupHeartbeatResponse:
        """Refuse."""
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, NO_SHARE_GROUPS)

    def failure(
        self, request: ShareGroupHeartbeatRequest, context: RequestContext, error: KafkaError
    ) -> ConsumerGroupHeartbeatResponse:
        """Return the error; the fields are those of a consumer group's heartbeat."""
        return ConsumerGroupHeartbeatResponse(
            error_code=error.code, error_message=error.message or None
        )
