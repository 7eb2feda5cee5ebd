"""The quotas of clients: for whom they are, what they limit, and which of them counts.

Source: `org.apache.kafka.server.config.QuotaConfig`, `kafka.server.ClientQuotaManager`, KIP-55,
KIP-124, KIP-257.
"""

from __future__ import annotations

from collections.abc import Iterator

from jbodlab.image.settings_image import QuotaEntities, Quotas

USER, CLIENT_ID, IP = "user", "client-id", "ip"
"""Types of entities."""

PRODUCER_RATE = "producer_byte_rate"
CONSUMER_RATE = "consumer_byte_rate"
REQUEST_PERCENTAGE = "request_percentage"

ENFORCED = frozenset({PRODUCER_RATE, CONSUMER_RATE, REQUEST_PERCENTAGE})
WHOLE = frozenset({PRODUCER_RATE, CONSUMER_RATE})
"""Quotas without fractions: bytes in a second."""


def quota_of(
    quotas: Quotas, key: str, user: str, client_id: str
) -> tuple[float, tuple[str, ...]] | None:
    """Return the limit of a client, and who shares it; None without a limit.

    Of those that match the most precise counts. A default gives each user, or client, that it
    covers a limit of its own.
    """
    for entities, shared_by in _candidates(user, client_id):
        value = quotas.get(entities, {}).get(key)
        if value is not None:
            return value, shared_by
    return None


def _candidates(user: str, client_id: str) -> Iterator[tuple[QuotaEntities, tuple[str, ...]]]:
    for user_name in (user, None):
        for client_name in (client_id, None):
            yield (
                frozenset({(USER, user_name), (CLIENT_ID, client_name)}),
                (USER, user, CLIENT_ID, client_id),
            )
        yield frozenset({(USER, user_name)}), (USER, user)
    for client_name in (client_id, None):
        yield frozenset({(CLIENT_ID, client_name)}), (CLIENT_ID, client_id)
