"""Faults of processes, and of directories whose broker is stopped for them."""

from __future__ import annotations

import os
import platform
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from fault_injection import operations, processes
from fault_injection.errors import FaultError
from fault_injection.journal import read_all
from fault_injection.mechanism import Peer, Target
from jbodlab.metadata.log.quorum_state import QuorumState, write_quorum_state
from jbodlab.storage.directory.names import METADATA_DIR_NAME
from jbodlab.vocabulary import properties
from lab.machine.waiting import wait_for
from tests.fault_injection.patient import DEADLINE_S, SERVER_UID
from tests.fault_injection.sleeping_broker import SLEEPING, Bed, running_bed

pytestmark = pytest.mark.process

# It takes a while to end, as a broker does that hands its leadership over.
TAKES_TO_END_S = 0.5
ENDS_SLOWLY = SLEEPING.replace("exit(0)", f"(time.sleep({TAKES_TO_END_S}), exit(0))")


@pytest.fixture
def bed() -> Iterator[Bed]:
    with running_bed() as bed:
        yield bed


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
    bed.replace(ENDS_SLOWLY)

    fault = bed.inject(kind, bed.target())
    ended_ns = time.monotonic_ns()

    assert fault.injected_ns is not None
    assert ended_ns - fault.injected_ns >= TAKES_TO_END_S * 1e9
    assert read_all(bed.journal)[fault.fault_id].injected_ns == fault.injected_ns
    bed.heal(fault)


def test_a_broker_that_does_not_run_cannot_be_killed(bed: Bed) -> None:
    fault = bed.inject("kill", bed.target())

    with pytest.raises(FaultError, match="already has an open fault: 1"):
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
@pytest.mark.parametrize("folder", ["", "data"], ids=["the-disk-itself", "a-folder-of-the-disk"])
def test_directories_on_two_disks_are_swapped_too(bed: Bed, folder: str) -> None:
    numbers = [(path / "meta.properties").read_text() for path in bed.log_dirs]
    for path, number in zip(bed.log_dirs, numbers, strict=True):
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(path)], check=True)
        (path / folder).mkdir(exist_ok=True)
        (path / folder / "meta.properties").write_text(number)
        os.chown(path / folder, SERVER_UID, SERVER_UID)
    d1, d2 = (path / folder for path in bed.log_dirs)
    try:
        before = bed.content()
        fault = bed.inject("swapped", bed.target(d1), with_=str(d2))
        assert (d1 / "meta.properties").read_text() == "directory.id=1\n"
        bed.heal(fault)
        assert bed.content() == before
    finally:
        for path in bed.log_dirs:
            subprocess.run(["umount", "--recursive", str(path)], check=True)


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


FIXED, NAMED = 0, 1
"""Levels of kraft.version: voters are known by node id alone, or by their directory too."""


def controller_with(bed: Bed, level: int, *, peers: int = 2) -> Target:
    """Have the first directory hold a metadata log, as that of a controller does."""
    d1 = bed.log_dirs[0]
    (d1 / "meta.properties").write_text(META)
    (d1 / METADATA_DIR_NAME).mkdir()
    write_quorum_state(d1 / METADATA_DIR_NAME, QuorumState(leader_epoch=3, data_version=level))
    others = tuple(Peer(name=f"controller-{101 + number}", ports=()) for number in range(peers))
    controller = replace(bed.patient, name="controller-100", is_controller=True, peers=others)
    return operations.directory_target(str(d1), None, controller)


META = "cluster.id=c\ndirectory.id=b4d9ExdORgaQq38CyHwWTA\nnode.id=100\nversion=1\n"


def test_an_emptied_directory_of_a_controller_is_formatted_anew(bed: Bed) -> None:
    target, d1 = controller_with(bed, NAMED), bed.log_dirs[0]
    before = bed.content()

    fault = bed.inject("emptied", target)

    assert [path.name for path in d1.iterdir()] == ["meta.properties"]
    found = properties.parse((d1 / "meta.properties").read_text())
    assert found.pop("directory.id") != "b4d9ExdORgaQq38CyHwWTA"
    assert found == {"cluster.id": "c", "node.id": "100", "version": "1"}
    bed.heal(fault)
    kept = {path for path in bed.content() if "jbod-kept" in path}
    assert {path: text for path, text in bed.content().items() if path not in kept} == before


@pytest.mark.parametrize(
    ("level", "peers", "stays"), [(FIXED, 2, True), (NAMED, 2, False), (FIXED, 0, False)]
)
def test_a_former_directory_of_a_voter_does_not_come_back_where_only_its_node_id_counts(
    bed: Bed, level: int, peers: int, stays: bool
) -> None:
    target, d1 = controller_with(bed, level, peers=peers), bed.log_dirs[0]
    former = d1.stat().st_ino
    fault = bed.inject("emptied", target)
    (d1 / METADATA_DIR_NAME).mkdir()
    write_quorum_state(d1 / METADATA_DIR_NAME, QuorumState(leader_epoch=4, data_version=level))

    bed.heal(fault)

    assert (d1.stat().st_ino != former) == stays


def test_a_new_directory_that_has_not_voted_yet_gives_way_to_the_former_one(bed: Bed) -> None:
    target, d1 = controller_with(bed, FIXED), bed.log_dirs[0]
    former = d1.stat().st_ino
    fault = bed.inject("emptied", target)
    (d1 / METADATA_DIR_NAME).mkdir()

    bed.heal(fault)

    assert d1.stat().st_ino == former


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
