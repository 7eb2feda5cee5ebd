"""How fast addresses may connect: the quota `connection_creation_rate` (KIP-612).

A connection above the rate is accepted but never served: it is closed when the address may connect
again, after at most a second, so that its client does not retry at once. It counts for no limit.

Source: `kafka.network.ConnectionQuotas.recordIpConnectionMaybeThrottle`.
"""

from __future__ import annotations

from collections.abc import Callable

from jbodlab.metadata.client_quota import connection_rate, normal_ip
from jbodlab.metadata.image.settings_image import Quotas
from jbodlab.vocabulary.limits import CONNECTION_HELD_S_MAX, CONNECTIONS_KEPT_S, QUOTA_CLIENTS_MAX
from jbodlab.vocabulary.token_bucket import TokenBucket


class ConnectionRate:
    """The connections of each address with a limit; on the event loop.

    Args:
        quotas: Returns the quotas of the metadata.
        now_s: Clock that never goes back.
    """

    def __init__(self, quotas: Callable[[], Quotas], now_s: Callable[[], float]) -> None:
        self._quotas_now = quotas
        self._now_s = now_s
        self._known: Quotas = {}
        self._buckets: dict[str, TokenBucket] = {}

    def made(self, ip: str) -> float:
        """Count a connection of an address.

        Returns:
            For how many seconds to hold it unserved, and then close it; 0 for one to be served.
        """
        quotas = self._quotas_now()
        if not quotas or not ip:
            return 0.0
        if quotas is not self._known or len(self._buckets) > QUOTA_CLIENTS_MAX:
            self._known = quotas
            self._buckets.clear()
        ip = normal_ip(ip)
        rate = connection_rate(quotas, ip)
        if rate is None:
            return 0.0
        now_s = self._now_s()
        bucket = self._buckets.setdefault(ip, TokenBucket.full(rate, CONNECTIONS_KEPT_S, now_s))
        after = bucket.taken(1, now_s)
        debt_s = after.debt_s(now_s)
        if not debt_s:
            self._buckets[ip] = after
        return min(debt_s, CONNECTION_HELD_S_MAX)
