"""What the data source needs of this Python; nothing of it is imported with this module.

Spark imports a package `pyspark_*` only to ask for the name of its format, also in a Python that
could not read a log. So what is missing or too old is said when somebody uses the format.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from importlib import import_module

from analytics.errors import ReplayInputError

NAME = "kraft-metadata"
"""Name of the format."""

LEAST_VERSIONS = {
    "pyspark": "4.2",
    "pyarrow": "18",
    "numpy": "2",
    "crc32c": "2.7",
    "msgspec": "0.19",
}
"""Module -> the version from which on it is good; the same as in `pyproject.toml`."""


def check_requirements() -> None:
    """Find out whether a log can be read here.

    Raises:
        ReplayInputError: something is missing or too old; one sentence for all of it.
    """
    lacking = list(_lacking())
    if lacking:
        raise ReplayInputError(
            f"the data source {NAME} needs {', '.join(lacking)}: "
            f"{sys.executable} -m pip install 'jbodlab[analytics]'"
        )


def _lacking() -> Iterator[str]:
    for name, least in LEAST_VERSIONS.items():
        try:
            found = str(import_module(name).__version__)
        except ModuleNotFoundError as error:
            cause = "none" if error.name == name else f"one that lacks {error.name}"
            yield f"{name} {least} or newer (found {cause})"
        except ImportError as error:
            reason = str(error).strip().partition("\n")[0]
            yield f"{name} {least} or newer (found one that cannot be imported: {reason})"
        else:
            if _numbers(found) < _numbers(least):
                yield f"{name} {least} or newer (found {found})"


def _numbers(version: str) -> tuple[int, ...]:
    """Return the numbers that a version begins with."""
    found = re.match(r"\d+(\.\d+)*", version)
    return () if found is None else tuple(map(int, found[0].split(".")))
