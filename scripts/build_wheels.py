"""Build the wheels in `dist/`, one for each machine, each with the compiled library for faults.

    python3 scripts/build_wheels.py

Needs Python's venv and pip. What builds is installed into `build/tools`: hatchling, and ziglang,
whose compiler makes the library for every machine against an old glibc.
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TOOLS = ROOT / "build" / "tools"
SHIM = ROOT / "fault_injection" / "preload" / "shim.c"
GLIBC = (2, 17)
"""That of every distribution since 2014."""
MACHINES = ("x86_64", "aarch64")
FLAGS = ("-std=gnu11", "-O2", "-fPIC", "-shared", "-s", "-U_FORTIFY_SOURCE")


def main() -> None:
    """Build all of them.

    Raises:
        SystemExit: a step failed, and has said why.
    """
    python = tools()
    for machine in MACHINES:
        library = ROOT / "build" / f"faults-{machine}.so"
        target = f"{machine}-linux-gnu.{GLIBC[0]}.{GLIBC[1]}"
        compiled = [python, "-m", "ziglang", "cc", "-target", target, *FLAGS, str(SHIM)]
        run([*compiled, "-o", str(library), "-ldl"])
        # The hook in `one_package.py` takes the library in, and names the machine.
        built = [python, "-m", "hatchling", "build", "-t", "wheel", "-d", str(ROOT / "dist")]
        run(built, JBODLAB_WHEEL_MACHINE=machine)


def tools() -> str:
    """Install what builds, unless it is there; returns its Python."""
    python = TOOLS / "bin" / "python"
    if not python.exists():
        venv.create(TOOLS, with_pip=True)
    wanted = ["hatchling>=1.25", "ziglang>=0.13"]
    constraints = ["-c", str(ROOT / "constraints.txt")]
    run([str(python), "-m", "pip", "install", "--quiet", *constraints, *wanted])
    return str(python)


def run(command: list[str], **variables: str) -> None:
    """Run one step."""
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, **variables}, check=False)
    if done.returncode:
        sys.exit(done.returncode)


if __name__ == "__main__":
    main()
