"""A full disk that really is full: a file takes all space of a small disk but what is left free."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from fault_injection import check, control_groups, mounts
from fault_injection.check import User
from fault_injection.fuse import disk as fuse_disk
from fault_injection.journal import Fault
from fault_injection.kinds import FaultSpec
from fault_injection.mechanism import Broken, Healing, RecordUndo, Start, Target

SIZE_BYTES_MAX = 16 << 30
"""Larger disks are filled by rules for calls, if at all."""
_STEP_BYTES = 64 << 20
_PROOF_BYTES = 1 << 20


class Balloon:
    """The mechanism `balloon`."""

    def refusal(self, spec: FaultSpec, target: Target) -> str:
        disk = mounts.own_disk(target.path)
        if disk is None or disk.kind == fuse_disk.KIND:
            return f"{target.path} is not on a disk of its own"
        found = os.statvfs(disk.point)
        if found.f_blocks * found.f_frsize > SIZE_BYTES_MAX:
            return f"the disk {disk.point} is larger than {SIZE_BYTES_MAX >> 30} GiB"
        if (
            disk.kind == "tmpfs"
            and found.f_bavail * found.f_frsize > control_groups.free_memory() // 2
        ):
            return f"filling {disk.point} would take more than half of the free memory"
        if not os.access(disk.point, os.W_OK):
            return f"this user may not write to {disk.point}"
        return ""

    def prepare(self, spec: FaultSpec, target: Target, fault_id: int) -> dict[str, Any]:
        disk = mounts.own_disk(target.path)
        assert disk is not None
        file = disk.point / f".jbod-balloon-{fault_id}"
        return {"file": str(file), "leave": spec.leave_bytes}

    def make(self, fault: Fault, record: RecordUndo, start: Start) -> None:
        """Let the file grow until no more is free than shall be."""
        file, leave = Path(fault.undo["file"]), fault.undo["leave"]
        fd = os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            step, size = _STEP_BYTES, 0
            while (free := _free_bytes(fd)) > leave and step:
                step = min(step, free - leave)
                try:
                    os.posix_fallocate(fd, size, step)
                    size += step
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
                    step //= 2
        finally:
            os.close(fd)

    def verify(self, fault: Fault) -> str:
        """Write a little more than is left free."""
        size = fault.undo["leave"] + _PROOF_BYTES
        code = check.create_error(fault.path, User(fault.uid, fault.gid), size)
        if code == errno.ENOSPC:
            return ""
        return f"uid {fault.uid} can still write {size} bytes to {fault.path}" + (
            f" ({os.strerror(code)})" if code else ""
        )

    def undo(self, fault: Fault, start: Start) -> Healing:
        with suppress(FileNotFoundError):
            Path(fault.undo["file"]).unlink()
        return Healing()

    def broken(self, fault: Fault) -> Broken:
        size = 0
        with suppress(FileNotFoundError):
            size = Path(fault.undo["file"]).stat().st_size
        return Broken(what="bytes", count=size)


def _free_bytes(fd: int) -> int:
    found = os.fstatvfs(fd)
    return found.f_bavail * found.f_frsize
