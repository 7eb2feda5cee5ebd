"""Nothing in the servers and their library looks past `jbodlab.runtime.machine`."""

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

from jbodlab.runtime.machine import system_environment
from jbodlab.vocabulary.kafka_uuid import ZERO_UUID

ROOT = Path(__file__).parents[3]
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
"""Calls that ask the machine, of modules with harmless ones as well; and what to ask instead."""

OF_PATHS = {"stat", "lstat", "iterdir", "read_text", "write_text", "resolve", "chmod", "touch"}
OF_PATHS |= {"glob", "rglob", "is_file", "is_symlink", "hardlink_to", "symlink_to", "samefile"}
"""Methods of paths only, which go past the disk that was handed in."""

OF_PATHS_ALONE = frozenset({"exists", "is_dir", "unlink", "read_bytes", "rmdir", "mkdir"})
"""Methods of paths that a disk has as well, but there they take a path."""

EXCEPTIONS = {
    "jbodlab/runtime/machine.py",
    # Limits of the process, before it is a server.
    "broker/bounds/resources.py",
    "jbodlab/storage/directory/posix_filesystem.py",
    # Programs in the command line, not servers: a property file, where the lab keeps its own, and
    # where our packages are.
    "jbodlab/cli/command_line.py",
    "jbodlab/cli/lab_state.py",
    "jbodlab/cli/program_names.py",
    # And the file of moves that a user names, and the properties of its clients.
    "jbodlab/what_if/command.py",
    "jbodlab/peers/client_properties.py",
    # The keys of an issuer of tokens, in a thread.
    "jbodlab/server/token_keys.py",
    # Programs that ask a server whether it is well, as an orchestrator does.
    "broker/health.py",
    "controller/health.py",
    # Stores of keys and certificates, which are not in a log directory.
    "jbodlab/security/tls_files.py",
}

DEFAULTS = {
    "PosixFileSystem": {
        "jbodlab/storage/directory/posix_filesystem.py",
        "jbodlab/runtime/machine.py",
        # Files that tools read as well.
        "jbodlab/metadata/log/metadata_log.py",
        "jbodlab/metadata/log/quorum_state.py",
        "jbodlab/metadata/log/snapshots.py",
    },
    "system_environment": {
        "jbodlab/runtime/machine.py",
        # A process of its own, which `machine` starts.
        "jbodlab/runtime/cleaner_main.py",
        "jbodlab/metadata/log/formatting.py",
        "broker/server.py",
        "broker/disk/directory/log_dir.py",
        "broker/disk/life/startup.py",
        "controller/metadata_dir.py",
        "controller/server.py",
    },
}
"""Modules that may take the machine where nothing was handed in."""


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
        elif isinstance(node, ast.Call) and _touches_a_file(node):
            yield node.lineno, ast.unparse(node.func)


def _touches_a_file(call: ast.Call) -> bool:
    match call.func:
        case ast.Name(id="open"):
            return True
        case ast.Attribute(attr=name):
            first = call.args[0] if call.args else None
            return (
                name in OF_PATHS
                or (name in OF_PATHS_ALONE and first is None)
                or (name == "rename" and len(call.args) == 1)
                or (name == "open" and isinstance(first, ast.Constant))
            )
    return False


def sources() -> Iterator[tuple[str, str]]:
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            yield str(path.relative_to(ROOT)), path.read_text()


def test_nobody_but_the_machine_module_asks_the_machine() -> None:
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
        "data = path.read_bytes()",
        "path.rename(path.with_name('other'))",
        "path.open('rb')",
        "open(path)",
        "if (folder / 'meta.properties').exists(): pass",
        "size = path.stat().st_size",
    ],
)
def test_a_question_to_the_machine_is_found(planted: str) -> None:
    assert list(questions(planted))


def test_types_of_ids_and_given_times_are_no_question() -> None:
    harmless = "from uuid import UUID\nfrom datetime import datetime\ndatetime.fromtimestamp(1)"

    assert not list(questions(harmless))
    assert not list(questions("fs.exists(path), fs.rename(a, b), fs.read_bytes(path)"))


@pytest.mark.parametrize("name", DEFAULTS)
def test_the_machine_is_the_default_of_few(name: str) -> None:
    found = {
        path
        for path, source in sources()
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ImportFrom | ast.Name)
        and name in ([node.id] if isinstance(node, ast.Name) else [n.name for n in node.names])
    }

    assert found <= DEFAULTS[name]


def contract() -> dict[str, Any]:
    """Return the import contract of the servers, as it is checked with every change."""
    linter = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    (found,) = (each for each in linter["contracts"] if each["id"] == "environment")
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
    assert not is_kept("jbodlab.storage.log.planted", module)


def test_the_import_contract_lets_the_machine_module_ask_the_machine() -> None:
    assert is_kept("jbodlab.runtime.machine", "time")
    assert is_kept("broker.disk.planted", "jbodlab.runtime.machine")


def test_the_machine_gives_other_ids_every_time() -> None:
    environment = system_environment()

    assert len({environment.new_hex() for _ in range(100)}) == 100
    assert all(len(environment.new_hex()) == 32 for _ in range(100))
    assert environment.new_id() not in (environment.new_id(), ZERO_UUID)


def test_milliseconds_of_the_monotonic_clock_are_whole() -> None:
    environment = system_environment()
    before_s = environment.monotonic_s()

    now_ms = environment.monotonic_ms()

    assert int(before_s * 1000) <= now_ms <= environment.monotonic_s() * 1000
