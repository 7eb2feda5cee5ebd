"""Rooms: those of the library are the same in README and contract; others have small faces."""

from __future__ import annotations

import importlib
import re
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent
ROW = re.compile(r"^\| (\d+) \| `(\w+)/` \|", re.MULTILINE)


NAMES_MAX = 12
"""Names that a room hands out at its face."""
SUB_ROOMS = [
    f"{package}.{path.name}".replace("/", ".")
    for package in ("broker/disk", "broker/replica")
    for path in sorted((ROOT / package).iterdir())
    if (path / "__init__.py").exists()
]
MODULES = ["broker.disk.slowness", "broker.replica.replica_state"]
"""Rooms of one module, which is the face as well."""


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


@pytest.mark.parametrize("room", SUB_ROOMS)
def test_the_face_of_a_room_hands_out_few_names_and_nothing_else_is_imported(room: str) -> None:
    face: ModuleType = importlib.import_module(room)

    assert 0 < len(face.__all__) <= NAMES_MAX
    protected = contract(f"face-{room.removeprefix('broker.').replace('.', '-')}")
    assert protected["type"] == "protected"
    assert protected["protected_modules"] == [f"{room}.*"]
    assert protected["allowed_importers"] == [room]
    assert "ignore_imports" not in protected


@pytest.mark.parametrize("module", MODULES)
def test_a_room_of_one_module_hands_out_few_names(module: str) -> None:
    found = importlib.import_module(module)
    own = [name for name, value in vars(found).items() if is_defined_in(value, module)]

    assert 0 < len(own) <= NAMES_MAX


def is_defined_in(value: object, module: str) -> bool:
    name = getattr(value, "__name__", "_")
    return getattr(value, "__module__", None) == module and not name.startswith("_")
