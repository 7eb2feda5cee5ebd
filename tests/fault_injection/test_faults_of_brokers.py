"""Faults of processes, and of directories whose broker is stopped for them.

The broker is a process that sleeps; what is struck and brought back counts here, not what it does.
"""

from __future__ import annotations

import os
import platform
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fault_injection import kinds, operations, process_control, processes, timer
from fault_injection.errors import FaultError
from fault_injection.journal import Fault, open_journal, read_all
from fault_injection.mechanism import Patient, Target
from jbodlab.lab_state import ProcessState
from lab.cluster.waiting import wait_for
from tests.fault_injection.patient import DEADLINE_S, SERVER_UID

pytestmark = pytest.mark.process

SLEEPING = "import signal, time; signal.signal(15, lambda *_: exit(0)); time.sleep(600)"
# It takes a while to end, as a broker does that hands its leadership over.
TAKES_TO_END_S = 0.5
ENDS_SLOWLY = SLEEPING.replace("exit(0)", f"(time.sleep({TAKES_TO_END_S}), exit(0))")


class Bed:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.journal = folder / "faults.jsonl"
        self.log_dirs = tuple(folder / "broker-1" / name for name in ("d1", "d2"))
        for number, path in enumerate(self.log_dirs):
            (path / f"orders-{number}").mkdir(parents=True)
            (path / "meta.properties").write_text(f"directory.id={number}\n")
            (path / "meta.properties").chmod(0o640)
        self.command = [sys.executable, "-c", SLEEPING, str(uuid.uuid4())]
        self.child: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.child = subprocess.Popen(self.command, start_new_session=True, cwd="/")

    def start_anew(self) -> None:
        """Replace the process by one that has this process's environment of now."""
        assert self.child is not None
        self.child.kill()
        self.child.wait(DEADLINE_S)
        self.start()
        self.wait_running()

    @property
    def process(self) -> ProcessState | None:
        return processes.with_command(self.command)

    @property
    def patient(self) -> Patient:
        return Patient(
            name="broker-1",
            folder=self.folder / "broker-1",
            log_dirs=self.log_dirs,
            process=self.process,
        )

    def target(self, directory: Path | None = None) -> Target:
        if directory is None:
            return operations.broker_target(self.patient, os.geteuid(), os.getegid())
        return operations.directory_target(str(directory), None, self.patient)

    def inject(self, kind: str, target: Target, **words: object) -> Fault:
        spec = kinds.spec(kind, {key.removesuffix("_"): value for key, value in words.items()})
        with open_journal(self.journal) as journal:
            return operations.inject(
                spec, target, journal, start=process_control.start, set_timer=timer.spawn
            )

    def heal(self, fault: Fault) -> Fault:
        with open_journal(self.journal) as journal:
            operations.heal(fault.fault_id, journal, start=process_control.start)
            return journal.faults[fault.fault_id]

    def wait_running(self) -> ProcessState:
        return wait_for("the process runs again", lambda: self.process, DEADLINE_S)

    def content(self) -> dict[str, str]:
        """All files by their paths, with what is in them."""
        top = self.folder / "broker-1"
        return {
            str(path.relative_to(top)): path.read_text() if path.is_file() else "folder"
            for path in sorted(top.rglob("*"))
        }


@pytest.fixture
def bed() -> Iterator[Bed]:
    folder = Path(tempfile.mkdtemp(prefix="jbod-fault-test-"))
    folder.chmod(0o755)
    bed = Bed(folder)
    if os.geteuid() == 0:
        for path in folder.rglob("*"):
            os.chown(path, SERVER_UID, SERVER_UID)
    bed.start()
    bed.wait_running()
    yield bed
    while (found := bed.process) is not None:
        processes.send(found, signal.SIGKILL)
        processes.wait_ended([found], DEADLINE_S)
    if bed.child is not None:
        bed.child.wait(DEADLINE_S)
    shutil.rmtree(folder)


