"""Puts known bugs back, each into a copy of the tree, and says which checker finds it, and where.

    python -m tests.simulation.mutants [NAME ...] [--jobs 2]         # where `found.tsv` says
    python -m tests.simulation.mutants NAME --search 1..2000         # anew; writes `found.tsv`

A patch begins with the line `Found by:` and the checkers that may find it; any of them will do.
Where a line `Steered at:` follows, its histories are drawn with these faults and features; see
`plan.draw`. They have one controller, unless that line names `quorum`. `found.tsv` has a row for
each patch: its name, and the seed of a history that finds it, the file in `plans` that does, or the
test.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from tests.simulation.plan import QUORUM

ROOT = Path(__file__).parents[2]
PATCHES = Path(__file__).with_name("mutants")
TABLE = PATCHES / "found.tsv"
PATCHED = ("jbodlab", "broker", "controller")
"""Folders that patches change; of the rest of the tree there is one copy."""
END_S = 3_000.0


def named_in(patch: Path, label: str) -> list[str]:
    """Return what stands behind a label of a patch: checkers, or faults; empty without it."""
    lines = [line for line in patch.read_text().splitlines() if line.startswith(label)]
    return lines[0].removeprefix(label).split() if lines else []


def found_at() -> dict[str, str]:
    """Return the table: by the name of a patch, where it is found."""
    return dict(line.split("\t") for line in TABLE.read_text().splitlines())


def hunt(patch: Path, where: str) -> tuple[str, str]:
    """Look for a bug at seeds `FIRST..LAST`, in a plan, or with a test.

    Returns:
        Where it was found, empty if it was not, and what was said.
    """
    with tempfile.TemporaryDirectory() as folder:
        for path in ROOT.iterdir():
            if path.name in PATCHED:
                # With what was compiled of it: most of it stays as it is.
                shutil.copytree(path, Path(folder) / path.name)
            elif not path.name.startswith("."):
                (Path(folder) / path.name).symlink_to(path)
        subprocess.run(["git", "apply", str(patch)], cwd=folder, check=True)
        if "::" in where:
            return _tried(folder, where)
        command = ["tests.simulation", "--first", *named_in(patch, "Found by:")]
        if where.endswith(".json"):
            ran = _run(folder, *command, "--plan", str(PATCHES.with_name("plans") / where))
        else:
            steer = named_in(patch, "Steered at:")
            # Seeds were found with one controller, where a patch does not ask for several.
            alone = () if QUORUM in steer else ("--controllers", "1")
            ran = _run(folder, *command, "--seeds", where, *alone, "--steer", *steer)
    found = re.search(r"^found(?: seed (\d+))?: (.*)", ran.stdout, re.MULTILINE)
    if found:
        return found[1] or where, found[2]
    return "", (ran.stdout.strip() or ran.stderr.strip()).rpartition("\n")[2]


def _tried(folder: str, test: str) -> tuple[str, str]:
    ran = _run(folder, "pytest", "-q", "-p", "no:cacheprovider", test)
    said = ran.stdout[-300:].strip().rpartition("\n")[2]
    return (test if ran.returncode == 1 else "", said)


def _run(folder: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": folder, "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        timeout=END_S,
        check=False,
    )


def _write(table: dict[str, str]) -> None:
    TABLE.write_text("".join(f"{name}\t{where}\n" for name, where in sorted(table.items())))


def _named(names: Iterable[str]) -> list[Path]:
    return [each for name in names for each in sorted(PATCHES.glob(f"{name}*.patch"))]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.mutants")
    parser.add_argument("names", nargs="*", help="beginnings of names of patches")
    parser.add_argument("--search", default="", help="FIRST..LAST seeds, or a plan, or a test")
    parser.add_argument("--jobs", type=int, default=1, help="bugs at the same time")
    options = parser.parse_args()
    table, missed = found_at(), 0
    patches = _named(options.names or [""])
    places = [options.search or table.get(each.stem, "1..300") for each in patches]
    with ThreadPoolExecutor(options.jobs) as pool:
        hunts = pool.map(partial(hunt), patches, places)
        for patch, place, (where, said) in zip(patches, places, hunts, strict=True):
            missed += not where
            if where and where != table.get(patch.stem):
                table[patch.stem] = where
                _write(table)
            print(f"{patch.stem}: {where or f'not found at {place}'}: {said}"[:300], flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
