"""Where our programs are: beside this package in the repository, inside of it in a wheel."""

from __future__ import annotations

from pathlib import Path

_INSIDE = (Path(__file__).parents[1] / "broker").is_dir()
_PACKAGE = __package__.partition(".")[0]

ROOT = Path(__file__).resolve().parents[2]
"""The folder that a Python needs on its path to import these packages."""

PROGRAMS = ROOT / _PACKAGE if _INSIDE else ROOT
"""The folder that has the packages of the programs."""


def name_of(module: str) -> str:
    """Return the name by which a module of a program, or of this package, is imported here."""
    is_moved = _INSIDE and not module.startswith(f"{_PACKAGE}.")
    return f"{_PACKAGE}.{module}" if is_moved else module