@pytest.mark.parametrize("kind", ["kill", "stop"])
def test_an_ended_process_is_started_again_as_it_was_when_it_is_healed(bed: Bed, kind: str) -> None:
    before = bed.process
    fault = bed.inject(kind, bed.target())

    assert bed.process is None
    assert bed.child is not None
    assert (bed.child.wait(DEADLINE_S) == -signal.SIGKILL) == (kind == "kill")
    healed = bed.heal(fault)

    assert bed.wait_running() != before
    assert (fault.state, healed.state) == ("proved", "healed")


def test_a_restart_is_another_process_at_once(bed: Bed) -> None:
    before = bed.process

    fault = bed.inject("restart", bed.target())

    assert bed.wait_running() != before
    bed.heal(fault)


@pytest.mark.parametrize("kind", ["stop", "restart"])
def test_a_fault_of_a_process_takes_effect_when_it_is_struck(bed: Bed, kind: str) -> None:
    assert bed.child is not None
    bed.child.kill()
    bed.child.wait(DEADLINE_S)
    bed.command[2] = ENDS_SLOWLY
    bed.start()
    wait_for("a process that listens to signals", lambda: _catches(bed.process, signal.SIGTERM))

    fault = bed.inject(kind, bed.target())
    ended_ns = time.monotonic_ns()

    assert fault.injected_ns is not None
    assert ended_ns - fault.injected_ns >= TAKES_TO_END_S * 1e9
    assert read_all(bed.journal)[fault.fault_id].injected_ns == fault.injected_ns
    bed.heal(fault)


def _catches(process: ProcessState | None, number: signal.Signals) -> bool:
    if process is None:
        return False
    status = Path(f"/proc/{process.pid}/status").read_text()
    caught = next(line for line in status.splitlines() if line.startswith("SigCgt:"))
    return bool(int(caught.split()[1], 16) >> (number - 1) & 1)


def test_an_ended_process_starts_by_itself_after_the_length_of_its_fault(bed: Bed) -> None:
    fault = bed.inject("kill", bed.target(), for_="300ms")

    bed.wait_running()

    wait_for(
        "the fault's end", lambda: not read_all(bed.journal)[fault.fault_id].is_open, DEADLINE_S
    )


def test_whoever_waits_to_heal_a_fault_ends_when_it_is_healed_earlier(bed: Bed) -> None:
    fault = bed.inject("permission", bed.target(bed.log_dirs[0]), for_="10m")
    waiting = read_all(bed.journal)[fault.fault_id].timer
    assert waiting is not None
    assert processes.is_alive(waiting)

    bed.heal(fault)

    assert processes.wait_ended([waiting], DEADLINE_S) == []


def test_a_broker_that_does_not_run_cannot_be_killed(bed: Bed) -> None:
    fault = bed.inject("kill", bed.target())

    with pytest.raises(FaultError, match="has an open fault already, number 1"):
        bed.inject("kill", bed.target())
    with pytest.raises(FaultError, match="nothing injected: broker-1 does not run"):
        bed.inject("stop", bed.target())
    bed.heal(fault)


@pytest.mark.parametrize(
    "name",
    [
        "SOMEBODYS_TOKEN",
        "KAFKA_SSL_KEY_PASSWORD",
        "JAVA_TOOL_OPTIONS",
        "JBODLAB_TOKEN",
        "PYTHON_KEYRING_PASSWORD",
        "XDG_SECRET",
        "LOG_DIR_PASSWORD",
    ],
)
def test_the_journal_keeps_no_secrets_of_the_environment(
    bed: Bed, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "hush")
    bed.start_anew()
    fault = bed.inject("restart", bed.target())
    bed.heal(fault)

    assert "hush" not in bed.journal.read_text()


def test_the_journal_is_readable_by_its_owner_only(bed: Bed) -> None:
    bed.journal.touch(mode=0o644)

    bed.heal(bed.inject("kill", bed.target()))

    assert stat.S_IMODE(bed.journal.stat().st_mode) == 0o600


def test_swapped_directories_are_back_in_their_places_after_healing(bed: Bed) -> None:
    before, (d1, d2) = bed.content(), bed.log_dirs
    fault = bed.inject("swapped", bed.target(d1), with_=str(d2))

    assert (d1 / "meta.properties").read_text() == "directory.id=1\n"
    assert (d2 / "meta.properties").read_text() == "directory.id=0\n"
    bed.wait_running()
    bed.heal(fault)

    assert bed.content() == before
    bed.wait_running()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")
