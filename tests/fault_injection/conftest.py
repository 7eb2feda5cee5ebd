"""A directory with a broker's user, and the command line tool."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from jbodlab.cli.program import main

REPOSITORY = Path(__file__).resolve().parents[2]
SERVER_UID = 1500

Jbodlab = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def disk() -> Iterator[Path]:
    """A folder that the broker's user reaches, unlike pytest's own, which are closed to others."""
    folder = Path(tempfile.mkdtemp(prefix="jbod-fault-test-"))
    folder.chmod(0o755)
    if os.geteuid() == 0:
        os.chown(folder, SERVER_UID, SERVER_UID)
    yield folder
    for parent, names, _ in os.walk(folder):
        for name in names:
            if not (Path(parent) / name).is_symlink():
                (Path(parent) / name).chmod(0o755)
    shutil.rmtree(folder)


@pytest.fixture
def log_dir(disk: Path) -> Path:
    """A log directory that belongs to the broker's user, with a replica in it."""
    directory = disk / "data"
    replica = directory / "foo-0"
    replica.mkdir(parents=True)
    (directory / "meta.properties").write_text("version=1\n")
    (replica / "00000000000000000000.log").write_bytes(b"records")
    (replica / "00000000000000000000.log").chmod(0o640)
    directory.chmod(0o750)
    if os.geteuid() == 0:
        for path in (directory, replica, *directory.rglob("*")):
            os.chown(path, SERVER_UID, SERVER_UID)
    return directory


@pytest.fixture
def state_dir(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def jbodlab(state_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Jbodlab:
    """The program in this process."""
    monkeypatch.setattr("lab.machine.interrupts.Interrupts.install", lambda _: None)
    monkeypatch.setenv("JBODLAB_STATE_DIR", str(state_dir))

    def run(*arguments: object, cwd: Path = REPOSITORY) -> subprocess.CompletedProcess[str]:
        out, err = io.StringIO(), io.StringIO()
        words = [str(argument) for argument in arguments]
        with contextlib.chdir(cwd), redirect_stdout(out), redirect_stderr(err):
            code = main(words)
        return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())

    return run
