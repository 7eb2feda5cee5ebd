"""Lines told lately: a client that tries again and again does not fill the log."""

from __future__ import annotations

from collections.abc import Hashable

TOLD_AGAIN_S = 60.0
TOLD_MAX = 1_000


class ToldLately:
    """Remembers lines of the log, for a minute."""

    def __init__(self) -> None:
        self._told_s: dict[Hashable, float] = {}

    def tell(self, line: Hashable, now_s: float) -> bool:
        """Return whether a line is to be written, and remember that it was."""
        if now_s - self._told_s.get(line, -TOLD_AGAIN_S) < TOLD_AGAIN_S:
            return False
        if len(self._told_s) >= TOLD_MAX:
            self._told_s.clear()
        self._told_s[line] = now_s
        return True
