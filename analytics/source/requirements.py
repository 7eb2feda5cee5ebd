"""Libraries that the replay, its questions and its data source need; this module imports none.

Spark imports a package `pyspark_*` only to ask for the name of its format, also in a Python that
cannot read a log. So a missing or old library is reported when somebody uses the format.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.metadata import version

from analytics.errors import ReplayInputError

NAME = "kraft-metadata"
"""Name of the format."""

FOR_LOGS: Mapping[str, str] = {
    "pyarrow": "18",
    "numpy": "2",
    "crc32c": "2.7",
    "msgspec": "0.20",
}
"""Modules that read a log -> the oldest version that works; the same as in `pyproject.toml`."""

FOR_REPLAY: Mapping[str, str] = {**FOR_LOGS, "duckdb": "2", "sqlglot": "30"}
FOR_SOURCE: Mapping[str, str] = {"pyspark": "4.2", **FOR_LOGS}
FOR_SPARK: Mapping[str, str] = {"pyspark": "4.2", "pandas": "2.2"}


def check_requirements(user: str, needed: Mapping[str, str]) -> None:
    """Check that modules can be imported and are new enough.

    Raises:
        ReplayInputError: a module is missing or too old; one sentence for all of them.
    """
    lacking = list(_lacking(needed))
    if lacking:
        extra = "analytics" if "pyspark" in needed else "replay"
        raise ReplayInputError(
            f"{user} needs {', '.join(lacking)}: {sys.executable} -m pip install 'jbodlab[{extra}]'"
        )


def _lacking(needed: Mapping[str, str]) -> Iterator[str]:
    for name, least in needed.items():
        try:
            found = _found(name)
        except ModuleNotFoundError as error:
            cause = "not installed" if error.name == name else f"it lacks {error.name}"
            yield f"{name} {least} or newer ({cause})"
        except ImportError as error:
            reason = str(error).strip().partition("\n")[0]
            yield f"{name} {least} or newer (cannot be imported: {reason})"
        else:
            if _numbers(found) < _numbers(least):
                yield f"{name} {least} or newer (found {found})"


def _found(name: str) -> str:
    # To import it takes long, and texts that were translated before need it no more.
    return version(name) if name == "sqlglot" else str(import_module(name).__version__)


def _numbers(text: str) -> tuple[int, ...]:
    """Return the numbers that a version begins with."""
    found = re.match(r"\d+(\.\d+)*", text)
    return () if found is None else tuple(map(int, found[0].split(".")))
