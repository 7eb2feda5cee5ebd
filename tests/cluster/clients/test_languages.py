"""Clients of the HTTP API for Java, Go and Node: their own tests, each on a cluster of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lab.machine.folders import make_folder, remove_folder

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

CLIENTS = Path(__file__).resolve().parents[3] / "clients"
COMMANDS = {
    "go": ("go", "test", "-count=1", "./..."),
    "node": ("node", "--test", "--test-timeout", "300000"),
    "java": ("mvn", "-q", "-B", "test"),
}


@pytest.mark.parametrize("language", COMMANDS)
def test_the_client_passes_its_own_tests(language: str, tmp_path: Path) -> None:
    command = COMMANDS[language]
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not on the path")
    state = make_folder()
    program = tmp_path / "jbodlab"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m jbodlab "$@"\n')
    program.chmod(0o755)
    try:
        done = subprocess.run(
            command,
            cwd=CLIENTS / language,
            env={**os.environ, "JBODLAB": str(program), "JBODLAB_STATE_DIR": str(state)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=540,
            check=False,
        )
        if "Could not resolve dependencies" in done.stdout:
            pytest.skip("Maven's packages cannot be had")
        assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]
        assert not any((state / "clusters").glob("*/")), "a cluster has stayed"
    finally:
        remove_folder(state)
