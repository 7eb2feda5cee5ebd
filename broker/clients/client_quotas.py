"""Quotas of clients: accounts of bytes and of time, and how long a client is muted.

An account fills with its limit and every byte, or second of the event loop, is taken from it. A
balance below 0 is told to the client as throttle time, and no further request of its connection is
started until then. A second's worth is kept for later.

Kafka measures a rate over eleven windows of a second; on average both let the same pass.

Source: `kafka.server.ClientQuotaManager`, KIP-13, KIP-124, KIP-219.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from jbodlab.metadata import client_quota
from jbodlab.metadata.client_quota import REQUEST_PERCENTAGE
from jbodlab.metadata.image.settings_image import Quotas
from jbodlab.server.session import Session
from jbodlab.vocabulary.limits import QUOTA_CLIENTS_MAX
from jbodlab.vocabulary.token_bucket import TokenBucket

KEPT_S = 1.0
THROTTLE_MAX_MS = 10_000
"""Longest time that a client is told at once; what is left over follows with its next request."""

_Account = tuple[str, tuple[str, ...]]
"""Which quota, and who shares it."""


class ClientQuotas:
    """The accounts of one broker's clients; on the event loop.

    Args:
        quotas: Returns the quotas of the metadata.
    """

    def __init__(self, quotas: Callable[[], Quotas]) -> None:
        self._quotas_now = quotas
        self._known: Quotas = {}
        self._of_client: dict[tuple[str, str, str], _Account | None] = {}
        self._buckets: dict[_Account, TokenBucket] = {}

    def throttle(self, key: str, client_id: str | None, session: Session, amount: float) -> int:
        """Take what a client used from its account, and mute its connection while that is in debt.

        Args:
            key: Which quota.
            client_id: The client's name for itself.
            session: Of the connection that it came from.
            amount: Bytes, or seconds of the event loop.

        Returns:
            For how many ms.
        """
        quotas = self._quotas_now()
        if not quotas:
            return 0
        if quotas is not self._known or len(self._of_client) > QUOTA_CLIENTS_MAX:
            self._known = quotas
            self._of_client.clear()
            self._buckets.clear()
        now_s = asyncio.get_running_loop().time()
        account = self._account(key, session.user, client_id or "", now_s)
        if account is None:
            return 0
        bucket = self._buckets[account] = self._buckets[account].taken(amount, now_s)
        return muted(session, int(bucket.debt_s(now_s) * 1_000))

    def _account(self, key: str, user: str, client_id: str, now_s: float) -> _Account | None:
        if (key, user, client_id) in self._of_client:
            return self._of_client[key, user, client_id]
        found = client_quota.quota_of(self._known, key, user, client_id)
        account = None
        if found is not None:
            limit, shared_by = found
            if key == REQUEST_PERCENTAGE:
                limit /= 100
            account = key, shared_by
            self._buckets.setdefault(account, TokenBucket.full(limit, KEPT_S, now_s))
        self._of_client[key, user, client_id] = account
        return account


def muted(session: Session, wait_ms: int) -> int:
    """Start no further request of a connection for so long; returns for how many ms."""
    wait_ms = min(THROTTLE_MAX_MS, wait_ms)
    if wait_ms:
        until_s = asyncio.get_running_loop().time() + wait_ms / 1_000
        session.muted_until_s = max(session.muted_until_s, until_s)
    return wait_ms
