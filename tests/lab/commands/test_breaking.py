"""The fault that the words of a command line describe."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from jbodlab.cli import program
from lab import opened
from lab.cluster import Cluster, ClusterSpec, layout
from lab.errors import LabError
from lab.machine import processes
from lab.machine.interrupts import Interrupts
from lab.state_files import StateFiles
from lab.watch import detecting


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    monkeypatch.setenv("JBODLAB_STATE_DIR", str(tmp_path / "state"))
    files = StateFiles.open()
    user = processes.own_user()
    files.write(layout.plan("x", tmp_path / "x", "id", user, range(1, 5), ClusterSpec()))
    found = opened.opened(files, "x", Interrupts())
    for path in found.broker(1).paths:
        path.mkdir(parents=True)
    for node in found.state.nodes:
        Path(node.log_file).parent.mkdir(parents=True, exist_ok=True)
        Path(node.log_file).touch()
    return found


@pytest.mark.parametrize("word", ["3", "broker-1/3", "broker-1/dir-3"])
def test_the_other_directory_is_named_as_the_first_one(cluster: Cluster, word: str) -> None:
    spec, target = opened.described(cluster, "swapped", "broker-1/2", {"with": word})

    assert spec.other == cluster.broker(1).log_dir(3).path
    assert target.path == cluster.broker(1).log_dir(2).path


@pytest.mark.parametrize(
    ("word", "why"),
    [
        ("broker-1", "expected a directory such as broker-1/2, got 'broker-1'"),
        ("broker-2/3", "expected a directory of broker-1, got 'broker-2/3'"),
        ("4", "broker-1 has the directories 1 to 3, not 4"),
        ("broker-1/x", "such as broker-1, broker-1/2 or controller-100/1, got 'broker-1/x'"),
    ],
)
def test_what_is_no_other_directory_of_the_broker_is_refused(
    cluster: Cluster, word: str, why: str
) -> None:
    with pytest.raises(LabError, match=why):
        opened.described(cluster, "twin", "broker-1/2", {"with": word})


@pytest.mark.parametrize("word", ["twin", "swapped"])
def test_a_fault_that_is_refused_leaves_nobody_watching(
    cluster: Cluster, word: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(detecting, "FIRST_LOOK_S", 0.05)

    code = program.main(["inject", word, "broker-1/2", "--with", "3", "--cluster", "x"])

    assert code == 1
    assert "nothing injected: " in capsys.readouterr().err
    assert "observer" not in [thread.name for thread in threading.enumerate()]
