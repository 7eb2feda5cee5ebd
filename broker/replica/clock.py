"""The clocks that replicas use."""

from __future__ import annotations

from collections.abc import Callable

import msgspec


class Clock(msgspec.Struct, frozen=True, kw_only=True):
    """Monotonic and wall clock, both in ms."""

    now_ms: Callable[[], int]
    wall_ms: Callable[[], int]
