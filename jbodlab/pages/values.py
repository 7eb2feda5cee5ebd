"""Columns of tables, and their values as text: for readers, and exactly, for the page's script."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum

from jbodlab.vocabulary.durations import duration_text

Value = str | int | float | None

NOTHING = "–"  # noqa: RUF001 - a dash for readers, not a minus

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]")


class Unit(Enum):
    """Units of the values of a column, and how they are carried.

    Times are milliseconds since 1970, elapsed times milliseconds since the start of a run,
    durations milliseconds, shares are 0 to 1, days ISO dates.
    """

    TEXT = "text"
    ID = "id"
    NUMBER = "number"
    """A count of something."""
    LABEL = "label"
    """A number that names something: a broker, an epoch, an offset."""
    TIME = "time"
    ELAPSED = "elapsed"
    DURATION = "duration"
    SHARE = "share"
    DEVIATION = "deviation"
    DAY = "day"


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a table; `title` is what a reader sees."""

    name: str
    title: str
    unit: Unit


def visible(text: str) -> str:
    r"""Return text whose control characters are shown as ``\u0000``.

    A browser would drop or change them, and those for the direction of writing could disguise the
    text beside them.
    """
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


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
        case Unit.ELAPSED:
            return f"{value / 1000:.3f} s"
        case Unit.DURATION:
            return duration_text(value / 1000)
        case Unit.SHARE:
            return share_text(value)
        case Unit.DEVIATION:
            return f"{100 * value:+.1f} %"
        case Unit.NUMBER:
            return f"{value:,.1f}" if isinstance(value, float) else f"{value:,}"
        case _:
            return str(value)


def with_path(value: Value, unit: Unit, paths: Mapping[str, str]) -> Value:
    """Return a value as it is, but the id of a directory behind its path where that is known."""
    if unit is not Unit.ID or not isinstance(value, str) or value not in paths:
        return value
    return f"{paths[value]} ({value})"


def share_text(share: float) -> str:
    """Return a share in percent; only the whole is 100 %."""
    if share >= 1:
        return f"{100 * share:,.1f}".removesuffix(".0") + " %"
    return f"{min(100 * share, 99.9999):.4f}".rstrip("0").rstrip(".") + " %"


def _iso(time_ms: int) -> str:
    try:
        moment = _EPOCH + timedelta(milliseconds=time_ms)
    except OverflowError:  # a bucket that begins before the first year
        return f"{time_ms} ms"
    return moment.replace(tzinfo=None).isoformat("T", "milliseconds") + "Z"
