"""Limits the rate at which throttled replicas are copied between brokers.

A quota is an account: it fills with the rate, and every byte is deducted. While it is empty,
nothing is sent or requested. One response may overdraw it, because batches are sent whole; the next
ones then wait. So the average rate is met for any batch size. Unused bytes expire after a moment.

Only replicas that are not in sync are throttled; the bytes of all throttled replicas count.

Source: KIP-73, `kafka.server.ReplicationQuotaManager`.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from broker.bounds.limits import KEPT_MS, WAIT_MIN_MS
from jbodlab.config.key_table import LONG_MAX
from jbodlab.vocabulary.token_bucket import TokenBucket


class ByteQuota:
    """One account of this broker, for all its throttled replicas.

    Args:
        now_ms: Clock that never goes back.
        rate: Bytes per second.
    """

    def __init__(self, now_ms: Callable[[], int], rate: int = LONG_MAX) -> None:
        self.rate = rate
        self._now_ms = now_ms
        self._bucket = self._empty()

    @property
    def is_limited(self) -> bool:
        """Whether there is a rate at all."""
        return self.rate < LONG_MAX

    @property
    def is_exceeded(self) -> bool:
        """Whether nothing may be copied now."""
        return self.is_limited and self._bucket.left(self._now_s()) <= 0

    @property
    def room_bytes(self) -> int:
        """How much may be copied now; at least 1, as a batch is never cut."""
        return max(int(self._bucket.left(self._now_s())), 1) if self.is_limited else LONG_MAX

    @property
    def wait_ms(self) -> int:
        """How long to wait until something worth an answer may be copied."""
        if not self.is_exceeded:
            return 0
        return max(WAIT_MIN_MS, int(min(KEPT_MS, self._bucket.debt_s(self._now_s()) * 1000)))

    def set_rate(self, rate: int) -> None:
        """Change the rate; debts are forgotten."""
        if rate != self.rate:
            self.rate = rate
            self._bucket = self._empty()

    def record(self, size_bytes: int) -> None:
        """Count bytes; negative ones give back what was counted before it was known."""
        if self.is_limited:
            self._bucket = self._bucket.taken(size_bytes, self._now_s())

    def _empty(self) -> TokenBucket:
        return TokenBucket.empty(self.rate, KEPT_MS / 1000, self._now_s())

    def _now_s(self) -> float:
        return self._now_ms() / 1000


class ReplicationQuotas(msgspec.Struct, frozen=True):
    """Rates at which leaders here may send, and followers here may fetch."""

    leader: ByteQuota
    follower: ByteQuota

    @classmethod
    def unlimited(cls, now_ms: Callable[[], int]) -> ReplicationQuotas:
        """Return quotas without a rate."""
        return cls(ByteQuota(now_ms), ByteQuota(now_ms))
