"""A token bucket that fills steadily; use beyond the limit leaves a debt, and the client waits.

Source: `org.apache.kafka.common.metrics.stats.TokenBucket`, KIP-599.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace


class TokenBucket(msgspec.Struct, frozen=True, kw_only=True):
    """The tokens left of one limit; a new value for every change.

    Attributes:
        rate: Tokens added per second; more than 0.
        size: Most tokens that the bucket keeps.
        tokens: Tokens at `at_s`; negative in debt.
        at_s: Seconds of any clock that advances steadily.
    """

    rate: float
    size: float
    tokens: float
    at_s: float

    @classmethod
    def full(cls, rate: float, kept_s: float, now_s: float) -> TokenBucket:
        """Return a full bucket; its size is the tokens of `kept_s` seconds."""
        return cls(rate=rate, size=rate * kept_s, tokens=rate * kept_s, at_s=now_s)

    def taken(self, amount: float, now_s: float) -> TokenBucket:
        """Return the bucket after an amount is taken, also if it has fewer tokens."""
        return replace(self, tokens=self._tokens(now_s) - amount, at_s=now_s)

    def debt_s(self, now_s: float) -> float:
        """Return after how many seconds the debt is paid; 0 without one."""
        return max(0.0, -self._tokens(now_s) / self.rate)

    def _tokens(self, now_s: float) -> float:
        return min(self.size, self.tokens + (now_s - self.at_s) * self.rate)
