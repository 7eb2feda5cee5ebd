"""Which cluster a tool takes where no address is given, and what it says of that."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from admin_tool import topics
from jbodlab import lab_state
from jbodlab.lab_state import START_TICKS, ClusterState, NodeState, ProcessState

DELETE = ["--delete", "--topic", "orders"]


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


def test_the_cluster_that_a_tool_took_is_said(
    state_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written(state_dir, "mine")

    assert topics.main(DELETE) == 1

    said = capsys.readouterr()
    assert said.err == "cluster mine at 127.0.0.1:1\n"
    assert "cannot connect to 127.0.0.1:1" in said.out


def test_several_clusters_are_an_error_that_names_them(
    state_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written(state_dir, "mine")
    written(state_dir, "yours")

    assert topics.main(DELETE) == 1

    assert capsys.readouterr().out == (
        "Error while executing topic command : several clusters run on this machine, give an "
        "address by --bootstrap-server: mine at 127.0.0.1:1; yours at 127.0.0.1:1\n"
    )


def test_a_cluster_whose_pid_another_process_has_is_not_taken(
    state_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written(state_dir, "former", ticks_earlier=1)

    assert topics.main(DELETE) == 1

    said = capsys.readouterr()
    assert said.err.startswith('Missing required argument "[bootstrap-server]"')


def test_an_address_that_is_given_is_taken_without_a_word(
    state_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written(state_dir, "mine")
    written(state_dir, "yours")

    assert topics.main([*DELETE, "--bootstrap-server", "127.0.0.1:2"]) == 1

    said = capsys.readouterr()
    assert (said.err, "127.0.0.1:2" in said.out) == ("", True)
