"""Rates as a plan writes them, and how values are shown."""

from __future__ import annotations

import contextlib
import re

from fault_injection.kinds import size_bytes
from jbodlab.vocabulary.durations import duration_text
from jbodlab.vocabulary.expressions import MetricUnit

RATE_EXAMPLES = "500/s or 2MiB/s"
_NUMBER = re.compile(r"\d+(?:\.\d+)?")


def parse_rate(text: str, message_bytes: int) -> float:
    """Return messages for each second.

    Args:
        text: A number of messages or a size, then `/s`.
        message_bytes: Size of a message, for rates in bytes.

    Raises:
        ValueError: it is no rate.
    """
    amount = text.removesuffix("/s")
    if amount != text and _NUMBER.fullmatch(amount):
        return float(amount)
    with contextlib.suppress(ValueError):
        if amount != text:
            return size_bytes(amount) / message_bytes
    raise ValueError(f"{text!r} is not a rate, such as {RATE_EXAMPLES}")


def show(number: float, unit: MetricUnit) -> str:
    """Return a value as a person reads it."""
    if unit is MetricUnit.DURATION:
        return duration_text(number)
    if unit is MetricUnit.SHARE:
        return f"{number * 100:.3f}".rstrip("0").rstrip(".") + " %"
    return f"{number:g}" if number < 1e6 else f"{number:.0f}"
