"""Files that describe clusters, as `jbodlab up` writes them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from jbodlab.cli import lab_state
from jbodlab.cli.lab_state import START_TICKS, ClusterState, NodeState, ProcessState


def this_process(*, ticks_earlier: int = 0) -> ProcessState:
    """This very process, or one that had its number before."""
    fields = lab_state.stat(os.getpid())
    assert fields is not None
    return ProcessState(pid=os.getpid(), start_ticks=int(fields[START_TICKS]) - ticks_earlier)


def node(role: str = "broker", node_id: int = 1, **values: Any) -> NodeState:
    """A node without files, at port 1, where nobody listens."""
    files = {"properties_file": "", "log_file": "", "metadata_log_dir": "", "log_dirs": ()}
    where = {"host": "127.0.0.1", "port": 1}
    return NodeState(role=role, node_id=node_id, **{**where, **files, **values})


def cluster(name: str, *nodes: NodeState) -> ClusterState:
    """A cluster of some nodes."""
    return ClusterState(name=name, root="/c", cluster_id="id", uid=1, gid=1, mounts=(), nodes=nodes)


def write(state_dir: Path, state: ClusterState) -> Path:
    """Write down a cluster; returns the file."""
    file = lab_state.cluster_file(state_dir, state.name)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(lab_state.to_json(state))
    return file
