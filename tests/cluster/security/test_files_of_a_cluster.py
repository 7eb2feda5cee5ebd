"""Owners and rights of the files of a cluster, for other users of the machine."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.machine import programs
from lab.machine.folders import make_folder, remove_folder
from lab.machine.processes import ServerUser

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root starts servers as another user"),
]

NOBODY = ServerUser(uid=65534, gid=65534)
PUBLIC = {"ca.pem", "data"}
"""The authority's certificate, and the file that a fault puts in the place of a directory."""


@pytest.fixture(params=["", "sasl_ssl"], ids=["open", "closed"])
def tree(request: pytest.FixtureRequest) -> Iterator[Path]:
    """All that is there while a cluster runs that root started with the widest umask."""
    folder = make_folder()
    jbodlab = programs.tool()
    variables = {**os.environ, "JBODLAB_STATE_DIR": str(folder / "state")}

    def run(*words: str) -> None:
        subprocess.run([*jbodlab, *words], env=variables, umask=0, check=True, timeout=120)

    security = ["--security", request.param] if request.param else []
    try:
        run("up", "--brokers", "1", "--disks", "2", *security)
        run("inject", "slow", "broker-1/1", "--for", "60s")
        run("inject", "file-in-place", "broker-1/2", "--for", "60s")
        yield folder / "state"
    finally:
        run("down")
        remove_folder(folder)


def test_no_other_user_writes_anything_or_reads_what_is_not_for_all(tree: Path) -> None:
    found = {path: state for path in (tree, *tree.rglob("*")) if (state := _state(path))}
    files = [path for path, state in found.items() if not stat.S_ISLNK(state.st_mode)]

    assert [path for path in files if found[path].st_mode & 0o022] == []
    owners = {found[path].st_uid for path in files}
    assert owners == {0, programs.DEFAULT_UID}
    rules = tree / "clusters" / "default" / "broker-1" / "preloaded-faults"
    assert stat.S_IMODE(rules.stat().st_mode) == 0o600

    plain = [path for path in files if path.is_file()]
    read = NOBODY.ask(lambda: list(filter(_may_read, plain)))
    assert [path for path in read if path.name not in PUBLIC] == []


def _state(path: Path) -> os.stat_result | None:
    """Return the state of a file, if it is still there: servers remove some all the time."""
    try:
        return path.lstat()
    except FileNotFoundError:
        return None


def _may_read(path: Path) -> bool:
    try:
        with path.open("rb"):
            return True
    except (PermissionError, FileNotFoundError):
        return False
