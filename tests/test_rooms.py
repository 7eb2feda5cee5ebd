"""The rooms of the library are the same in its README and in the import contract."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROW = re.compile(r"^\| (\d+) \| `(\w+)/` \|", re.MULTILINE)


def contract(name: str) -> dict[str, object]:
    tables = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]
    return next(each for each in tables["contracts"] if each["id"] == name)


def test_the_readme_of_the_library_has_the_steps_of_its_contract() -> None:
    layers = contract("library-layers")["layers"]
    assert isinstance(layers, list)
    steps = [each.split(" | ") for each in reversed(layers)]

    rows = ROW.findall((ROOT / "jbodlab" / "README.md").read_text("utf-8"))

    assert rows == [(str(number), room) for number, step in enumerate(steps, 1) for room in step]


def test_the_contract_of_the_library_has_no_exception() -> None:
    assert not contract("library-layers").get("ignore_imports")