def test_directories_on_two_disks_are_swapped_too(bed: Bed) -> None:
    d1, d2 = bed.log_dirs
    for path in bed.log_dirs:
        number = (path / "meta.properties").read_text()
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(path)], check=True)
        (path / "meta.properties").write_text(number)
        os.chown(path, SERVER_UID, SERVER_UID)
    try:
        before = bed.content()
        fault = bed.inject("swapped", bed.target(d1), with_=str(d2))
        assert (d1 / "meta.properties").read_text() == "directory.id=1\n"
        bed.heal(fault)
        assert bed.content() == before
    finally:
        for path in bed.log_dirs:
            subprocess.run(["umount", str(path)], check=True)


def test_an_emptied_directory_has_all_back_and_what_came_meanwhile_is_kept(bed: Bed) -> None:
    before, d1 = bed.content(), bed.log_dirs[0]
    fault = bed.inject("emptied", bed.target(d1))
    assert list(d1.iterdir()) == []
    assert d1.stat().st_mode & 0o777 == 0o755
    (d1 / "later").write_text("kept")

    bed.heal(fault)

    after = bed.content()
    kept = {path for path in after if "jbod-kept" in path}
    assert {after[path] for path in kept} == {"folder", "kept"}
    assert {path: text for path, text in after.items() if path not in kept} == before


def test_a_twin_carries_the_others_id_until_it_is_healed(bed: Bed) -> None:
    before, (d1, d2) = bed.content(), bed.log_dirs
    fault = bed.inject("twin", bed.target(d1), with_=str(d2))
    assert (d1 / "meta.properties").read_text() == (d2 / "meta.properties").read_text()
    owner = (d1 / "meta.properties").stat()
    assert (owner.st_mode & 0o777, owner.st_uid) == (0o640, d1.stat().st_uid)

    bed.heal(fault)

    assert bed.content() == before


class CutError(BaseException):
    """Ends an injection as a signal does."""


def cut_after(renames: int) -> Callable[[Path, Path], Path]:
    """Return a `Path.rename` that ends everything after so many."""
    rename, left = Path.rename, iter(range(renames))

    def counted(path: Path, target: Path) -> Path:
        if next(left, None) is None:
            raise CutError
        return rename(path, target)

    return counted


@pytest.mark.parametrize(
    ("kind", "renames"),
    [("swapped", 0), ("swapped", 1), ("swapped", 2), ("emptied", 0), ("twin", 0)],
)
def test_an_interruption_at_any_step_is_healed_from_the_journal(
    bed: Bed, kind: str, renames: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, (d1, d2) = bed.content(), bed.log_dirs
    words = {} if kind == "emptied" else {"with": str(d2)}
    monkeypatch.setattr(Path, "rename", cut_after(renames))
    with pytest.raises(CutError):
        bed.inject(kind, bed.target(d1), **words)
    monkeypatch.undo()
    fault = read_all(bed.journal)[1]
    assert fault.state == "planned"

    bed.heal(fault)

    assert bed.content() == before
    bed.wait_running()


def test_a_process_has_not_ended_before_its_last_thread() -> None:
    exit_of_a_thread = {"x86_64": 60, "aarch64": 93}.get(platform.machine())
    if exit_of_a_thread is None:
        pytest.skip("the number of the call that ends a thread is not known here")
    script = (
        "import ctypes, sys, threading; "
        "threading.Thread(target=sys.stdin.read).start(); "
        f"print('begun', flush=True); ctypes.CDLL(None).syscall({exit_of_a_thread}, 0)"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == b"begun\n"
        found = processes.find(child.pid)
        assert found is not None
        wait_for(
            "the end of the first thread",
            lambda: (processes.stat(child.pid) or [""])[processes.STATE] in processes.ENDED,
            DEADLINE_S,
        )

        assert processes.is_alive(found)
        child.kill()
        assert processes.wait_ended([found], DEADLINE_S) == []
    finally:
        child.kill()
        child.communicate()
