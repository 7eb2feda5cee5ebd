"""Puts known bugs back, each into a copy of the tree, and says which checker finds it, and when.

    python -m tests.simulation.mutants [NAME ...] [--seeds 1..2000]

A patch begins with the line `Found by:` and the checkers that may find it; any of them will do.
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


def checkers_of(patch: Path) -> list[str]:
    """Return the checkers that may find a bug."""
    first, _, _ = patch.read_text().partition("\n")
    return first.removeprefix("Found by:").split()


def hunt(patch: Path, seeds: str) -> tuple[int, str]:
    """Run histories over a bug until one of its checkers finds it.

    Returns:
        The seed and what was said; 0 and the last lines if nothing was found.
    """
    with tempfile.TemporaryDirectory() as folder:
        for name in COPIED:
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, Path(folder) / name, ignore=ignored)
        subprocess.run(["git", "apply", str(patch)], cwd=folder, check=True)
        ran = subprocess.run(
            [
                sys.executable,
                "-m",
                "tests.simulation",
                "--seeds",
                seeds,
                "--first",
                *checkers_of(patch),
            ],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": folder, "PYTHONHASHSEED": "0"},
            capture_output=True,
            text=True,
        )
    lines = ran.stdout.splitlines()
    for line in lines:
        if line.startswith("found "):
            match = re.match(r"found seed (\d+): (.*)", line)
            assert match is not None
            return int(match[1]), match[2]
    return 0, (ran.stdout + ran.stderr)[-400:]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.mutants")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--seeds", default="1..2000")
    options = parser.parse_args()
    missed = 0
    for patch in [p for name in options.names or [""] for p in sorted(PATCHES.glob(f"{name}*"))]:
        seed, said = hunt(patch, options.seeds)
        missed += seed == 0
        print(f"{patch.stem}: {f'seed {seed}: {said}' if seed else f'not found: {said}'}"[:300])
        sys.stdout.flush()
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
