"""Puts all packages of the repository below `jbodlab` when a wheel is built.

Names such as `broker` and `lab` are an application's own in somebody else's environment, so a wheel
brings none of them: `broker.server` of the repository is `jbodlab.broker.server` there. A module
imported by its old name is imported by the new one; modules that are run by their name ask
`jbodlab.cli.program_names`. `pyspark_kraft_metadata` keeps its name: Spark finds data sources by
it.

Built by `build_wheels.py`, a wheel has the library for faults in single calls for its machine
alone; built by anything else it has those for all.

In an environment of a clone nothing is built, the packages are read from the clone itself.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

MOVED = (
    "admin_tool",
    "analytics",
    "broker",
    "controller",
    "fault_injection",
    "lab",
    "storage_tool",
)
LIBRARY = "jbodlab"
UNMOVED = (LIBRARY, "pyspark_kraft_metadata")
SCHEMAS = (
    Path("docs") / "plan.schema.json",
    Path("docs") / "output.schema.json",
    Path("docs") / "openapi.json",
)
"""Below `jbodlab` in a wheel, so that the path to the first in shipped plans is the same there."""

_IMPORT = re.compile(rf"^(\s*)(from|import) ({'|'.join(MOVED)})(?=[.\s])", re.MULTILINE)
_BY_TEXT = re.compile(rf"import_module\(f?[\"']({'|'.join(MOVED)})\.")


def moved(source: str) -> str:
    """Return a module's source with the imports of the packages where they are in a wheel.

    Raises:
        ValueError: a package is imported in a form whose name in the module would change.
    """
    if named := _BY_TEXT.search(source):
        raise ValueError(f"cannot be moved, write it with __package__: {named[0]}")
    for found in _IMPORT.finditer(source):
        line = source[found.start() : source.find("\n", found.end())]
        if found[2] == "import" and " as " not in line:
            raise ValueError(f"cannot be moved, write it with from or as: {line.strip()}")
    return _IMPORT.sub(rf"\1\2 {LIBRARY}.\3", source)


def write(repository: Path, target: Path) -> None:
    """Write the packages as a wheel has them into a folder, which is made anew."""
    shutil.rmtree(target, ignore_errors=True)
    for package in (*UNMOVED, *MOVED):
        for path in sorted((repository / package).rglob("*")):
            if not path.is_file() or "__pycache__" in path.parts:
                continue
            place = target / (LIBRARY if package in MOVED else "") / path.relative_to(repository)
            place.parent.mkdir(parents=True, exist_ok=True)
            if path.suffix in (".py", ".pyi"):
                try:
                    place.write_text(moved(path.read_text("utf-8")), "utf-8")
                except ValueError as error:
                    raise ValueError(f"{path.relative_to(repository)}: {error}") from error
            else:
                shutil.copyfile(path, place)
    (target / LIBRARY / SCHEMAS[0].parent).mkdir()
    for schema in SCHEMAS:
        shutil.copyfile(repository / schema, target / LIBRARY / schema)


class OnePackage(BuildHookInterface[Any]):
    """The hook of the wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Make the packages, and have them taken in place of the repository's."""
        if version == "editable":
            return
        target = Path(self.root) / "build" / "wheel"
        write(Path(self.root), target)
        if machine := os.environ.get("JBODLAB_WHEEL_MACHINE"):
            for library in (target / LIBRARY).glob("fault_injection/preload/faults-*.so"):
                if not library.name.startswith(f"faults-{machine}-"):
                    library.unlink()
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-manylinux_2_17_{machine}"
        # An image is built from some of the packages.
        for package in filter(lambda name: (target / name).is_dir(), UNMOVED):
            build_data["force_include"][str(target / package)] = package
