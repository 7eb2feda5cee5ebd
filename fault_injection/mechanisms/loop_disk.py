"""Real failures of a real file system: ext4 on a loop device, whose image lies in a file.

    eio          the file system is shut down: every call that reaches it fails, `stat` and listing
                 go on answering from memory, as with dying disks
    hang         it is frozen: writing calls do not return
    power-loss   the broker is killed and the file system shut down without writing its journal;
                 mounted again it has what was synced

A file system that was shut down is dead for as long as anybody holds a file in it, mounted anew or
not. A broker that lives keeps its lock file open; so `eio` heals by a copy of the image, mounted
over the dead one, which the broker finds when the directory is revived.
"""

from __future__ import annotations

import fcntl
import itertools
import os
import shutil
import struct
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from fault_injection import check, mounts, process_control
from fault_injection.call_proof import HANGS_AFTER_S, PREFIX
from fault_injection.check import User
from fault_injection.errors import FaultError
from fault_injection.journal import Fault
from fault_injection.kinds import FaultSpec
from fault_injection.mechanism import Broken, Healing, RecordUndo, Start, Target
from fault_injection.mechanisms.file_operations import replicas_in
from fault_injection.mounts import Mount

_SHUTDOWN = 0x8004587D
_FULLY_WRITTEN, _WITHOUT_JOURNAL = 0, 2
_FREEZE, _THAW = 0xC0045877, 0xC0045878


class LoopDisk:
    """The mechanism `loop`."""

    def refusal(self, spec: FaultSpec, target: Target) -> str:
        if spec.calls is not None or spec.percent != 100 or spec.files != "*":
            return "it can only break all calls on all files"
        if spec.kind == "eio" and spec.errno != 5:
            return "it can only fail calls with EIO"
        directories = _directories(target)
        if not directories:
            return "the broker has no log directory"
        for path in directories:
            if reason := _why_no_loop_disk(path, target):
                return reason
        if os.geteuid() != 0:
            return "only root may shut down a file system"
        if spec.kind == "power-loss":
            if target.broker is None:
                return f"the broker of {target.path} is unknown: name the broker too"
            return process_control.refusal(target.broker, must_run=True)
        return ""

    def prepare(self, spec: FaultSpec, target: Target, fault_id: int) -> dict[str, Any]:
        directories = _directories(target)
        undo: dict[str, Any] = {
            "directories": [str(path) for path in directories],
            "disks": [str(_disk(path).point) for path in directories],
            "images": [str(_image(_disk(path))) for path in directories],
            "replicas": sum(map(replicas_in, directories)),
        }
        if spec.kind == "power-loss":
            assert target.broker is not None
            undo |= process_control.planned(target.broker)
            undo["proofs"] = [str(path / f"{PREFIX}{fault_id}") for path in directories]
        return undo

    def make(self, fault: Fault, record: RecordUndo, start: Start) -> int | None:
        match fault.kind:
            case "hang":
                for disk in fault.undo["disks"]:
                    _ioctl(disk, _FREEZE, 0)
            case "eio":
                for disk in fault.undo["disks"]:
                    _ioctl(disk, _SHUTDOWN, _FULLY_WRITTEN)
            case _:
                struck_ns = process_control.end(fault, cleanly=False)
                for file in fault.undo["proofs"]:
                    Path(file).write_bytes(b"never synced\n")
                for disk in fault.undo["disks"]:
                    _ioctl(disk, _SHUTDOWN, _WITHOUT_JOURNAL)
                _mount_again(fault.undo["disks"], fault.undo["images"])
                return struck_ns
        return None

    def verify(self, fault: Fault) -> str:
        """Try, as the broker's user, to create a file; look for what was never synced."""
        user = User(fault.uid, fault.gid)
        for text in fault.undo["directories"]:
            path = Path(text)
            if fault.kind == "hang":
                if not check.hangs(path, user, HANGS_AFTER_S):
                    return f"uid {fault.uid} can still create files in {path}"
            elif fault.kind == "eio" and not check.create_error(path, user):
                return f"uid {fault.uid} can still create files in {path}"
        if fault.kind == "power-loss":
            if process_control.is_struck_alive(fault):
                return f"{fault.broker} still runs"
            for file in fault.undo["proofs"]:
                if Path(file).exists():
                    Path(file).unlink()
                    return f"a file that was never synced still exists: {file}"
        return ""

    def undo(self, fault: Fault, start: Start) -> Healing:
        """Thaw the disk, or mount it again; after a power loss the broker is started."""
        disks, images = fault.undo["disks"], fault.undo["images"]
        if fault.kind == "hang":
            for disk in disks:
                # EINVAL: it is not frozen, or not any more.
                with suppress(OSError):
                    _ioctl(disk, _THAW, 0)
            return Healing()
        if fault.kind == "power-loss":
            _mount_again(disks, images)
            if process_control.running(fault) is None:
                start(fault)
            return Healing()
        notes = [
            note for disk, image in zip(disks, images, strict=True) if (note := _renew(disk, image))
        ]
        return Healing(
            note="; ".join(notes),
            next_step="the broker uses the directory again once it is revived",
        )

    def broken(self, fault: Fault) -> Broken:
        return Broken(what="replicas", count=fault.undo["replicas"])


