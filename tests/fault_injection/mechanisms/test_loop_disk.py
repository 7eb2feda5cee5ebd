"""Faults that need a disk of its own: it is full, it fails, it loses its power."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from fault_injection import check, kinds, mounts, operations, process_control, processes, registry
from fault_injection.check import User
from fault_injection.errors import FaultError
from fault_injection.journal import Fault
from fault_injection.mechanism import TargetBroker
from lab.machine.waiting import wait_for
from tests.fault_injection import making
from tests.fault_injection.patient import DEADLINE_S, SERVER_UID

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount"),
]
USER = User(SERVER_UID, SERVER_UID)
SLEEPING = "import sys, time; held = open(sys.argv[2], 'a'); time.sleep(600)"


class Bed:
    """A directory on a disk of 16 MiB, and a process that may hold a file in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.disk = folder / "disk"
        self.path = self.disk / "data"
        self.patient = TargetBroker(name="broker-1", folder=folder, log_dirs=(self.path,))
        self.child: subprocess.Popen[bytes] | None = None

    def mount(self, kind: str) -> None:
        self.disk.mkdir()
        if kind == "tmpfs":
            run("mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(self.disk))
        else:
            image = self.folder / "disk.img"
            image.touch()
            os.truncate(image, 16 << 20)
            run("mkfs.ext4", "-q", "-F", "-m", "0", str(image))
            run("mount", "-o", "loop", str(image), str(self.disk))
        self.path.mkdir()
        os.chown(self.path, SERVER_UID, SERVER_UID)

    def hold(self) -> None:
        """Start a process that keeps a file of the directory open."""
        command = [sys.executable, "-c", SLEEPING, str(uuid.uuid4()), str(self.path / "held")]
        self.child = subprocess.Popen(command, start_new_session=True, cwd="/", user=SERVER_UID)
        wait_for("a file held open", (self.path / "held").exists, DEADLINE_S)
        self.patient = TargetBroker(
            name="broker-1",
            folder=self.folder,
            log_dirs=(self.path,),
            process=processes.with_command(command),
        )

    def inject(self, kind: str, **words: object) -> Fault:
        target = operations.directory_target(str(self.path), None, self.patient)
        return making.inject(self.folder / "faults.jsonl", kind, target, **words)

    def heal(self, fault: Fault) -> Fault:
        return making.heal(self.folder / "faults.jsonl", fault)[0]

    def error(self) -> int:
        return check.create_error(self.path, USER)


def run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


@pytest.fixture
def bed() -> Iterator[Bed]:
    folder = Path(tempfile.mkdtemp(prefix="jbod-fault-test-"))
    folder.chmod(0o755)
    bed = Bed(folder)
    yield bed
    for pid, _ in processes.everybody():
        if any(str(folder) in word for word in processes.command(pid)[3:]):
            found = processes.find(pid)
            if found is not None:
                processes.send(found, signal.SIGKILL)
                processes.wait_ended([found], DEADLINE_S)
    if bed.child is not None:
        bed.child.wait(DEADLINE_S)
    for mount in reversed(mounts.all_mounts()):
        if folder in mount.point.parents:
            run("umount", str(mount.point))
    shutil.rmtree(folder)


@pytest.mark.parametrize("kind", ["tmpfs", "loop"])
@pytest.mark.parametrize("leave", [0, 2 << 20])
def test_a_full_disk_has_as_much_space_as_was_left(bed: Bed, kind: str, leave: int) -> None:
    bed.mount(kind)
    fault = bed.inject("full", leave=leave)

    assert fault.mechanism == "balloon"
    assert check.create_error(bed.path, USER, leave + (1 << 20)) == errno.ENOSPC
    if leave:
        assert check.create_error(bed.path, USER, leave // 2) == 0
    assert operations.broken(fault).count > 8 << 20

    bed.heal(fault)
    assert check.create_error(bed.path, USER, 8 << 20) == 0
    assert [path.name for path in bed.disk.iterdir() if path.name.startswith(".jbod")] == []


def test_a_disk_that_is_shared_is_not_filled(bed: Bed) -> None:
    bed.path.mkdir(parents=True)
    target = operations.directory_target(str(bed.path), None)

    assert "is not on a disk of its own" in registry.check(kinds.spec("full"), target)


def test_a_shut_down_file_system_is_mounted_again(bed: Bed) -> None:
    bed.mount("loop")
    (bed.path / "kept").write_text("all of it")
    fault = bed.inject("eio", mechanism="loop")
    assert bed.error() == errno.EIO

    bed.heal(fault)

    assert bed.error() == 0
    assert (bed.path / "kept").read_text() == "all of it"


def test_a_disk_whose_files_are_held_heals_by_a_copy_of_its_image(bed: Bed) -> None:
    bed.mount("loop")
    bed.hold()
    fault = bed.inject("eio", mechanism="loop")

    healed = bed.heal(fault)

    assert bed.error() == 0
    assert (bed.path / "held").exists()
    assert healed.state == "healed"
    assert len([one for one in mounts.all_mounts() if one.point == bed.disk]) == 2


def test_power_loss_takes_what_was_never_synced_and_the_process(bed: Bed) -> None:
    bed.mount("loop")
    bed.hold()
    fd = os.open(bed.path / "log", os.O_CREAT | os.O_WRONLY, 0o644)
    os.write(fd, b"a" * 4096)
    os.fsync(fd)
    os.write(fd, b"b" * 4096)
    os.close(fd)

    fault = bed.inject("power-loss")

    assert process_control.running(fault) is None
    assert (bed.path / "log").read_bytes() == b"a" * 4096
    bed.heal(fault)
    assert process_control.runs_again(fault)


def test_a_frozen_disk_goes_on_when_it_is_healed(bed: Bed) -> None:
    bed.mount("loop")
    fault = bed.inject("hang", mechanism="loop")
    assert check.hangs(bed.path, USER, 0.1)

    bed.heal(fault)

    assert bed.error() == 0


@pytest.mark.parametrize(
    ("kind", "words", "reason"),
    [
        ("eio", {"calls": "sync"}, "it can only break all calls on all files"),
        ("eio", {"errno": "ENOSPC"}, "it can only fail calls with EIO"),
        ("power-loss", {}, "broker-1 does not run"),
    ],
)
def test_what_a_loop_disk_cannot_make_is_refused(
    bed: Bed, kind: str, words: dict[str, object], reason: str
) -> None:
    bed.mount("loop")

    with pytest.raises(FaultError, match=reason):
        bed.inject(kind, mechanism="loop", **words)

    assert bed.error() == 0
