"""Log directories on disks of their own that tests may fill or slow down; root only.

A `FillableDisk` is a tmpfs of a few MiB. A `ThrottledDisk` is an ext4 file system in a file, on a
loop device whose writes the kernel's blkio controller holds back on demand: every fsync then really
takes long, for everybody who uses that disk and for nobody else.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lab.cluster import wait_for
from tests.cluster.lab_cluster import Cluster
from tests.cluster.scenes import Scene, Stages
from tests.cluster.scraper import Scraper

WRITE_IOPS = Path("/sys/fs/cgroup/blkio/blkio.throttle.write_iops_device")
FILLER = "filler"
DISK_BYTES = 64 << 20


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
        """Remove that file, if there is one."""
        (self.path / FILLER).unlink(missing_ok=True)

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
        # The device goes with its last mount, also with one that somebody else undoes.
        run("losetup", "--detach", self._device)
        number = Path(self._device).stat().st_rdev
        self._number = f"{os.major(number)}:{os.minor(number)}"

    def throttle(self, writes_per_second: int) -> None:
        """Hold writes back; 0 lets them go."""
        WRITE_IOPS.write_text(f"{self._number} {writes_per_second}\n")

    def close(self) -> None:
        self.throttle(0)
        run("umount", "-l", str(self.path))


@contextmanager
def scene_on_small_disks(stages: Stages) -> Iterator[Scene]:
    """A scene of three brokers with three disks of 64 MiB each, which are empty at its begin."""
    require(why_no_mounts())
    with stages.of(brokers=3, dirs=3, disk=FillableDisk).scene() as scene:
        wait_for("room on every disk", lambda: _all_have_room(scene.cluster))
        yield scene
        for disk in scene.cluster.disks.values():
            assert isinstance(disk, FillableDisk)
            disk.empty()


def _all_have_room(cluster: Cluster) -> bool:
    scrape = Scraper(cluster)
    told = {broker: scrape(broker) for broker in cluster.broker_ids}
    return all(
        told[broker.id][f'jbodlab_log_dir_usable_bytes{{logDirectory="{path}"}}'] > 0.9 * DISK_BYTES
        and told[broker.id][f'jbodlab_log_dir_full{{logDirectory="{path}"}}'] == 0
        for broker in cluster.brokers
        for path in broker.paths
    )


def fillable(cluster: Cluster, directory: Path) -> FillableDisk:
    disk = cluster.disks[directory]
    assert isinstance(disk, FillableDisk)
    return disk


def throttled(cluster: Cluster, directory: Path) -> ThrottledDisk:
    disk = cluster.disks[directory]
    assert isinstance(disk, ThrottledDisk)
    return disk


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
