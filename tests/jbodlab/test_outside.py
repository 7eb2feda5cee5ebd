"""Nothing in the servers and their library looks past `jbodlab.outside`."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from grimp import ImportGraph
from importlinter.configuration import configure
from importlinter.contracts.forbidden import ForbiddenContract

from jbodlab.kafka_uuid import ZERO_UUID
from jbodlab.outside import real

ROOT = Path(__file__).parents[2]
PACKAGES = ("jbodlab", "broker", "controller")

CALLS = {
    "os.urandom": "random_bytes",
    "uuid.uuid1": "new_id",
    "uuid.uuid4": "new_id",
    "datetime.now": "wall_ms",
    "datetime.datetime.now": "wall_ms",
    "datetime.today": "wall_ms",
    "datetime.utcnow": "wall_ms",
    "asyncio.to_thread": "threads",
}
"""What asks the machine, though its module has harmless things as well; and what to ask instead."""

EXCEPTIONS = {"jbodlab/outside.py"}


def questions(source: str) -> Iterator[tuple[int, str]]:
    """Yield line and name of everything in a module that asks the machine."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and ast.unparse(node) in CALLS:
            yield node.lineno, ast.unparse(node)
        elif isinstance(node, ast.ImportFrom):
            for name in node.names:
                if f"{node.module}.{name.name}" in CALLS:
                    yield node.lineno, f"{node.module}.{name.name}"
        elif isinstance(node, ast.Attribute) and node.attr == "run_in_executor":
            yield node.lineno, node.attr


def sources() -> Iterator[tuple[str, str]]:
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            yield str(path.relative_to(ROOT)), path.read_text()


def test_nobody_but_outside_asks_the_machine_for_ids_and_time() -> None:
    found = [
        f"{path}:{line} {name}"
        for path, source in sources()
        if path not in EXCEPTIONS
        for line, name in questions(source)
    ]

    assert found == []


@pytest.mark.parametrize(
    "planted",
    [
        "import os\nfresh = os.urandom(16)",
        "import os\nmake = os.urandom",
        "import uuid\nname = uuid.uuid4().hex",
        "from uuid import uuid4",
        "import datetime as dt\nfrom os import urandom",
        "from datetime import UTC, datetime\nnow = datetime.now(UTC)",
        "import asyncio\nawait asyncio.to_thread(work)",
        "loop.run_in_executor(None, work)",
    ],
)
def test_a_question_to_the_machine_is_found(planted: str) -> None:
    assert list(questions(planted))


def test_types_of_ids_and_given_times_are_no_question() -> None:
    harmless = "from uuid import UUID\nfrom datetime import datetime\ndatetime.fromtimestamp(1)"

    assert not list(questions(harmless))


def contract() -> dict[str, Any]:
    """Return the import contract of the servers, as it is checked with every change."""
    linter = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    (found,) = (each for each in linter["contracts"] if each["id"] == "outside")
    return found


def is_kept(importer: str, imported: str) -> bool:
    """Return whether the contract allows one import."""
    configure()
    options = contract()
    graph = ImportGraph()
    for package in PACKAGES:
        graph.add_module(package)
    for module in options["forbidden_modules"]:
        graph.add_module(module, is_squashed=True)
    graph.add_import(importer=importer, imported=imported)
    checked = ForbiddenContract(
        options["name"],
        {"root_packages": list(PACKAGES), "include_external_packages": "True"},
        {
            **options,
            "allow_indirect_imports": str(options["allow_indirect_imports"]),
            "unmatched_ignore_imports_alerting": "none",
        },
    )
    return checked.check(graph, verbose=False).kept


@pytest.mark.parametrize("module", contract()["forbidden_modules"])
def test_the_import_contract_finds_a_planted_import(module: str) -> None:
    assert not is_kept("broker.disk.planted", module)
    assert not is_kept("jbodlab.log.planted", module)


def test_the_import_contract_lets_outside_ask_the_machine() -> None:
    assert is_kept("jbodlab.outside", "time")
    assert is_kept("broker.disk.planted", "jbodlab.outside")


def test_the_machine_gives_other_ids_every_time() -> None:
    outside = real()

    assert len({outside.new_hex() for _ in range(100)}) == 100
    assert all(len(outside.new_hex()) == 32 for _ in range(100))
    assert outside.new_id() not in (outside.new_id(), ZERO_UUID)


def test_milliseconds_of_the_monotonic_clock_are_whole() -> None:
    outside = real()
    before_s = outside.monotonic_s()

    now_ms = outside.monotonic_ms()

    assert int(before_s * 1000) <= now_ms <= outside.monotonic_s() * 1000