def _directories(target: Target) -> tuple[Path, ...]:
    if target.directory is not None:
        return (target.directory,)
    assert target.broker is not None
    return target.broker.log_dirs


def _why_no_loop_disk(path: Path, target: Target) -> str:
    disk = mounts.own_disk(path)
    if disk is None or disk.kind != "ext4" or not disk.source.startswith("/dev/loop"):
        return target.advice.not_on("loop", path)
    return "" if _image(disk).exists() else f"the image of {disk.point} does not exist"


def _disk(path: Path) -> Mount:
    found = mounts.own_disk(path)
    assert found is not None
    return found


def _image(disk: Mount) -> Path:
    file = Path("/sys/block", Path(disk.source).name, "loop", "backing_file")
    try:
        return Path(os.fsdecode(file.read_bytes().strip()))
    except OSError:
        return Path("/nonexistent")


def _ioctl(disk: str, number: int, argument: int) -> None:
    fd = os.open(disk, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.ioctl(fd, number, struct.pack("I", argument))
    finally:
        os.close(fd)


def _is_alive(disk: str) -> bool:
    """Return whether a file system still writes."""
    file = Path(disk, f"{PREFIX}{os.getpid()}")
    try:
        file.write_bytes(b"x")
        file.unlink()
    except OSError:
        return False
    return True


def _mount_again(disks: Sequence[str], images: Sequence[str]) -> None:
    """Mount disks anew that nobody uses any more; harmless where that was done."""
    for disk, image in zip(disks, images, strict=True):
        if not (Path(disk).is_mount() and _is_alive(disk)):
            if Path(disk).is_mount():
                mounts.unmount(Path(disk))
            _mount(image, disk)


def _renew(disk: str, image: str) -> str:
    """Mount a disk again that was shut down; returns what had to be done about its users."""
    if Path(disk).is_mount() and _is_alive(disk):
        return ""
    if not mounts.error_of(["umount", disk]):
        _mount(image, disk)
        return ""
    names = (f"{image}.copy-{number}" for number in itertools.count(1))
    copy = next(path for path in map(Path, names) if not path.exists())
    try:
        mounts.run(["cp", "--sparse=always", image, str(copy)])
        shutil.copymode(image, copy)
        _mount(str(copy), disk)
    except (OSError, FaultError):
        copy.unlink(missing_ok=True)
        raise
    return f"a copy of the image is mounted over {disk}, the broker still uses the dead one"


def _mount(image: str, disk: str) -> None:
    mounts.run(["mount", "-o", "loop", image, disk])
