"""A clean-up goes on after an error of one of its steps, and reports it at the end."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lab import up_and_down
from lab.cluster import Cluster, ClusterSpec, layout
from lab.errors import LabError
from lab.machine import disks, processes
from lab.machine.ports import HeldPorts
from lab.state_files import StateFiles


class Broken:
    """Notes that it was called, and fails for a reason that nobody has foreseen."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, *_: object, **__: object) -> list[str]:
        self.calls += 1
        raise UnicodeDecodeError("utf-8", b"\xfc", 0, 1, "invalid start byte")


@pytest.fixture
def files(tmp_path: Path) -> StateFiles:
    (tmp_path / "clusters").mkdir()
    return StateFiles(tmp_path)


@pytest.mark.parametrize(
    "step", ["_heal", "_stop", "_end", "disks.unmount_below"], ids=lambda name: name.strip("_")
)
def test_a_cluster_whose_clean_up_fails_in_one_step_goes_through_the_others(
    files: StateFiles, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    state = layout.plan(
        "x", files.root("x"), "id", processes.own_user(), range(1, 3), ClusterSpec(brokers=1)
    )
    files.write(state)
    files.root("x").mkdir()
    broken, done = Broken(), []
    for name in ("_heal", "_stop", "_end"):
        monkeypatch.setattr(up_and_down, name, lambda *_, name=name: done.append(name) or [])
    monkeypatch.setattr(disks, "unmount_below", lambda _: done.append("disks.unmount_below") or [])
    monkeypatch.setattr(disks if "." in step else up_and_down, step.rpartition(".")[2], broken)

    problems = up_and_down.down("x", files)

    assert broken.calls == 1
    assert len(done) == 3
    assert len(problems) == 1
    assert problems[0].startswith("an error while cleaning up: UnicodeDecodeError(")
    # It can still be ended by the next command.
    assert files.read("x") == state


def test_a_cluster_of_a_test_is_removed_whatever_its_clean_up_meets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ports = HeldPorts.hold(1)
    state = layout.plan(
        "x", tmp_path / "x", "id", processes.own_user(), range(1, 3), ClusterSpec(brokers=1)
    )
    cluster = Cluster(state, ports=ports)
    cluster.root.mkdir()
    heal, kill = Broken(), Broken()
    monkeypatch.setattr(cluster, "heal", heal)
    monkeypatch.setattr(cluster, "kill", kill)

    with pytest.raises(UnicodeDecodeError):
        cluster.close()

    assert (heal.calls, kill.calls) == (1, 1)
    assert not cluster.root.exists()
    assert not ports.descriptors


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("a,b", "`log.dirs` is split at commas"),
        (os.fsdecode(b"M\xfcller"), "property files are UTF-8, and its name is not"),
    ],
)
def test_a_folder_that_property_files_cannot_name_is_refused(
    tmp_path: Path, name: str, reason: str
) -> None:
    with pytest.raises(LabError, match=f"no cluster can lie in .*: {reason}"):
        Cluster.plan(tmp_path / name)
