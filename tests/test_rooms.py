"""Rooms: those of the library are the same in README and contract; others have small faces."""

from __future__ import annotations

import ast
import importlib
import re
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

from jbodlab.storage.log.disk_progress import DiskProgress
from jbodlab.storage.log.log_config import LogConfig
from jbodlab.storage.log.log_state import LogState
from jbodlab.storage.log.segment_list import SegmentList
from jbodlab.storage.log.transactions import UndecidedTransactions

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


INSIDE_A_LOG = ("jbodlab/storage/log/", "broker/replica/log/")
WITHOUT_LOGS = "jbodlab/raft/"
"""Its states are those of a voter."""
PARTS_OF_A_LOG = {
    "segments": {*dir(SegmentList), "active", "closed", "aborted_counts"},
    "disk": set(DiskProgress.__slots__) | set(dir(DiskProgress)),
    "undecided": set(dir(UndecidedTransactions)),
    "state": {"config", "start_offset", "lost_from"},
}


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


def test_others_use_the_state_of_a_log_by_its_methods_and_views() -> None:
    state, _ = LogState.empty(LogConfig())
    parts = PARTS_OF_A_LOG.keys() - {"state"}
    assert all(hasattr(state, name) for name in parts | PARTS_OF_A_LOG["state"])
    found = []
    for package in ("broker", "controller", "jbodlab", "storage_tool"):
        for path in sorted((ROOT / package).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            if not name.startswith((*INSIDE_A_LOG, WITHOUT_LOGS)):
                found += [f"{name}:{line}" for line in uses_of_fields(path.read_text("utf-8"))]

    assert not found


@pytest.mark.parametrize(
    "planted",
    [
        "log.state.disk.cleaned_to = 7",
        "len(self._state.segments.closed)",
        "log.state.config = config",
        "log.segments.base_offsets[0]",
        "log.state.start_offset",
        "state.lost_from",
    ],
)
def test_a_planted_use_of_a_field_is_found(planted: str) -> None:
    assert uses_of_fields(planted) == [1]


def uses_of_fields(source: str) -> list[int]:
    """Return the lines that name a field of a `LogState`, or assign to an attribute of one."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Attribute):
            continue
        match node.value:
            case ast.Attribute(attr=below) | ast.Name(id="state" as below):
                if node.attr in PARTS_OF_A_LOG.get(below.removeprefix("_"), ()):
                    found.add(node.lineno)
        match node:
            case ast.Attribute(ctx=ast.Store(), value=ast.Attribute(attr="state" | "_state")):
                found.add(node.lineno)
    return sorted(found)
