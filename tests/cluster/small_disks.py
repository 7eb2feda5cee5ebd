"""Log directories on disks of their own that tests may fill or slow down; root only.

A `FillableDisk` is a tmpfs of a few MiB. A `ThrottledDisk` is an ext4 file system in a file, on a
loop device whose writes the kernel's blkio controller holds back on demand: every fsync then really
takes long, for everybody who uses that disk and for nobody else.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cluster.harness import CONTROLLER_ID, Cluster

WRITE_IOPS = Path("/sys/fs/cgroup/blkio/blkio.throttle.write_iops_device")
FILLER = "filler"


class FillableDisk:
    """A tmpfs at a path."""

    def __init__(self, path: Path, *, size_mib: int = 64) -> None:
        self.path = path
        path.mkdir(parents=True, exist_ok=True)
        run("mount", "-t", "tmpfs", "-o", f"size={size_mib}m,mode=755", "tmpfs", str(path))

    def free_bytes(self) -> int:
        found = os.statvfs(self.path)
        return found.f_bavail * found.f_frsize

    def fill(self, leave_bytes: int) -> None:
        """Write a file beside the log directory until so many bytes are left."""
        with (self.path / FILLER).open("ab") as file:
            while (missing := self.free_bytes() - leave_bytes) > 0:
                file.write(bytes(min(missing, 1 << 20)))
                file.flush()

    def empty(self) -> None:
        """Remove that file."""
        (self.path / FILLER).unlink()

    def close(self) -> None:
        run("umount", "-l", str(self.path))


class ThrottledDisk:
    """An ext4 file system on a loop device at a path; the image lies beside it."""

    def __init__(self, path: Path, *, size_mib: int = 64) -> None:
        self.path = path
        self._image = path.with_name(f"{path.name}.img")
        path.mkdir(parents=True, exist_ok=True)
        with self._image.open("wb") as file:
            file.truncate(size_mib << 20)
        # Without a journal a sync is a few writes, so that it is slow but not for seconds.
        run("mkfs.ext4", "-q", "-O", "^has_journal", str(self._image))
        self._device = run("losetup", "--find", "--show", str(self._image))
        run("mount", self._device, str(path))
        number = Path(self._device).stat().st_rdev
        self._number = f"{os.major(number)}:{os.minor(number)}"

    def throttle(self, writes_per_second: int) -> None:
        """Hold writes back; 0 lets them go."""
        WRITE_IOPS.write_text(f"{self._number} {writes_per_second}\n")

    def close(self) -> None:
        self.throttle(0)
        run("umount", "-l", str(self.path))
        run("losetup", "--detach", self._device)


class DiskCluster(Cluster):
    """A cluster whose brokers have disks of their own, made before the brokers are formatted."""

    def __init__(
        self,
        root: Path,
        *,
        disk: Callable[[Path], FillableDisk | ThrottledDisk] = FillableDisk,
        brokers: int = 3,
        dirs: int = 2,
        settings: dict[str, str] | None = None,
    ) -> None:
        self.disks: dict[Path, FillableDisk | ThrottledDisk] = {}
        self.scrape: Callable[[int], dict[str, float]] = lambda _node: {}
        self._disk = disk
        try:
            super().__init__(root, brokers=brokers, dirs=dirs, settings=settings)
        except BaseException:
            self.close()
            raise

    def _write_node(self, node: int) -> None:
        for path in [] if node == CONTROLLER_ID else self.log_dirs(node):
            self.disks[path] = self._disk(path.parent)
        super()._write_node(node)

    def fillable(self, directory: Path) -> FillableDisk:
        disk = self.disks[directory]
        assert isinstance(disk, FillableDisk)
        return disk

    def throttled(self, directory: Path) -> ThrottledDisk:
        disk = self.disks[directory]
        assert isinstance(disk, ThrottledDisk)
        return disk

    def close(self) -> None:
        """Stop everything and give the disks back."""
        for disk in self.disks.values():
            if isinstance(disk, ThrottledDisk):
                disk.throttle(0)
        self.stop()
        for disk in self.disks.values():
            disk.close()
        shutil.rmtree(self.root, ignore_errors=True)


def run(*command: str) -> str:
    done = subprocess.run(command, check=True, timeout=60, capture_output=True, text=True)
    return done.stdout.strip()


def why_no_mounts() -> str:
    """Why disks of a size cannot be made here; empty if they can."""
    if os.geteuid() != 0:
        return "only root may mount"
    probe = Path("/tmp") / f"jbodlab-mount-{os.getpid()}"
    try:
        FillableDisk(probe, size_mib=1).close()
    except (OSError, subprocess.SubprocessError) as error:
        return f"mounting is not allowed here: {error}"
    finally:
        probe.rmdir()
    return ""


def why_no_throttle() -> str:
    """Why disks cannot be slowed down here; empty if they can."""
    if os.geteuid() != 0:
        return "only root may throttle a disk"
    if not WRITE_IOPS.exists():
        return "the blkio controller of cgroup v1 is not there"
    missing = [name for name in ("losetup", "mkfs.ext4") if shutil.which(name) is None]
    if missing:
        return f"{missing[0]} is not installed"
    probe = Path("/tmp") / f"jbodlab-throttle-{os.getpid()}"
    try:
        disk = ThrottledDisk(probe, size_mib=4)
        try:
            disk.throttle(1_000)
        finally:
            disk.close()
    except (OSError, subprocess.SubprocessError) as error:
        return f"loop devices cannot be made or throttled here: {error}"
    finally:
        shutil.rmtree(probe, ignore_errors=True)
        probe.with_name(f"{probe.name}.img").unlink(missing_ok=True)
    return ""


def require(reason: str) -> None:
    if reason:
        pytest.skip(reason)
