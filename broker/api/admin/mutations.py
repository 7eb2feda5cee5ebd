"""Whose `controller_mutation_rate` partitions count for, and how long it waits (KIP-599)."""

from __future__ import annotations

import datetime

from broker.client_quotas import muted
from jbodlab.controller_api.requests import Mutator
from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.server.answer import RequestContext

STRICT_FROM: dict[int, int] = {
    ApiKey.CREATE_TOPICS: 6,
    ApiKey.DELETE_TOPICS: 5,
    ApiKey.CREATE_PARTITIONS: 3,
}
"""First versions whose clients know THROTTLING_QUOTA_EXCEEDED."""


def mutator(context: RequestContext) -> Mutator:
    """Return who sent a request of these APIs."""
    header = context.header
    return Mutator(
        client_id=header.client_id or "",
        is_strict=header.api_version >= STRICT_FROM[header.api_key],
    )


def told_to_wait(context: RequestContext, throttle_time_ms: int) -> datetime.timedelta:
    """Mute a connection for as long as the controller says; returns what to tell the client."""
    return datetime.timedelta(milliseconds=muted(context.session, throttle_time_ms))
