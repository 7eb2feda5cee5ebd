"""A token bucket that fills steadily; use beyond the limit leaves a debt, and the client waits.

Source: `org.apache.kafka.common.metrics.stats.TokenBucket`, KIP-599.
"""

from __future__ import annotations

from math import inf

import msgspec
from msgspec.structs import replace

TICK_S = 1e-6
"""A shorter debt is a rounding error; no clock could be waited on for it."""


class TokenBucket(msgspec.Struct, frozen=True, kw_only=True):
    """The tokens left of one limit; a new value for every change.

    Attributes:
        rate: Tokens added per second; at 0 the debt is never paid.
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

    @classmethod
    def empty(cls, rate: float, kept_s: float, now_s: float) -> TokenBucket:
        """Return a bucket without tokens that may keep what comes in `kept_s` seconds."""
        return cls(rate=rate, size=rate * kept_s, tokens=0.0, at_s=now_s)

    def taken(self, amount: float, now_s: float) -> TokenBucket:
        """Return the bucket after an amount is taken, also if it has fewer tokens.

        A negative amount is given back.
        """
        return replace(self, tokens=self.left(now_s) - amount, at_s=now_s)

    def debt_s(self, now_s: float) -> float:
        """Return after how many seconds the debt is paid; 0 without one."""
        if not self.rate:
            return inf
        debt_s = -self.left(now_s) / self.rate
        return debt_s if debt_s > TICK_S else 0.0

    def left(self, now_s: float) -> float:
        """Return the tokens that there are; negative in debt."""
        return min(self.size, self.tokens + (now_s - self.at_s) * self.rate)
