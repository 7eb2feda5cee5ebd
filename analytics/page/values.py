"""Values of figures as text: for readers, and exactly, for whoever checks the page."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from html import escape as escape_html

from analytics.page.figure import Unit, Value

NOTHING = "–"  # noqa: RUF001 - a dash for readers, not a minus

DIRECTORIES = frozenset(("directory", "from_directory", "to_directory"))
"""Columns of figures that hold ids of directories."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_STEPS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"))


def escape(text: str) -> str:
    r"""Return text for HTML, in elements and in quoted attributes.

    Control characters are shown as ``\u0000``: a browser would drop or change them, and those for
    the direction of writing could disguise what stands beside them.
    """
    return escape_html(_CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text), quote=True)


def exact(value: Value, unit: Unit) -> str | None:
    """Return the value itself, a time as ISO 8601 with milliseconds; None if it is null."""
    if value is None:
        return None
    if unit is Unit.TIME:
        assert isinstance(value, int)
        return _iso(value)
    return repr(value) if isinstance(value, float) else str(value)


def readable(value: Value, unit: Unit) -> str:
    """Return the value as a reader wants it, with its unit."""
    if value is None:
        return NOTHING
    if isinstance(value, str):
        return value
    match unit:
        case Unit.TIME:
            return _iso(int(value)).replace("T", " ").rstrip("Z")
        case Unit.DURATION:
            return duration_text(int(value))
        case Unit.SHARE:
            return share_text(value)
        case Unit.DEVIATION:
            return f"{100 * value:+.1f} %"
        case Unit.NUMBER:
            return f"{value:,.1f}" if isinstance(value, float) else f"{value:,}"
        case _:
            return str(value)


def with_path(value: Value, column: str, paths: Mapping[str, str]) -> Value:
    """Return a value as it is, but the id of a directory behind its path where that is known."""
    if column not in DIRECTORIES or not isinstance(value, str) or value not in paths:
        return value
    return f"{paths[value]} ({value})"


def duration_text(duration_ms: int) -> str:
    """Return a duration in its two largest units, below a minute in seconds with one digit."""
    if duration_ms < 0:
        return f"-{duration_text(-duration_ms)}"
    if duration_ms < 1000:
        return f"{duration_ms} ms"
    if duration_ms < 59_950:
        return f"{duration_ms / 1000:.1f}".removesuffix(".0") + " s"
    duration_ms = max(duration_ms, 60_000)
    for at, (size, name) in enumerate(_STEPS[:-1]):
        if duration_ms >= size:
            smaller, smaller_name = _STEPS[at + 1]
            rest = duration_ms % size // smaller
            return f"{duration_ms // size} {name}" + (f" {rest} {smaller_name}" if rest else "")
    raise AssertionError(duration_ms)


def share_text(share: float) -> str:
    """Return a share in percent; only what is whole is called 100 %."""
    if share >= 1:
        return f"{100 * share:,.1f}".removesuffix(".0") + " %"
    return f"{min(100 * share, 99.9999):.4f}".rstrip("0").rstrip(".") + " %"


def _iso(time_ms: int) -> str:
    try:
        moment = _EPOCH + timedelta(milliseconds=time_ms)
    except OverflowError:  # a bucket that begins before the first year
        return f"{time_ms} ms"
    return moment.replace(tzinfo=None).isoformat("T", "milliseconds") + "Z"
