"""A broker that is a process that sleeps: what ends and starts it counts, not what it does."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fault_injection import operations, processes
from fault_injection.journal import Fault
from fault_injection.mechanism import Target, TargetBroker
from jbodlab.cli.lab_state import ProcessState
from lab.machine.waiting import wait_for
from tests.fault_injection import making
from tests.fault_injection.patient import DEADLINE_S, SERVER_UID

SLEEPING = "import signal, time; signal.signal(15, lambda *_: exit(0)); time.sleep(600)"


class Bed:
    """A process that sleeps as a broker of two log directories, and the journal of its faults."""

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
        self.end_allowed = folder / "end-allowed"

    def start(self) -> None:
        self.child = subprocess.Popen(self.command, start_new_session=True, cwd="/")

    def start_anew(self) -> None:
        """Replace the process by one that has this process's environment of now."""
        assert self.child is not None
        self.child.kill()
        self.child.wait(DEADLINE_S)
        self.start()
        self.wait_running()

    def replace(self, script: str) -> None:
        """Run something else in its place, from when it listens to SIGTERM on."""
        self.command[2] = script
        self.start_anew()
        wait_for("a process that listens to signals", lambda: _catches(self.process))

    def allow_end_by(self, script: str) -> None:
        """Run a script that does not end before `end_allowed` exists, named by its argument."""
        self.command[3] = str(self.end_allowed)
        self.replace(script)

    @property
    def process(self) -> ProcessState | None:
        return processes.with_command(self.command)

    @property
    def patient(self) -> TargetBroker:
        return TargetBroker(
            name="broker-1",
            folder=self.folder / "broker-1",
            log_dirs=self.log_dirs,
            process=self.process,
        )

    def target(self, directory: Path | None = None) -> Target:
        if directory is None:
            return Target(broker=self.patient, uid=os.geteuid(), gid=os.getegid())
        return operations.directory_target(str(directory), None, self.patient)

    def inject(self, kind: str, target: Target, **words: object) -> Fault:
        return making.inject(self.journal, kind, target, **words)

    def heal(self, fault: Fault) -> Fault:
        return making.heal(self.journal, fault)[0]

    def wait_running(self) -> ProcessState:
        return wait_for("the process runs again", lambda: self.process, DEADLINE_S)

    def content(self) -> dict[str, str]:
        """All files by their paths, with what is in them."""
        top = self.folder / "broker-1"
        return {
            str(path.relative_to(top)): path.read_text() if path.is_file() else "folder"
            for path in sorted(top.rglob("*"))
        }


def _catches(process: ProcessState | None) -> bool:
    if process is None:
        return False
    status = Path(f"/proc/{process.pid}/status").read_text()
    caught = next(line for line in status.splitlines() if line.startswith("SigCgt:"))
    return bool(int(caught.split()[1], 16) >> (signal.SIGTERM - 1) & 1)


@contextmanager
def running_bed() -> Iterator[Bed]:
    """A broker that runs; whoever runs its command at the end is killed."""
    folder = Path(tempfile.mkdtemp(prefix="jbod-fault-test-"))
    folder.chmod(0o755)
    bed = Bed(folder)
    if os.geteuid() == 0:
        for path in folder.rglob("*"):
            os.chown(path, SERVER_UID, SERVER_UID)
    bed.start()
    bed.wait_running()
    try:
        yield bed
    finally:
        while (found := bed.process) is not None:
            processes.send(found, signal.SIGKILL)
            processes.wait_ended([found], DEADLINE_S)
        if bed.child is not None:
            bed.child.wait(DEADLINE_S)
        shutil.rmtree(folder)
