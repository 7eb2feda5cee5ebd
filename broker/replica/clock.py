"""The clocks that replicas go by."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """Monotonic and wall clock, both in ms."""

    now_ms: Callable[[], int]
    wall_ms: Callable[[], int]
