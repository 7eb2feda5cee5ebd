"""Durations as people write them: in plans, in faults and in conditions."""

from __future__ import annotations

import math
import re

_AMOUNT = r"(\d+(?:\.\d+)?)"
_DURATION = re.compile(
    rf"(?:{_AMOUNT}d)?(?:{_AMOUNT}h)?(?:{_AMOUNT}(?:min|m(?!s)))?(?:{_AMOUNT}s)?(?:{_AMOUNT}ms)?"
)
_SECONDS = (86_400, 3600, 60, 1, 0.001)


def duration_s(value: object) -> float:
    """Return the seconds of a duration.

    Args:
        value: `250ms`, `2s`, `5m` or `5min`, `1h`, `7d`, several from the largest unit to the
            smallest as `1m30s`, or a number of seconds.

    Raises:
        ValueError: it is not a duration.
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        if math.isfinite(value) and value >= 0:
            return float(value)
    elif isinstance(value, str) and value and (match := _DURATION.fullmatch(value)):
        amounts = zip(match.groups(), _SECONDS, strict=True)
        return math.fsum(float(amount) * seconds for amount, seconds in amounts if amount)
    raise ValueError(f"expected a duration such as 250ms, 20s or 1m30s, got {value!r}")
