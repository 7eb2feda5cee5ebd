"""Sizes as people read them."""

from __future__ import annotations

UNKNOWN = "-"
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def size_text(size_bytes: int | None) -> str:
    """Return a size for people, with binary units; `-` where it is not known."""
    if size_bytes is None or size_bytes < 0:
        return UNKNOWN
    size = float(size_bytes)
    unit = 0
    while size >= 1024 and unit < len(_UNITS) - 1:
        size /= 1024
        unit += 1
    return (
        f"{size:.0f} {_UNITS[unit]}" if unit == 0 or size >= 100 else f"{size:.1f} {_UNITS[unit]}"
    )
