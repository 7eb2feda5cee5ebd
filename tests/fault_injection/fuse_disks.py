"""Disks in user space for tests: mounted over a folder of their own, and gone afterwards."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from fault_injection import mounts
from fault_injection.errors import FaultError
from fault_injection.fuse import disk as disks
from fault_injection.fuse import machine
from fault_injection.preload import Control
from tests.fault_injection.patient import DEADLINE_S, REPOSITORY, SERVER_UID


class ServedDisk:
    """A disk and the process that serves it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.point = folder / "disk"
        self.rules = folder / "disk.rules"
        self.output = folder / "disk.log"
        self.point.mkdir()
        if os.geteuid() == 0:
            for each in (folder, self.point):
                os.chown(each, SERVER_UID, SERVER_UID)
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                disks.command(self.point, self.rules),
                cwd="/",
                env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        disks.wait_mounted(self.point, self.process, self.output)

    @property
    def said(self) -> str:
        """The lines that its process has printed, but for what libfuse 3.14 says at every start."""
        lines = self.output.read_text().splitlines()
        return "\n".join(line for line in lines if "Ignoring invalid max threads" not in line)

    def clear(self) -> None:
        """Let everything go on."""
        for file in (self.rules, disks.proofs_of(self.rules)):
            with suppress(FaultError):
                Control.open(file).clear()

    def remove(self) -> None:
        """Unmount it, and see that it ends."""
        found = disks.of(self.point)
        if found is not None:
            disks.unmount(found)
        try:
            self.process.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise AssertionError("a disk that was unmounted is still served") from None


@contextmanager
def served() -> Iterator[ServedDisk]:
    """A disk that the servers' user may write to; whatever else is mounted on it goes too."""
    if reason := machine.refusal():
        pytest.skip(reason)
    folder = Path(tempfile.mkdtemp(prefix="jbod-fault-test-"))
    folder.chmod(0o755)
    disk = None
    try:
        disk = ServedDisk(folder)
        yield disk
    finally:
        if disk is not None:
            disk.clear()
            disk.remove()
        for mount in mounts.all_mounts():
            assert folder not in mount.point.parents, f"{mount.point} is still mounted"
        shutil.rmtree(folder)
