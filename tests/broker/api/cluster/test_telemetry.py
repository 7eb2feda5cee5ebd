"""The metrics of clients, from the request to what the broker shows."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from kio.schema.get_telemetry_subscriptions.v0.request import GetTelemetrySubscriptionsRequest
from kio.schema.push_telemetry.v0.request import PushTelemetryRequest

from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.vocabulary.error_code import ErrorCode
from tests.broker.telemetry.metrics_data import gauge


async def push(client: Any, subscription_id: int) -> ErrorCode:
    request = PushTelemetryRequest(
        client_instance_id=UUID(int=7),
        subscription_id=subscription_id,  # type: ignore[arg-type]
        terminating=False,
        compression_type=0,  # type: ignore[arg-type]
        metrics=gauge("a", 1),
    )
    answer = await client.call(ApiKey.PUSH_TELEMETRY, 0, request)
    return ErrorCode(int(answer.error_code))


async def test_client_asks_for_its_subscription_and_pushes(client: Any) -> None:
    asked = await client.call(
        ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
        0,
        GetTelemetrySubscriptionsRequest(client_instance_id=None),
    )
    assert asked.error_code == ErrorCode.NONE
    assert (asked.client_instance_id, asked.requested_metrics) == (UUID(int=7), ())
    assert asked.push_interval.total_seconds() == 300
    assert tuple(asked.accepted_compression_types) == (4, 3, 1, 2)
    assert asked.telemetry_max_bytes == 1 << 20

    assert await push(client, asked.subscription_id + 1) is ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    assert await push(client, asked.subscription_id) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
