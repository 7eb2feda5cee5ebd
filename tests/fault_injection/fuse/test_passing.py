"""Effects of a disk in user space on each call, without any mount."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path

import pytest

from fault_injection.call_proof import PREFIX
from fault_injection.fuse.passing import PassingDisk
from fault_injection.preload import CallClass, Control, Rule
from fault_injection.preload.judge import Judge

POINT = "/disks/1"
NOW, OMIT = (1 << 30) - 1, (1 << 30) - 2


class Passing:
    """A disk that would be mounted at POINT, and its two files of rules."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "below"
        self.folder.mkdir()
        self.rules, self.of_proofs = (Control.create(folder / name) for name in ("rules", "proofs"))
        self.disk = PassingDisk(
            str(self.folder),
            POINT,
            judge=Judge(self.rules),
            proofs=Judge(self.of_proofs),
            caller=lambda: (os.geteuid(), os.getegid(), os.getpid()),
        )


@pytest.fixture
def passing(tmp_path: Path) -> Passing:
    return Passing(tmp_path)


def fails(control: Control, calls: CallClass, path: str = POINT) -> None:
    control.impose(Rule(directory=Path(path), calls=calls, errno=errno.EIO))


def test_calls_are_made_on_the_folder_below(passing: Passing) -> None:
    passing.disk.mkdir("/orders-0", 0o755)
    fd = passing.disk.create("/orders-0/0.log", 0o644, os.O_RDWR | os.O_APPEND)
    assert passing.disk.write("/orders-0/0.log", b"records", 0, fd) == 7
    # Where a record goes is the kernel's decision, appended or not.
    assert passing.disk.write("/orders-0/0.log", b"R", 0, fd) == 1
    assert passing.disk.read("/orders-0/0.log", 100, 0, fd) == b"Records"
    passing.disk.release(None, fd)

    passing.disk.rename("/orders-0/0.log", "/orders-0/7.log")

    assert (passing.folder / "orders-0" / "7.log").read_bytes() == b"Records"
    found = passing.disk.getattr("/orders-0/7.log")
    assert found["st_ino"] == (passing.folder / "orders-0" / "7.log").stat().st_ino


def test_rules_name_files_as_they_are_seen_through_the_disk(passing: Passing) -> None:
    fails(passing.rules, CallClass.CREATE, f"{POINT}/orders-0")

    passing.disk.mkdir("/orders-1", 0o755)
    with pytest.raises(OSError, match="Input/output error"):
        passing.disk.mkdir("/orders-0", 0o755)

    assert [path.name for path in passing.folder.iterdir()] == ["orders-1"]


def test_a_file_that_is_removed_and_open_is_known_by_its_last_name(passing: Passing) -> None:
    fd = passing.disk.create("/0.log", 0o644, os.O_RDWR)
    passing.disk.unlink("/0.log")
    passing.disk._point = str(passing.folder)
    fails(passing.rules, CallClass.WRITE, str(passing.folder / "0.log"))

    with pytest.raises(OSError, match="Input/output error"):
        passing.disk.write(None, b"x", 0, fd)
    passing.disk.release(None, fd)


def test_files_of_proofs_follow_rules_of_their_own(passing: Passing) -> None:
    fails(passing.of_proofs, CallClass.CREATE)
    passing.disk.mkdir("/orders-0", 0o755)
    with pytest.raises(OSError, match="Input/output error"):
        passing.disk.mkdir(f"/{PREFIX}1", 0o755)

    passing.of_proofs.clear()
    fails(passing.rules, CallClass.CREATE)
    passing.disk.mkdir(f"/{PREFIX}1", 0o755)
    assert passing.rules.counters_of(0).seen == 0


def test_a_directory_is_judged_once_for_opening_and_listing_it(passing: Passing) -> None:
    passing.disk.mkdir("/orders-0", 0o755)
    old = passing.disk.opendir("/orders-0")
    counter = passing.rules.impose(
        Rule(directory=Path(POINT), calls=CallClass.LIST, errno=errno.EIO, after=1)
    )

    new = passing.disk.opendir("/orders-0")
    assert [name for name, _, _ in passing.disk.readdir("/orders-0", new)] == [".", ".."]
    assert passing.rules.counters_of(counter).seen == 1
    with pytest.raises(OSError, match="Input/output error"):
        passing.disk.readdir("/orders-0", old)
    for fd in (old, new):
        passing.disk.releasedir(None, fd)


def test_times_are_set_to_what_is_said_to_now_or_not_at_all(passing: Passing) -> None:
    file = passing.folder / "0.log"
    file.touch()
    before_ns = time.time_ns()

    passing.disk.utimens("/0.log", (NOW, 10**18))
    assert file.stat().st_atime_ns >= before_ns
    assert file.stat().st_mtime_ns == 10**18

    passing.disk.utimens("/0.log", (2 * 10**18, OMIT))
    assert (file.stat().st_atime_ns, file.stat().st_mtime_ns) == (2 * 10**18, 10**18)
