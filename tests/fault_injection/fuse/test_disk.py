"""Disks in user space: what is on them is intact, what breaks, and that nothing is left of them."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import mmap
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fault_injection import check, kinds, operations, registry
from fault_injection.check import User
from fault_injection.errors import FaultError
from fault_injection.fuse import disk as disks
from fault_injection.fuse import machine
from fault_injection.journal import Fault, read_all
from fault_injection.mechanism import Target, TargetBroker
from fault_injection.mechanisms import balloon
from fault_injection.preload import CallClass, Control, Rule
from jbodlab.cli import lab_state
from jbodlab.cli.program import main
from lab.machine.waiting import wait_for
from tests.fault_injection import making
from tests.fault_injection.fuse_disks import ServedDisk, served
from tests.fault_injection.patient import DEADLINE_S, SERVER_UID, Call, Patient

pytestmark = pytest.mark.process

USER = User(SERVER_UID, SERVER_UID) if os.geteuid() == 0 else User(os.geteuid(), os.getegid())
AT_FDCWD, RENAME_EXCHANGE = -100, 2
HANGING_CALLS = 40
"""More than the ten threads that libfuse has unless told otherwise."""


@pytest.fixture
def disk() -> Iterator[ServedDisk]:
    with served() as disk:
        yield disk


@pytest.fixture
def log_dir(disk: ServedDisk) -> Path:
    """A log directory on the disk, with a replica in it."""
    path = disk.point / "data"
    (path / "orders-0").mkdir(parents=True)
    (path / "orders-0" / "0.log").write_bytes(b"records")
    if os.geteuid() == 0:
        for each in (path, *path.rglob("*")):
            os.chown(each, SERVER_UID, SERVER_UID)
    return path


def target(path: Path) -> Target:
    return operations.directory_target(str(path), None)


def journal_of(disk: ServedDisk) -> Path:
    return disk.folder / "faults.jsonl"


def inject(disk: ServedDisk, path: Path, kind: str, **words: object) -> Fault:
    return making.inject(journal_of(disk), kind, target(path), **words)


def heal(disk: ServedDisk, fault: Fault) -> str:
    return making.heal(journal_of(disk), fault)[1].note


def error_of(path: Path) -> int:
    return check.create_error(path, USER)


# Its content is intact


def test_files_are_those_of_the_folder_below_with_all_that_is_known_of_them(
    disk: ServedDisk,
) -> None:
    file = disk.point / "a"
    file.write_bytes(b"12345")
    file.chmod(0o640)
    os.utime(file, ns=(10**18, 2 * 10**18))
    (disk.point / "link").symlink_to("a")
    (disk.point / "b").hardlink_to(file)
    seen = {name: (disk.point / name).lstat() for name in ("a", "b", "link")}
    said = disk.said
    disk.remove()

    for name, through in seen.items():
        below = (disk.point / name).lstat()
        assert (through.st_ino, through.st_mode, through.st_size) == (
            below.st_ino,
            below.st_mode,
            below.st_size,
        )
        assert (through.st_uid, through.st_gid, through.st_mtime_ns) == (
            below.st_uid,
            below.st_gid,
            below.st_mtime_ns,
        )
    assert said == ""


def test_a_listing_names_everything_with_the_inodes_of_the_folder(disk: ServedDisk) -> None:
    for number in range(300):
        (disk.point / f"replica-{number}").mkdir()
    listed = {entry.name: (entry.inode(), entry.is_dir()) for entry in os.scandir(disk.point)}
    disk.remove()

    below = {entry.name: (entry.inode(), entry.is_dir()) for entry in os.scandir(disk.point)}
    assert len(listed) == 300
    assert listed == below


def test_files_belong_to_who_makes_them(disk: ServedDisk) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    patient = Patient(disk.folder, {})
    made = patient.directory(str(disk.point / "d1"))
    patient.kill()

    owners = {(path.lstat().st_uid, path.lstat().st_gid) for path in (made, *made.rglob("*"))}
    assert owners == {(SERVER_UID, SERVER_UID)}


def test_who_may_not_write_to_the_folder_may_not_write_to_the_disk(disk: ServedDisk) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    disk.point.chmod(0o700)

    assert check.create_error(disk.point, User(SERVER_UID + 1, SERVER_UID + 1)) == errno.EACCES
    assert error_of(disk.point) == 0


def test_locks_keep_others_out(disk: ServedDisk) -> None:
    with (disk.point / ".lock").open("w") as ours, (disk.point / ".lock").open("w") as theirs:
        fcntl.flock(ours, fcntl.LOCK_EX)

        with pytest.raises(BlockingIOError):
            fcntl.flock(theirs, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_what_is_written_to_a_mapped_file_is_in_the_file(disk: ServedDisk) -> None:
    fd = os.open(disk.point / "0.index", os.O_RDWR | os.O_CREAT)
    os.ftruncate(fd, 8192)
    with mmap.mmap(fd, 8192) as mapped:
        mapped[4096:4101] = b"entry"
        mapped.flush()
        assert os.pread(fd, 5, 4096) == b"entry"
    os.close(fd)
    disk.remove()

    assert (disk.point / "0.index").read_bytes()[4096:4101] == b"entry"


def test_what_is_appended_is_read_at_once_through_another_handle(disk: ServedDisk) -> None:
    with (
        (disk.point / "0.log").open("ab", buffering=0) as log,
        (disk.point / "0.log").open("rb", buffering=0) as reader,
    ):
        for number in range(100):
            log.write(b"%6d" % number)
            assert reader.read() == b"%6d" % number


def test_a_folder_goes_though_a_file_of_it_is_still_open(disk: ServedDisk) -> None:
    (disk.point / "orders-0-delete").mkdir()
    with (disk.point / "orders-0-delete" / "0.log").open("w+b", buffering=0) as log:
        log.write(b"records")
        (disk.point / "orders-0-delete" / "0.log").unlink()
        (disk.point / "orders-0-delete").rmdir()

        assert os.pread(log.fileno(), 7, 0) == b"records"
    assert list(disk.point.iterdir()) == []


def test_a_renaming_that_cannot_be_made_is_refused(disk: ServedDisk) -> None:
    (disk.point / "a").write_text("a")
    (disk.point / "b").write_text("b")
    old, new = (bytes(disk.point / name) for name in ("a", "b"))

    exchanged = ctypes.CDLL(None).renameat2(AT_FDCWD, old, AT_FDCWD, new, RENAME_EXCHANGE)

    assert exchanged == -1
    assert [(disk.point / name).read_text() for name in ("a", "b")] == ["a", "b"]
    (disk.point / "a").replace(disk.point / "b")
    assert (disk.point / "b").read_text() == "a"


def test_what_was_read_is_kept_in_memory_while_others_append(disk: ServedDisk) -> None:
    with (disk.point / "0.log").open("w+b", buffering=0) as log:
        log.write(bytes(8192))
        assert os.pread(log.fileno(), 8192, 0) == bytes(8192)
        control = Control.open(disk.rules)
        counter = control.impose(Rule(directory=disk.point, calls=CallClass.READ, delay_ms=1))

        log.write(b"appended")
        assert os.pread(log.fileno(), 4096, 0) == bytes(4096)

        assert control.counters_of(counter).seen == 0


# A breaking disk


def test_reading_fails_though_the_kernel_had_it_in_memory(disk: ServedDisk, log_dir: Path) -> None:
    fd = os.open(log_dir / "orders-0" / "0.log", os.O_RDONLY)
    assert os.pread(fd, 7, 0) == b"records"
    fault = inject(disk, log_dir, "eio", calls="read")

    with pytest.raises(OSError, match="Input/output error"):
        os.pread(fd, 7, 0)

    assert operations.broken(fault).count >= 1
    heal(disk, fault)
    assert os.pread(fd, 7, 0) == b"records"
    os.close(fd)


def test_what_is_written_to_a_mapped_file_fails_when_it_is_synced(
    disk: ServedDisk, log_dir: Path
) -> None:
    fd = os.open(log_dir / "0.index", os.O_RDWR | os.O_CREAT)
    os.ftruncate(fd, 4096)
    with mmap.mmap(fd, 4096) as mapped:
        mapped[0] = 1
        fault = inject(disk, log_dir, "eio", calls="write")
        mapped[1] = 1
        with pytest.raises(OSError, match="Input/output error"):
            mapped.flush()
        assert operations.broken(fault).count >= 1
        heal(disk, fault)
    os.close(fd)


def test_a_listing_through_an_old_handle_fails_too(disk: ServedDisk, log_dir: Path) -> None:
    fd = os.open(log_dir, os.O_RDONLY | os.O_DIRECTORY)
    assert os.listdir(fd) == ["orders-0"]  # noqa: PTH208 - by its handle
    fault = inject(disk, log_dir, "eio", calls="list")

    with pytest.raises(OSError, match="Input/output error"):
        os.listdir(fd)  # noqa: PTH208

    heal(disk, fault)
    os.close(fd)


def test_whoever_injects_can_still_look_where_everything_hangs(
    disk: ServedDisk, log_dir: Path
) -> None:
    first = inject(disk, log_dir, "hang")

    second = inject(disk, log_dir, "eio", calls="rename")

    for fault in (second, first):
        heal(disk, fault)
    assert error_of(log_dir) == 0


@pytest.fixture
def patient(disk: ServedDisk) -> Iterator[Patient]:
    """A process with a directory on the disk, none of whose calls hangs for ever."""
    patient = Patient(disk.folder, {})
    yield patient
    disk.clear()
    patient.kill()


def holds(disk: ServedDisk, patient: Patient, path: Path, hang_s: float = DEADLINE_S) -> Call:
    """Let a call of the patient hang that holds a directory in the kernel."""
    rule = Rule(directory=path, calls=CallClass.CREATE, hang_s=hang_s)
    Control.open(disk.rules).impose(rule)
    call = patient.order("create", path)
    wait_for("a call that hangs", lambda: _broken(disk), DEADLINE_S)
    return call


def test_a_proof_comes_back_though_a_call_that_hangs_holds_the_directory(
    disk: ServedDisk, patient: Patient
) -> None:
    path = patient.directory(str(disk.point / "d1"))
    call = holds(disk, patient, path)

    began = time.monotonic()
    fault = inject(disk, path, "hang")
    assert time.monotonic() - began < DEADLINE_S / 2
    assert call.answer.empty()

    heal(disk, fault)
    disk.clear()
    assert call.outcome().errno == 0
    wait_for("a proof that removes its file", lambda: not list(path.glob(".jbod-*")), DEADLINE_S)


def test_a_directory_that_is_held_is_no_neighbour_to_prove_in(
    disk: ServedDisk, patient: Patient
) -> None:
    path, other = (patient.directory(f"{disk.point}/{name}") for name in ("d1", "d2"))
    holds(disk, patient, other)
    known = TargetBroker(name="broker-1", folder=disk.folder, log_dirs=(path, other))

    began = time.monotonic()
    place = operations.directory_target(str(path), None, known)
    fault = making.inject(journal_of(disk), "eio", place)

    assert fault.state == "proved"
    assert time.monotonic() - began < DEADLINE_S / 2
    heal(disk, fault)


def test_calls_go_on_while_many_others_hang(disk: ServedDisk, log_dir: Path) -> None:
    fault = inject(disk, log_dir, "hang", calls="sync", for_="60s")
    handles = [os.open(log_dir / f"{n}", os.O_CREAT | os.O_WRONLY) for n in range(HANGING_CALLS)]
    threads = [threading.Thread(target=os.fsync, args=(fd,)) for fd in handles]
    for thread in threads:
        thread.start()
    wait_for("all of them", lambda: operations.broken(fault).count == HANGING_CALLS, DEADLINE_S)

    began = time.monotonic()
    (log_dir / "another").write_text("goes on")
    took_s = time.monotonic() - began

    heal(disk, fault)
    for thread in threads:
        thread.join(DEADLINE_S)
    for fd in handles:
        os.close(fd)
    assert took_s < 10


def test_a_disk_is_full_by_its_calls_and_by_no_balloon(
    disk: ServedDisk, log_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault = inject(disk, log_dir, "full")

    assert fault.mechanism == "fuse"
    assert error_of(log_dir) == errno.ENOSPC
    heal(disk, fault)
    # It would fill the disk that the folder is on, which may be the machine's.
    monkeypatch.setattr(balloon, "SIZE_BYTES_MAX", 1 << 60)
    found = registry.check(kinds.spec("full", {"mechanism": "balloon"}), target(log_dir))
    assert found == f"{log_dir} is not on a disk of its own"


def test_a_fault_heals_by_itself_and_its_process_says_so(disk: ServedDisk, log_dir: Path) -> None:
    fault = inject(disk, log_dir, "eio", for_="2s")
    assert error_of(log_dir) == errno.EIO

    def healed() -> bool:
        return read_all(journal_of(disk))[fault.fault_id].state == "healed"

    wait_for("its healing", healed, DEADLINE_S)
    assert error_of(log_dir) == 0
    assert Control.open(disk.rules).in_force == []


# That nothing is left


def test_a_disk_that_hangs_is_unmounted_and_who_hung_goes_on(
    disk: ServedDisk, patient: Patient
) -> None:
    path = patient.directory(str(disk.point / "d1"))
    call = holds(disk, patient, path, hang_s=600)

    found = disks.of(disk.point)
    assert found is not None
    disks.unmount(found)

    assert call.outcome().errno == 0
    assert disks.of(disk.point) is None
    patient.kill()
    disk.process.wait(DEADLINE_S)
    assert not disk.rules.exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_process_that_is_asked_to_end_answers_what_hangs_and_unmounts_its_disk(
    disk: ServedDisk, patient: Patient, number: signal.Signals
) -> None:
    path = patient.directory(str(disk.point / "d1"))
    call = holds(disk, patient, path, hang_s=600)

    disk.process.send_signal(number)

    assert call.outcome().errno == 0
    patient.kill()
    assert disk.process.wait(DEADLINE_S) == 0
    assert disks.of(disk.point) is None
    assert not disk.rules.exists()
    assert not disks.proofs_of(disk.rules).exists()
    assert (path / "handle.log").stat().st_size == 8192


def test_healing_unmounts_a_disk_whose_process_was_killed(disk: ServedDisk, log_dir: Path) -> None:
    fault = inject(disk, log_dir, "eio")
    disk.process.kill()
    disk.process.wait(DEADLINE_S)
    with pytest.raises(OSError, match="not connected"):
        os.listdir(log_dir)  # noqa: PTH208 - at once

    note = heal(disk, fault)

    assert note == f"the process that served {disk.point} has ended; the disk was unmounted"
    assert disks.of(disk.point) is None
    assert not disk.rules.exists()
    assert error_of(log_dir) == 0


def test_the_next_command_unmounts_a_disk_whose_process_was_killed(
    disk: ServedDisk, log_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inject(disk, log_dir, "eio")
    disk.process.kill()
    disk.process.wait(DEADLINE_S)
    monkeypatch.setenv(lab_state.STATE_DIR_VARIABLE, str(tmp_path))
    lab_state.journal_file(tmp_path).write_bytes(journal_of(disk).read_bytes())
    monkeypatch.setattr("lab.machine.interrupts.Interrupts.install", lambda _: None)

    assert main(["faults", "list"]) == 0

    assert disks.of(disk.point) is None
    assert not disk.rules.exists()
    assert (log_dir / "orders-0" / "0.log").read_bytes() == b"records"


# Unsupported kinds


def test_what_is_known_of_a_file_is_always_told(disk: ServedDisk, log_dir: Path) -> None:
    with pytest.raises(FaultError, match="it cannot break the calls stat"):
        inject(disk, log_dir, "eio", calls="stat,write", mechanism="fuse")

    fault = inject(disk, log_dir, "eio")
    assert (log_dir / "orders-0" / "0.log").stat().st_size == len(b"records")
    heal(disk, fault)


def test_a_directory_on_another_disk_is_refused(tmp_path: Path) -> None:
    found = registry.check(kinds.spec("eio", {"mechanism": "fuse"}), target(tmp_path))

    assert found == (
        f"{tmp_path} is not on a disk of kind fuse: start its cluster with `jbodlab up --kind fuse`"
    )


def test_the_next_fault_unmounts_a_disk_whose_process_was_killed(
    disk: ServedDisk, log_dir: Path
) -> None:
    disk.process.kill()
    disk.process.wait(DEADLINE_S)

    with pytest.raises(FaultError, match="is not on a disk of kind fuse"):
        inject(disk, log_dir, "eio", mechanism="fuse")

    assert disks.of(disk.point) is None
    assert not disk.rules.exists()


def test_a_disk_that_nobody_serves_is_refused(disk: ServedDisk, log_dir: Path) -> None:
    wanted = target(log_dir)
    disk.process.kill()
    disk.process.wait(DEADLINE_S)

    found = registry.check(kinds.spec("eio", {"mechanism": "fuse"}), wanted)

    assert found == f"the process that served {disk.point} has ended"


def test_a_machine_without_the_package_says_so_before_anything_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(machine, "PACKAGE", "nothing_of_this_name")

    assert machine.refusal() == (
        "FUSE needs the package nothing_of_this_name: pip install 'jbodlab[fuse]'"
    )


def test_a_machine_without_the_device_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if machine.refusal():
        pytest.skip(machine.refusal())
    monkeypatch.setattr(machine, "DEVICE", tmp_path / "fuse")

    assert machine.refusal() == (
        f"FUSE needs {tmp_path}/fuse, which uid {os.geteuid()} cannot open "
        "(No such file or directory)"
    )


def test_a_folder_that_is_not_there_ends_the_process_in_one_line(tmp_path: Path) -> None:
    if machine.refusal():
        pytest.skip(machine.refusal())
    command = disks.command(tmp_path / "missing", tmp_path / "rules", sys.executable)

    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=DEADLINE_S)

    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        f"{tmp_path}/missing cannot be served: [Errno 2] No such file or directory: "
        f"'{tmp_path}/missing'"
    ]
    assert list(tmp_path.iterdir()) == []


def test_a_disk_whose_rules_are_taken_leaves_them_alone(disk: ServedDisk, tmp_path: Path) -> None:
    command = disks.command(tmp_path, disk.rules, sys.executable)

    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=DEADLINE_S)

    assert done.returncode == 1
    assert done.stderr == f"cannot make the control file {disk.rules}: File exists\n"
    assert disk.rules.exists()
    with pytest.raises(FaultError, match="File exists"):
        disks.wait_mounted(tmp_path, _ended(), _written(tmp_path, done.stderr))


def _ended() -> subprocess.Popen[bytes]:
    process = subprocess.Popen(["true"])
    process.wait(DEADLINE_S)
    return process


def _written(folder: Path, text: str) -> Path:
    file = folder / "output"
    file.write_text(text)
    return file


def _broken(disk: ServedDisk) -> int:
    control = Control.open(disk.rules)
    return sum(control.counters_of(armed.counter).broken for armed in control.in_force)
