"""Puts known bugs back, each into a copy of the tree, and says which checker finds it, and when.

    python -m tests.simulation.mutants [NAME ...] [--seeds 1..2000] [--jobs 2]

A patch begins with the line `Found by:` and the checkers that may find it; any of them will do.
Where a line `Needs one of:` follows, plans without any of these faults, or without `transactions`,
are passed over.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
PATCHES = Path(__file__).with_name("mutants")
COPIED = ("jbodlab", "broker", "controller", "tests/simulation")


def named_in(patch: Path, label: str) -> list[str]:
    """Return what stands behind a label of a patch: checkers, or faults; empty without it."""
    lines = [line for line in patch.read_text().splitlines() if line.startswith(label)]
    return lines[0].removeprefix(label).split() if lines else []


def hunt(patch: Path, seeds: str, jobs: int) -> tuple[int, str]:
    """Run histories over a bug until one of its checkers finds it; returns seed and what was said.

    If nothing was found that is 0, and the last lines.
    """
    with tempfile.TemporaryDirectory() as folder:
        for name in COPIED:
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, Path(folder) / name, ignore=ignored)
        subprocess.run(["git", "apply", str(patch)], cwd=folder, check=True)
        command = [sys.executable, "-m", "tests.simulation", "--seeds", seeds, f"--jobs={jobs}"]
        command += ["--first", *named_in(patch, "Found by:")]
        command += ["--only", *named_in(patch, "Needs one of:")]
        environment = {**os.environ, "PYTHONPATH": folder, "PYTHONHASHSEED": "0"}
        ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    found = re.search(r"^found seed (\d+): (.*)", ran.stdout, re.MULTILINE)
    return (int(found[1]), found[2]) if found else (0, (ran.stdout + ran.stderr)[-400:])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.mutants")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--seeds", default="1..2000")
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    missed = 0
    for patch in [p for name in options.names or [""] for p in sorted(PATCHES.glob(f"{name}*"))]:
        seed, said = hunt(patch, options.seeds, options.jobs)
        missed += seed == 0
        print(f"{patch.stem}: {f'seed {seed}: {said}' if seed else f'not found: {said}'}"[:300])
        sys.stdout.flush()
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
