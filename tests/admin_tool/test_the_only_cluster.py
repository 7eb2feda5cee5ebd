"""Which cluster a command takes where no address is given, and what it says about that."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from jbodlab import lab_state
from jbodlab.cli.program import main
from jbodlab.lab_state import START_TICKS, ClusterState, NodeState, ProcessState

DELETE = ["topics", "delete", "orders"]


@pytest.fixture
def state_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(lab_state.STATE_DIR_VARIABLE, str(tmp_path))
    (tmp_path / "clusters").mkdir()
    return tmp_path


def written(state_dir: Path, name: str, *, ticks_earlier: int = 0) -> None:
    """Write down a cluster of which a broker is this very process, or an earlier one."""
    fields = lab_state.stat(os.getpid())
    assert fields is not None
    process = ProcessState(pid=os.getpid(), start_ticks=int(fields[START_TICKS]) - ticks_earlier)
    # Nobody listens at port 1.
    node = NodeState(
        role="broker",
        node_id=1,
        host="127.0.0.1",
        port=1,
        properties_file="",
        log_file="",
        metadata_log_dir="",
        log_dirs=(),
        process=process,
    )
    state = ClusterState(name=name, root="", cluster_id="", uid=0, gid=0, mounts=(), nodes=(node,))
    lab_state.cluster_file(state_dir, name).write_text(lab_state.to_json(state))


def test_the_chosen_cluster_is_named(state_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written(state_dir, "mine")

    assert main(DELETE) == 1

    assert capsys.readouterr().err == (
        "cluster mine at 127.0.0.1:1\njbodlab: cannot connect to 127.0.0.1:1: Connection refused\n"
    )


def test_several_clusters_are_an_error_that_names_them(
    state_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written(state_dir, "mine")
    written(state_dir, "yours")

    assert main(DELETE) == 1

    said = capsys.readouterr().err
    assert "(mine, yours); choose one with --cluster" in said
    assert main([*DELETE, "--cluster", "yours"]) == 1
    assert "cannot connect to 127.0.0.1:1" in capsys.readouterr().err


def test_a_cluster_whose_pid_another_process_has_is_not_taken(
    state_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written(state_dir, "former", ticks_earlier=1)

    assert main(DELETE) == 1

    assert capsys.readouterr().err.startswith("jbodlab: no cluster runs on this machine")


def test_an_address_that_is_given_is_taken_without_a_word(
    state_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written(state_dir, "mine")
    written(state_dir, "yours")

    assert main([*DELETE, "--bootstrap-server", "127.0.0.1:2"]) == 1

    assert capsys.readouterr().err.startswith("jbodlab: cannot connect to 127.0.0.1:2")
