"""GetTelemetrySubscriptions and PushTelemetry: the metrics of clients (KIP-714)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.api.parts import ApiHandler, serves
from broker.telemetry.clients import CODECS
from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.server.answer import MILLISECOND, RequestContext
from jbodlab.server.failures import FailsBySchema
from jbodlab.server.resources import nothing
from jbodlab.server.response import Response
from jbodlab.server.response_structs import ResponseStructs

if TYPE_CHECKING:
    from kio.schema.get_telemetry_subscriptions.v0.request import GetTelemetrySubscriptionsRequest
    from kio.schema.push_telemetry.v0.request import PushTelemetryRequest

GET_TELEMETRY_SUBSCRIPTIONS = ResponseStructs(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, 0)
PUSH_TELEMETRY = ResponseStructs(ApiKey.PUSH_TELEMETRY, 0)


@serves(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, (0, 0), nothing)
class GetTelemetrySubscriptionsApi(ApiHandler, FailsBySchema):
    """Tells clients what to push."""

    def answer(
        self, request: GetTelemetrySubscriptionsRequest, context: RequestContext
    ) -> Response:
        """Return the subscription of a client."""
        instance_id, asked = self._parts.telemetry.get(
            request.client_instance_id, attributes(context)
        )
        return GET_TELEMETRY_SUBSCRIPTIONS.response(
            client_instance_id=instance_id,
            subscription_id=asked.subscription_id,
            push_interval=asked.interval_ms * MILLISECOND,
            telemetry_max_bytes=self._parts.telemetry.bytes_max,
            requested_metrics=asked.metrics,
            accepted_compression_types=CODECS,
            # Sums since the start of the client, as counters of Prometheus are.
            delta_temporality=False,
        )


@serves(ApiKey.PUSH_TELEMETRY, (0, 0), nothing)
class PushTelemetryApi(ApiHandler, FailsBySchema):
    """Takes what clients push."""

    def answer(self, request: PushTelemetryRequest, context: RequestContext) -> Response:
        """Take the metrics of a client."""
        self._parts.telemetry.push(
            request.client_instance_id,
            attributes(context),
            request.subscription_id,
            request.compression_type,
            request.metrics,
            is_terminating=request.terminating,
        )
        return PUSH_TELEMETRY.response()


def attributes(context: RequestContext) -> dict[str, str]:
    """Return what subscriptions choose clients by."""
    session = context.session
    address, _, port = session.peer.rpartition(":")
    return {
        "client_id": context.header.client_id or "",
        "client_software_name": session.software_name,
        "client_software_version": session.software_version,
        "client_source_address": address,
        "client_source_port": port,
    }
