"""Faults below system calls, the same for whoever carries their rules out.

The patient is a process that makes calls when told to; it stands for a broker with two directories.
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fault_injection import kinds, operations, processes, registry
from fault_injection.errors import FaultError
from fault_injection.journal import Fault
from fault_injection.mechanism import Target, TargetBroker
from fault_injection.preload import CallClass, Control
from lab.machine.waiting import wait_for
from lab.testing.clusters import ADVICE
from tests.fault_injection import making
from tests.fault_injection.fuse_disks import served
from tests.fault_injection.patient import DEADLINE_S, SERVER_UID, USER, Patient

pytestmark = pytest.mark.process


class Bed:
    """A patient with two directories, and the journal of its faults."""

    def __init__(self, mechanism: str, folder: Path, control: Control, patient: Patient) -> None:
        self.mechanism = mechanism
        self.patient = patient
        self.control = control
        self.journal = folder / "faults.jsonl"
        self.d1, self.d2 = patient.directory(f"{folder}/d1"), patient.directory(f"{folder}/d2")
        self.broker = TargetBroker(
            name="broker-1",
            folder=folder,
            log_dirs=(self.d1, self.d2),
            process=processes.find(patient.pid),
            rules=None if mechanism == "fuse" else control.path,
        )

    @property
    def target(self) -> Target:
        return operations.directory_target(str(self.d1), None, self.broker)

    def inject(self, kind: str, **words: object) -> Fault:
        # Rules end by themselves; a process that heals them as well would hide it.
        return making.inject(self.journal, kind, self.target, set_timer=making.no_timer, **words)

    def heal(self, fault: Fault) -> Fault:
        return making.heal(self.journal, fault)[0]


@pytest.fixture(params=["preload", "fuse"])
def bed(request: pytest.FixtureRequest) -> Iterator[Bed]:
    if request.param == "fuse":
        with served() as disk:
            patient = Patient(disk.point, {})
            try:
                yield Bed("fuse", disk.point, Control.open(disk.rules), patient)
            finally:
                disk.clear()
                patient.kill()
        return
    folder = Path(tempfile.mkdtemp(prefix="jbod-fault-test-"))
    folder.chmod(0o755)
    if os.geteuid() == 0:
        os.chown(folder, SERVER_UID, SERVER_UID)
    control = Control.create(folder / "rules", *USER)
    patient = Patient(folder, control.environment())
    try:
        yield Bed("preload", folder, control, patient)
    finally:
        control.clear()
        patient.kill()
        shutil.rmtree(folder)


# Kind and words, a call that breaks in the mechanism's view and one that does not.
BITES = [
    pytest.param("eio", {}, {"create": 5, "fsync": 5, "pwrite": 5, "unlink": 5}, id="eio"),
    pytest.param("eio", {"calls": "sync"}, {"fsync": 5, "create": 0, "pwrite": 0}, id="sync"),
    pytest.param("eio", {"errno": "ESTALE", "calls": ["create"]}, {"create": 116}, id="errno"),
    pytest.param(
        "eio",
        {"files": "*.index", "calls": "sync"},
        {"fsync_index": 5, "fsync": 0},
        id="files",
    ),
    pytest.param(
        "read-only", {}, {"create": 30, "pwrite": 30, "rename": 30, "fsync": 0}, id="read-only"
    ),
    pytest.param("full", {}, {"create": 28, "pwrite": 28, "fsync": 0, "unlink": 0}, id="full"),
]


@pytest.mark.parametrize(("kind", "words", "calls"), BITES)
def test_a_fault_breaks_its_calls_of_its_directory_and_heals(
    bed: Bed, kind: str, words: dict[str, object], calls: dict[str, int]
) -> None:
    fault = bed.inject(kind, **words)

    assert {call: bed.patient.error(call, bed.d1) for call in calls} == calls
    assert {bed.patient.error(call, bed.d2) for call in calls} == {0}

    healed = bed.heal(fault)
    assert {bed.patient.error(call, bed.d1) for call in calls} == {0}
    assert (fault.mechanism, fault.state, healed.state) == (bed.mechanism, "proved", "healed")


@pytest.mark.parametrize("calls", kinds.CALL_CLASSES)
def test_every_class_of_calls_can_be_broken_and_is_proved(bed: Bed, calls: str) -> None:
    spec = kinds.spec("eio", {"calls": calls, "mechanism": bed.mechanism})
    if refusal := registry.check(spec, bed.target):
        assert (bed.mechanism, calls, refusal) == ("fuse", "stat", "it cannot break the calls stat")
        return

    fault = bed.inject("eio", calls=calls)
    bed.heal(fault)

    assert fault.state == "proved"
    assert bed.patient.error("create", bed.d1) == 0
    assert not list(bed.d1.glob(".jbod-*"))


def test_a_fault_counts_what_it_broke_in_the_patient_and_not_its_proof(bed: Bed) -> None:
    fault = bed.inject("eio", calls="sync")
    assert operations.broken(fault).count == 0
    bed.patient.error("fsync", bed.d1)
    bed.patient.error("fsync", bed.d1)

    found = operations.broken(fault)
    assert (found.what, found.count, found.seen) == ("calls", 2, 2)
    assert found.first_ns is not None
    assert fault.proved_ns is not None
    assert fault.proved_ns <= found.first_ns

    healed = bed.heal(fault)
    other = bed.inject("eio", calls="sync")
    assert operations.broken(healed) == found
    assert operations.broken(other).count == 0


def test_slow_calls_take_longer(bed: Bed) -> None:
    fault = bed.inject("slow", delay="120ms", calls="sync")

    slow = bed.patient.order("fsync", bed.d1).outcome()
    # One of them may wait for something else.
    others = [bed.patient.order("fsync", bed.d2).outcome() for _ in range(5)]
    bed.heal(fault)

    assert slow.errno == 0
    assert slow.ended_ns - slow.begun_ns >= 114e6
    quickest_ns = min(other.ended_ns - other.begun_ns for other in others)
    assert quickest_ns < slow.ended_ns - slow.begun_ns


def test_a_hang_ends_when_it_is_healed(bed: Bed) -> None:
    fault = bed.inject("hang", for_="10m")
    call = bed.patient.order("fsync", bed.d1)
    wait_for("a call that hangs", lambda: operations.broken(fault).count, DEADLINE_S)

    assert call.answer.empty()
    bed.heal(fault)
    assert call.outcome().errno == 0


@pytest.mark.parametrize("kind", ["eio", "hang"])
def test_a_fault_ends_after_its_length_without_anybody(bed: Bed, kind: str) -> None:
    fault = bed.inject(kind, for_="3s")
    outcome = bed.patient.order("fsync", bed.d1).outcome()
    assert outcome.errno == (5 if kind == "eio" else 0)

    wait_for("its end", lambda: time.monotonic_ns() >= (fault.until_ns or 0), DEADLINE_S)
    assert bed.patient.error("fsync", bed.d1) == 0


def test_several_faults_of_one_directory_are_healed_in_any_order(bed: Bed) -> None:
    sync = bed.inject("eio", calls="sync")
    create = bed.inject("eio", calls="create", errno="ENOSPC")

    bed.heal(sync)

    assert (bed.patient.error("fsync", bed.d1), bed.patient.error("create", bed.d1)) == (0, 28)
    bed.heal(create)
    assert bed.control.in_force == []


def test_a_fault_whose_injector_died_is_healed_from_the_journal(bed: Bed) -> None:
    fault = bed.inject("eio")
    text = bed.journal.read_text().splitlines()
    # As if the power had gone before its effect was written down.
    bed.journal.write_text(text[0] + "\n")

    bed.heal(fault)

    assert bed.patient.error("fsync", bed.d1) == 0


def test_what_a_mechanism_does_not_see_is_refused_before_anything_is_touched(bed: Bed) -> None:
    bed.control.traps(CallClass.SYNC | CallClass.CREATE)

    with pytest.raises(FaultError, match="cannot break the calls read, write"):
        bed.inject("eio", calls="read,write,sync", mechanism=bed.mechanism)

    assert bed.control.in_force == []
    assert not bed.journal.read_text()


def test_a_fault_without_effect_is_reverted(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    mechanism = registry.MECHANISMS[bed.mechanism]
    monkeypatch.setattr(type(mechanism), "verify", lambda *_: "it has none")

    with pytest.raises(FaultError, match="the fault had no effect and was reverted: it has none"):
        bed.inject("eio")

    assert bed.control.in_force == []


def test_a_broker_that_follows_no_rules_is_refused(bed: Bed) -> None:
    if bed.mechanism == "fuse":
        pytest.skip("a disk follows rules whatever its broker does")
    other = TargetBroker(name="broker-9", folder=bed.d2, log_dirs=(bed.d1,), process=None)
    target = operations.directory_target(str(bed.d1), None, other)

    found = registry.check(kinds.spec("slow"), target)

    assert found == (
        "preload: broker-9 runs without the library for faults in single calls: start its cluster "
        "with `jbodlab up --mechanism preload`; "
        f"fuse: {bed.d1} is not on a disk of kind fuse: start its cluster with "
        "`jbodlab up --kind fuse`"
    )


def test_a_refusal_says_what_to_do_in_the_words_of_whoever_asks(bed: Bed) -> None:
    if bed.mechanism == "fuse":
        pytest.skip("a disk follows rules whatever its broker does")
    other = TargetBroker(
        name="broker-9", folder=bed.d2, log_dirs=(bed.d1,), process=None, advice=ADVICE
    )

    found = registry.check(
        kinds.spec("slow"), operations.directory_target(str(bed.d1), None, other)
    )

    assert "@pytest.mark.jbod(calls=True)" in found
    assert "jbodlab up" not in found


def test_errno_of_a_broken_call_is_the_one_that_was_asked_for(bed: Bed) -> None:
    bed.inject("eio", calls="rename", errno=errno.EDQUOT)

    assert bed.patient.error("rename", bed.d1) == errno.EDQUOT
