"""What clients may send, fetch and keep busy: accounts, and who is muted for how long.

An account fills with its limit and every byte, or second of the event loop, is taken from it. What
goes below nothing is told to the client as throttle time, and no further request of its connection
is started until then. A second's worth is kept for later.

Kafka measures a rate over eleven windows of a second; on average both let the same pass.

Source: `kafka.server.ClientQuotaManager`, KIP-13, KIP-124, KIP-219.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from broker.api.request_handler import ConnectionInfo
from jbodlab import client_quota
from jbodlab.client_quota import REQUEST_PERCENTAGE
from jbodlab.image.settings_image import Quotas

ANONYMOUS = "ANONYMOUS"
"""The user of every client: there is no authentication."""

KEPT_S = 1.0
THROTTLE_MAX_MS = 10_000
"""Longest time that a client is told at once; what is left over follows with its next request."""

CLIENTS_MAX = 10_000
"""Clients that are remembered; with more all begin anew."""


class _Account:
    """What is left of one limit."""

    def __init__(self, limit: float, now_s: float) -> None:
        self._limit = limit
        self._balance = limit * KEPT_S
        self._filled_s = now_s

    def take(self, amount: float, now_s: float) -> float:
        """Take an amount; returns after how many seconds the account is not in debt any more."""
        filled = self._balance + (now_s - self._filled_s) * self._limit
        self._balance = min(filled, self._limit * KEPT_S) - amount
        self._filled_s = now_s
        return max(0.0, -self._balance / self._limit)


class ClientQuotas:
    """The accounts of one broker's clients; on the event loop.

    Args:
        quotas: Returns the quotas of the metadata.
    """

    def __init__(self, quotas: Callable[[], Quotas]) -> None:
        self._quotas_now = quotas
        self._known: Quotas = {}
        self._of_client: dict[tuple[str, str], _Account | None] = {}
        self._accounts: dict[tuple[str, tuple[str, ...]], _Account] = {}

    def throttle(
        self, key: str, client_id: str | None, connection: ConnectionInfo, amount: float
    ) -> int:
        """Take what a client used from its account, and mute its connection while that is in debt.

        Args:
            key: Which quota.
            client_id: The client's name for itself.
            connection: Where it came from.
            amount: Bytes, or seconds of the event loop.

        Returns:
            For how many ms.
        """
        quotas = self._quotas_now()
        if not quotas:
            return 0
        if quotas is not self._known or len(self._of_client) > CLIENTS_MAX:
            self._known = quotas
            self._of_client.clear()
            self._accounts.clear()
        now_s = asyncio.get_running_loop().time()
        account = self._account(key, client_id or "", now_s)
        if account is None:
            return 0
        wait_ms = min(THROTTLE_MAX_MS, int(account.take(amount, now_s) * 1_000))
        if wait_ms:
            mute = connection.mute
            mute.until_s = max(mute.until_s, now_s + wait_ms / 1_000)
        return wait_ms

    def _account(self, key: str, client_id: str, now_s: float) -> _Account | None:
        if (key, client_id) in self._of_client:
            return self._of_client[key, client_id]
        found = client_quota.quota_of(self._known, key, ANONYMOUS, client_id)
        account = None
        if found is not None:
            limit, shared_by = found
            if key == REQUEST_PERCENTAGE:
                limit /= 100
            account = self._accounts.setdefault((key, shared_by), _Account(limit, now_s))
        self._of_client[key, client_id] = account
        return account
