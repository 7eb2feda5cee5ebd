"""Which of the clusters that are written down run, and what of their files is read."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from jbodlab.cli import lab_state
from jbodlab.cli.lab_state import ClusterState, ProcessState
from jbodlab.vocabulary.errors import DecodeError
from tests.state_files import cluster, node, this_process, write


def of(process: ProcessState | None, name: str) -> ClusterState:
    return cluster(name, node(process=process))


def running(folder: Path) -> list[str]:
    found = lab_state.running_clusters({lab_state.STATE_DIR_VARIABLE: str(folder)}, os.geteuid())
    return [state.name for state in found]


def test_a_cluster_runs_by_pid_and_start_time_of_a_process(tmp_path: Path) -> None:
    write(tmp_path, of(this_process(), "runs"))
    write(tmp_path, of(this_process(ticks_earlier=1), "ended"))
    write(tmp_path, of(ProcessState(pid=2**22 + 1, start_ticks=1), "gone"))
    write(tmp_path, of(None, "not-started"))

    assert running(tmp_path) == ["runs"]


def test_a_file_that_cannot_be_read_may_be_that_of_a_cluster_that_runs(tmp_path: Path) -> None:
    file = write(tmp_path, of(this_process(), "newer"))
    data = json.loads(file.read_text())
    file.write_text(json.dumps({**data, "version": lab_state.VERSION + 1}))

    with pytest.raises(DecodeError, match=f"cannot read {file}: state file of version 3"):
        running(tmp_path)


def test_fields_that_are_not_known_are_left_out() -> None:
    state = replace(of(this_process(), "x"), owner=this_process())
    data = json.loads(lab_state.to_json(state))
    data["color"] = "green"
    data["owner"]["nice"] = 5
    data["nodes"][0]["rack"] = "a"
    data["nodes"][0]["process"]["cpu"] = 1

    assert lab_state.from_json(json.dumps(data)) == state


@pytest.mark.parametrize("value", [None, "7001", {}])
def test_a_field_of_another_kind_is_refused(value: object) -> None:
    data = json.loads(lab_state.to_json(of(this_process(), "x")))
    data["nodes"][0]["port"] = value

    with pytest.raises(DecodeError, match="not the state of a cluster"):
        lab_state.from_json(json.dumps(data))
