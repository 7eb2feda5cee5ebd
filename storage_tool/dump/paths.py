"""Paths as they are shown."""

from __future__ import annotations

import re
from pathlib import Path


def shown_path(given: str) -> str:
    """Return a path as it was given, without redundant slashes."""
    return re.sub("(?<=.)/+$", "", re.sub("/+", "/", given))


def absolute(shown: str) -> str:
    """Return an absolute path; links and `..` are not resolved."""
    return shown if shown.startswith("/") else f"{Path.cwd()}/{shown}"
