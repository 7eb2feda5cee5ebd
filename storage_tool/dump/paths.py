"""Paths as they are shown."""

from __future__ import annotations

import re
from pathlib import Path


def shown_path(given: str) -> str:
    """Return a path as it was given, without slashes that say nothing."""
    return re.sub("(?<=.)/+$", "", re.sub("/+", "/", given))


def absolute(shown: str) -> str:
    """Return a path from the root on, with nothing in it resolved."""
    return shown if shown.startswith("/") else f"{Path.cwd()}/{shown}"
