"""Which of the clusters that are written down run, and what of their files is read."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from jbodlab import lab_state
from jbodlab.errors import DecodeError
from jbodlab.lab_state import START_TICKS, ClusterState, NodeState, ProcessState

NODE = NodeState(
    role="broker",
    node_id=1,
    host="127.0.0.1",
    port=7001,
    properties_file="/c/broker-1/server.properties",
    log_file="/c/broker-1/log",
    metadata_log_dir="/c/broker-1/metadata",
    log_dirs=("/c/broker-1/1", "/c/broker-1/2"),
)


def us() -> ProcessState:
    fields = lab_state.stat(os.getpid())
    assert fields is not None
    return ProcessState(pid=os.getpid(), start_ticks=int(fields[START_TICKS]))


def cluster(name: str, process: ProcessState | None) -> ClusterState:
    node = replace(NODE, process=process)
    return ClusterState(
        name=name, root="/c", cluster_id="id", uid=1, gid=1, mounts=(), nodes=(node,)
    )


def write(folder: Path, state: ClusterState) -> Path:
    file = lab_state.cluster_file(folder, state.name)
    file.parent.mkdir(exist_ok=True)
    file.write_text(lab_state.to_json(state))
    return file


def running(folder: Path) -> list[str]:
    found = lab_state.running_clusters({lab_state.STATE_DIR_VARIABLE: str(folder)}, os.geteuid())
    return [state.name for state in found]


def test_a_cluster_runs_by_pid_and_start_time_of_a_process(tmp_path: Path) -> None:
    write(tmp_path, cluster("runs", us()))
    later = ProcessState(pid=us().pid, start_ticks=us().start_ticks - 1)
    write(tmp_path, cluster("ended", later))
    write(tmp_path, cluster("gone", ProcessState(pid=2**22 + 1, start_ticks=1)))
    write(tmp_path, cluster("not-started", None))

    assert running(tmp_path) == ["runs"]


def test_a_file_that_cannot_be_read_may_be_that_of_a_cluster_that_runs(tmp_path: Path) -> None:
    file = write(tmp_path, cluster("newer", us()))
    data = json.loads(file.read_text())
    file.write_text(json.dumps({**data, "version": lab_state.VERSION + 1}))

    with pytest.raises(DecodeError, match=f"cannot read {file}: state file of version 2"):
        running(tmp_path)


def test_fields_that_are_not_known_are_left_out() -> None:
    state = replace(cluster("x", us()), owner=us())
    data = json.loads(lab_state.to_json(state))
    data["color"] = "green"
    data["owner"]["nice"] = 5
    data["nodes"][0]["rack"] = "a"
    data["nodes"][0]["process"]["cpu"] = 1

    assert lab_state.from_json(json.dumps(data)) == state


@pytest.mark.parametrize("value", [None, "7001", {}])
def test_a_field_of_another_kind_is_refused(value: object) -> None:
    data = json.loads(lab_state.to_json(cluster("x", us())))
    data["nodes"][0]["port"] = value

    with pytest.raises(DecodeError, match="not the state of a cluster"):
        lab_state.from_json(json.dumps(data))
