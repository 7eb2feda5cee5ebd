"""The text that DuckDB is asked instead of a text of Spark.

SQLGlot translates; what it warns of is an error, since it then leaves something out.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

_SUFFIX = ".sql"
_OPTIONS: Mapping[str, Any] = {"read": "spark", "write": "duckdb", "pretty": True}
"""Of a translation; the text is also shown to readers."""


def in_duckdb(text: str) -> str:
    """Return what DuckDB is asked instead of a text of Spark; remembered in the user's cache."""
    return _translated(text)


@cache
def _translated(text: str) -> str:
    path = _cache_folder() / f"{hashlib.sha256(f'{_OPTIONS} {text}'.encode()).hexdigest()}{_SUFFIX}"
    try:
        return path.read_text("utf-8")
    except OSError:
        found = translate(text)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
            file.write(found)
        Path(file.name).replace(path)
    except OSError:
        pass  # it is translated at each start then
    return found


@cache
def _cache_folder() -> Path:
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "jbodlab" / f"sql-{version('sqlglot')}"


def translate(text: str) -> str:
    """Translate a text of Spark SQL for DuckDB.

    Raises:
        UnsupportedError: there is no translation that means the same.
    """
    import sqlglot

    (found,) = sqlglot.transpile(text, **_OPTIONS, unsupported_level=sqlglot.ErrorLevel.RAISE)
    return found
