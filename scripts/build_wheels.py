"""Build the wheels in `dist/`, one for each machine, each with the compiled library for faults.

    python3 scripts/build_wheels.py

Needs Python's venv and pip. The tools that build are installed into `build/tools`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TOOLS = ROOT / "build" / "tools"
MACHINES = ("x86_64", "aarch64")


def main() -> None:
    """Build all of them.

    Raises:
        SystemExit: a step failed, and has said why.
    """
    python = tools()
    for machine in MACHINES:
        # The hook in `one_package.py` leaves out the libraries for other machines.
        built = [python, "-m", "hatchling", "build", "-t", "wheel", "-d", str(ROOT / "dist")]
        run(built, JBODLAB_WHEEL_MACHINE=machine)


def tools() -> str:
    """Install what builds, unless it is there; returns its Python."""
    python = TOOLS / "bin" / "python"
    if not python.exists():
        venv.create(TOOLS, with_pip=True)
    constraints = ["-c", str(ROOT / "constraints.txt")]
    run([str(python), "-m", "pip", "install", "--quiet", *constraints, "hatchling>=1.25"])
    return str(python)


def run(command: list[str], **variables: str) -> None:
    """Run one step."""
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, **variables}, check=False)
    if done.returncode:
        sys.exit(done.returncode)


if __name__ == "__main__":
    main()
