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

from broker.limits import KEPT_MS, WAIT_MIN_MS
from jbodlab.config.key_table import LONG_MAX


class ByteQuota:
    """One account of this broker, for all its throttled replicas.

    Args:
        now_ms: Clock that never goes back.
        rate: Bytes per second.
    """

    def __init__(self, now_ms: Callable[[], int], rate: int = LONG_MAX) -> None:
        self.rate = rate
        self._now_ms = now_ms
        self._filled_ms = now_ms()
        # In thousandths of a byte, so that no rounding adds up.
        self._balance = 0

    @property
    def is_limited(self) -> bool:
        """Whether there is a rate at all."""
        return self.rate < LONG_MAX

    @property
    def is_exceeded(self) -> bool:
        """Whether nothing may be copied now."""
        if not self.is_limited:
            return False
        self._fill()
        return self._balance <= 0

    @property
    def room_bytes(self) -> int:
        """How much may be copied now; at least 1, as a batch is never cut."""
        if not self.is_limited:
            return LONG_MAX
        self._fill()
        return max(self._balance // 1000, 1)

    @property
    def wait_ms(self) -> int:
        """How long to wait until something worth an answer may be copied."""
        if not self.is_exceeded:
            return 0
        if self.rate == 0:
            return KEPT_MS
        return max(WAIT_MIN_MS, min(KEPT_MS, -self._balance // self.rate))

    def set_rate(self, rate: int) -> None:
        """Change the rate; debts are forgotten."""
        if rate != self.rate:
            self.rate = rate
            self._filled_ms = self._now_ms()
            self._balance = 0

    def record(self, size_bytes: int) -> None:
        """Count bytes; negative ones give back what was counted before it was known."""
        if self.is_limited:
            self._fill()
            self._balance -= size_bytes * 1000

    def _fill(self) -> None:
        now_ms = self._now_ms()
        self._balance += (now_ms - self._filled_ms) * self.rate
        self._balance = min(self._balance, KEPT_MS * self.rate)
        self._filled_ms = now_ms


class ReplicationQuotas(msgspec.Struct, frozen=True):
    """What leaders here may send, and what followers here may fetch."""

    leader: ByteQuota
    follower: ByteQuota

    @classmethod
    def unlimited(cls, now_ms: Callable[[], int]) -> ReplicationQuotas:
        """Return quotas without a rate."""
        return cls(ByteQuota(now_ms), ByteQuota(now_ms))
