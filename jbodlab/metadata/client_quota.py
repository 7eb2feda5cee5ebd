"""Client quotas: their entities, their limits, and which quota applies to a client.

Source: `org.apache.kafka.server.config.QuotaConfig`, `kafka.server.ClientQuotaManager`, KIP-55,
KIP-124, KIP-257, KIP-599, KIP-612.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from jbodlab.metadata.image.settings_image import QuotaEntities, Quotas

USER, CLIENT_ID, IP = "user", "client-id", "ip"
"""Types of entities."""

PRODUCER_RATE = "producer_byte_rate"
CONSUMER_RATE = "consumer_byte_rate"
REQUEST_PERCENTAGE = "request_percentage"
MUTATION_RATE = "controller_mutation_rate"
CONNECTION_RATE = "connection_creation_rate"

OF_CLIENTS = frozenset({PRODUCER_RATE, CONSUMER_RATE, REQUEST_PERCENTAGE, MUTATION_RATE})
"""Quotas of users, of client ids, and of both together."""
OF_IPS = frozenset({CONNECTION_RATE})
WHOLE = frozenset({PRODUCER_RATE, CONSUMER_RATE, CONNECTION_RATE})
"""Quotas without fractions: bytes, or connections, in a second."""


def quota_of(
    quotas: Quotas, key: str, user: str, client_id: str
) -> tuple[float, tuple[str, ...]] | None:
    """Return the limit of a client, and the names that share it; None without a limit.

    The most precise of the matching quotas applies. A default quota gives a separate limit to each
    user, or client, that it covers.
    """
    for entities, shared_by in _candidates(user, client_id):
        value = quotas.get(entities, {}).get(key)
        if value is not None:
            return value, shared_by
    return None


def connection_rate(quotas: Quotas, ip: str) -> float | None:
    """Return how many connections an address may make in a second; None without a limit.

    Args:
        quotas: All of the metadata.
        ip: The address, in the form of `normal_ip`.
    """
    for name in (ip, None):
        value = quotas.get(frozenset({(IP, name)}), {}).get(CONNECTION_RATE)
        if value is not None:
            return value
    return None


def normal_ip(text: str) -> str:
    """Return the one form of an address that quotas are kept under; raises ValueError if none."""
    address = ipaddress.ip_address(text)
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)


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
