"""Compile the library for faults in single calls, for each machine, into the source tree.

    python scripts/compile_preload.py

Needs pip: ziglang, whose compiler makes the library for every machine against an old glibc, is
installed into `build/tools`. The files are committed, so that neither a clone nor a wheel needs a
compiler. Their names say which sources they were made from; a test compares.
"""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from fault_injection.preload import build  # noqa: E402  # Found by the line above.

TOOLS = ROOT / "build" / "tools"
GLIBC = (2, 17)
"""That of every distribution since 2014."""


def main() -> None:
    """Compile all of them, and remove those of other sources."""
    python = str(TOOLS / "bin" / "python")
    if not Path(python).exists():
        venv.create(TOOLS, with_pip=True)
    constraints = str(ROOT / "constraints.txt")
    pip = [python, "-m", "pip", "install", "--quiet", "-c", constraints, "ziglang>=0.13"]
    subprocess.run(pip, check=True)
    for machine in build.MACHINES:
        target = build.compiled(machine)
        for former in target.parent.glob(f"faults-{machine}-*.so"):
            former.unlink()
        of = f"{machine}-linux-gnu.{GLIBC[0]}.{GLIBC[1]}"
        command = [python, "-m", "ziglang", "cc", "-target", of, *build.FLAGS, "-s"]
        command += [str(build.SOURCES[0]), "-o", str(target), *build.LIBRARIES]
        subprocess.run(command, check=True)
        target.chmod(0o644)
        print(f"{target.relative_to(ROOT)}: {target.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
