"""Faults of real directories beyond those of the fault tool, each with its undoing.

chmod000, readonly, file, delete    as the fault injector makes them
noexec      chmod 666: entries cannot be reached
chmod555    the directory alone loses its write bits; open files and subfolders keep theirs
empty       an empty directory takes its place: a disk was unmounted
loop        a symbolic link that leads to itself takes its place
dangling    a symbolic link to nothing takes its place
mount_ro    a read-only mount (needs root)
mount_over  an empty disk is mounted over it (needs root)
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from fault_injection import kinds, operations
from lab.cluster.faults import Fault
from lab.cluster.spec import CONTROLLER_ID
from tests.cluster.harness import Cluster, wait_for

TOOL_KINDS = {
    "chmod000": "permission",
    "readonly": "read-only-bits",
    "file": "file-in-place",
    "delete": "deleted",
}
PLAIN_KINDS = (*TOOL_KINDS, "noexec", "chmod555", "empty", "loop", "dangling")
ROOT_KINDS = ("mount_ro", "mount_over")
KINDS = PLAIN_KINDS + (ROOT_KINDS if os.geteuid() == 0 else ())


class DiskFaults:
    """The faults that were made in a cluster; `heal_all` undoes them."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._undo: dict[Path, Callable[[], object]] = {}

    def make(self, kind: str, path: Path) -> Path:
        """Break a directory; returns it."""
        assert path not in self._undo
        if kind in TOOL_KINDS:
            self._undo[path] = self._fault(kind, path).heal
            return path
        match kind:
            case "noexec" | "chmod555":
                path.chmod(0o666 if kind == "noexec" else 0o555)
                self._undo[path] = lambda: path.chmod(0o755)
            case "mount_ro" | "mount_over":
                self._mount(kind, path)
            case _:
                self._replace(kind, path)
        return path

    def _fault(self, kind: str, path: Path) -> Fault:
        if path == self._cluster.node(CONTROLLER_ID).metadata_dir:
            target = operations.directory_target(str(path), None)
            return self._cluster.faults.inject(kinds.spec(TOOL_KINDS[kind]), target)
        return self._cluster.log_dir_at(path).fails(TOOL_KINDS[kind])

    def heal(self, path: Path) -> None:
        """Undo the fault of a directory."""
        self._undo.pop(path)()

    def heal_all(self) -> None:
        """Undo everything, the newest first."""
        for path in reversed(list(self._undo)):
            self.heal(path)

    def _replace(self, kind: str, path: Path) -> None:
        aside = path.with_name(f"{path.name}-aside")
        path.rename(aside)
        match kind:
            case "empty":
                path.mkdir()
                self._cluster.own(path)
            case "loop":
                path.symlink_to(path)
            case "dangling":
                path.symlink_to(path.with_name("nothing"))
            case _:
                raise ValueError(kind)

        def undo() -> None:
            if path.is_symlink():
                path.unlink()
            else:
                # Until the broker noticed it may have written a checkpoint there.
                shutil.rmtree(path)
            aside.rename(path)

        self._undo[path] = undo

    def _mount(self, kind: str, path: Path) -> None:
        if kind == "mount_over":
            _run("mount", "-t", "tmpfs", "-o", "size=1m,mode=755", "tmpfs", str(path))
        else:
            _run("mount", "--bind", str(path), str(path))
        self._undo[path] = lambda: _run("umount", "-l", str(path))
        if kind == "mount_ro":
            # Refused while somebody has a file open for writing that was opened through it.
            wait_for(
                "a read-only mount", lambda: _runs("mount", "-o", "remount,bind,ro", str(path))
            )


def _run(*command: str) -> None:
    subprocess.run(command, check=True, timeout=60, capture_output=True)


def _runs(*command: str) -> bool:
    return subprocess.run(command, check=False, timeout=60, capture_output=True).returncode == 0
