"""Check names of the servers and the library: no two public classes have the same.

    .venv/bin/python scripts/check_names.py

A class is meant that a module of `jbodlab`, `broker` or `controller` defines at its top, without an
underscore in front. A reader shall know at once which class a name means.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("broker", "controller", "jbodlab")


def main() -> int:
    """Print each name that several classes have; returns the exit code."""
    wrong = list(shared_names(ROOT, PACKAGES))
    print(*wrong, sep="\n", end="\n" if wrong else "")
    return 1 if wrong else 0


def shared_names(root: Path, packages: tuple[str, ...]) -> Iterator[str]:
    """Yield one line for each name that several public classes have."""
    found: dict[str, list[str]] = defaultdict(list)
    for package in packages:
        for path in sorted((root / package).rglob("*.py")):
            for node in ast.parse(path.read_text("utf-8")).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    found[node.name].append(f"{path.relative_to(root)}:{node.lineno}")
    for name, places in sorted(found.items()):
        if len(places) > 1:
            yield f"several classes are named {name}: {', '.join(places)}"


if __name__ == "__main__":
    sys.exit(main())
