"""The Docker engine of this machine."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def missing_engine() -> str | None:
    """Why nothing can be run in a container here; None where it can."""
    if shutil.which("docker") is None:
        return "docker is not installed"
    answered = subprocess.run(["docker", "info"], capture_output=True, timeout=60, check=False)
    if answered.returncode != 0:
        return "no Docker engine answers"
    return None


def docker(*arguments: str, deadline_s: float = 120) -> str:
    """Ask the engine itself, which takes a hundredth of the time that Compose takes."""
    done = subprocess.run(
        ["docker", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=deadline_s,
        check=False,
    )
    assert done.returncode == 0, f"{arguments}: {done.stdout[-3000:]}"
    return done.stdout
