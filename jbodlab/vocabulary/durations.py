"""Durations as people write them: in plans, in faults and in conditions."""

from __future__ import annotations

import math
import re

_AMOUNT = r"(\d+(?:\.\d+)?)"
_DURATION = re.compile(
    rf"(?:{_AMOUNT}d)?(?:{_AMOUNT}h)?(?:{_AMOUNT}(?:min|m(?!s)))?(?:{_AMOUNT}s)?(?:{_AMOUNT}ms)?"
)
_SECONDS = (86_400, 3600, 60, 1, 0.001)
_NAMES = ("d", "h", "min", "s")


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


def duration_text(seconds: float) -> str:
    """Return a duration as people write it: 34 ms, 9.5 s, 3 min 20 s, 2 h 3 min; inf is never."""
    if seconds == math.inf:
        return "never"
    if seconds < 0:
        return f"-{duration_text(-seconds)}"
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f}".removesuffix(".0") + " s"
    whole = max(60, int(seconds))
    at = next(at for at, size in enumerate(_SECONDS) if whole >= size)
    large, rest = divmod(whole, int(_SECONDS[at]))
    small = rest // int(_SECONDS[at + 1])
    return f"{large} {_NAMES[at]}" + (f" {small} {_NAMES[at + 1]}" if small else "")
