"""A fault with a length heals by itself, in time, whatever becomes of whoever injected it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from fault_injection import processes
from fault_injection.errors import FaultError
from fault_injection.journal import Fault, Journal, open_journal, read_all, read_faults
from fault_injection.mechanisms.directories import Directories
from fault_injection.mechanisms.file_operations import FileOperations
from lab.machine.waiting import wait_for
from tests.fault_injection import making
from tests.fault_injection.patient import DEADLINE_S, REPOSITORY
from tests.fault_injection.sleeping_broker import Bed, running_bed

pytestmark = pytest.mark.process

INJECTOR = """
import sys, time
from pathlib import Path
from fault_injection import operations
from fault_injection.mechanisms import file_operations
from tests.fault_injection import making

def stand_still(*_):
    print("here", flush=True)
    time.sleep(600)

owner, name = {
    "after the timer": (file_operations.FileOperations, "make"),
    "after the first change": (file_operations, "_write_marker"),
    "during the proof": (file_operations.FileOperations, "verify"),
}[sys.argv[1]]
setattr(owner, name, stand_still)
target = operations.directory_target(sys.argv[3], None)
making.inject(Path(sys.argv[2]), "file-in-place", target, for_="1s")
"""
ENDS_WHEN_ALLOWED = """
import os, signal, sys, time
def end(*_):
    while not os.path.exists(sys.argv[1]):
        time.sleep(0.01)
    exit(0)
signal.signal(15, end)
while True:
    time.sleep(600)
"""


@pytest.fixture
def bed() -> Iterator[Bed]:
    with running_bed() as bed:
        yield bed


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


@pytest.mark.parametrize("step", ["after the timer", "after the first change", "during the proof"])
def test_a_fault_is_reverted_though_its_injector_was_killed(bed: Bed, step: str) -> None:
    before, directory = bed.content(), bed.log_dirs[0]
    with subprocess.Popen(
        [sys.executable, "-c", INJECTOR, step, str(bed.journal), str(directory)],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        stdout=subprocess.PIPE,
    ) as injector:
        assert injector.stdout is not None
        assert injector.stdout.readline() == b"here\n"
        assert (bed.content() == before) == (step == "after the timer")
        injector.kill()

    wait_for("the fault's end", lambda: not read_faults(bed.journal), DEADLINE_S)

    assert read_all(bed.journal)[1].state == "healed"
    assert bed.content() == before


def test_a_fault_is_reverted_in_time_while_another_one_is_still_being_made(bed: Bed) -> None:
    bed.allow_end_by(ENDS_WHEN_ALLOWED)
    with ThreadPoolExecutor(1) as other:
        stopping = other.submit(bed.inject, "stop", bed.target())
        wait_for("the other fault", lambda: 1 in read_all(bed.journal), DEADLINE_S)

        bed.inject("permission", bed.target(bed.log_dirs[0]), for_="300ms")
        wait_for("the fault's end", lambda: len(read_faults(bed.journal)) == 1, DEADLINE_S)

        assert not stopping.done()
        bed.end_allowed.touch()
        bed.heal(stopping.result(DEADLINE_S))


def test_two_faults_that_stop_one_broker_take_turns(
    bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, inside, most = bed.content(), [], []
    make = Directories.make

    def counted(self: Directories, fault: Fault, *more: Any) -> int | None:
        inside.append(fault)
        most.append(len(inside))
        try:
            return make(self, fault, *more)
        finally:
            inside.remove(fault)

    monkeypatch.setattr(Directories, "make", counted)
    bed.allow_end_by(ENDS_WHEN_ALLOWED)
    with ThreadPoolExecutor(2) as others:
        making_both = [others.submit(bed.inject, "emptied", bed.target(d)) for d in bed.log_dirs]
        wait_for("both faults", lambda: len(read_faults(bed.journal)) == 2, DEADLINE_S)
        bed.end_allowed.touch()
        faults = [each.result(DEADLINE_S) for each in making_both]

    assert most == [1, 1]
    for fault in faults:
        bed.heal(fault)
    assert bed.content() == before


def test_a_fault_whose_timer_does_not_run_changes_nothing(bed: Bed) -> None:
    def refuse(fault: Fault, journal: Journal) -> None:
        raise FaultError("no more processes")

    before = bed.content()
    target = bed.target(bed.log_dirs[0])

    with pytest.raises(FaultError, match="nothing injected: no more processes"):
        making.inject(bed.journal, "deleted", target, set_timer=refuse, for_="1s")

    assert bed.content() == before
    assert read_faults(bed.journal) == []


def test_a_fault_that_was_healed_while_it_was_made_is_reverted(
    bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by the timer, where the injector was stopped by a signal and goes on later."""
    before, target = bed.content(), bed.target(bed.log_dirs[0])
    make = FileOperations.make

    def late(self: FileOperations, fault: Fault, *more: Any) -> None:
        with open_journal(bed.journal) as journal:
            journal.write("healed", fault.fault_id)
        make(self, fault, *more)

    monkeypatch.setattr(FileOperations, "make", late)

    with pytest.raises(FaultError, match="its length was over before it took effect"):
        bed.inject("deleted", target, for_="1s")

    assert bed.content() == before
    assert read_faults(bed.journal) == []
