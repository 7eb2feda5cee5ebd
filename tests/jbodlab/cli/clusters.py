"""Clusters of this machine, as their files name them."""

from __future__ import annotations

import os
from pathlib import Path

from jbodlab.cli import lab_state
from jbodlab.cli.lab_state import START_TICKS, ClusterState, NodeState, ProcessState


def write_cluster(state_dir: Path, name: str, *, ticks_earlier: int = 0) -> None:
    """Write down a cluster of which a broker is this very process, or an earlier one."""
    fields = lab_state.stat(os.getpid())
    assert fields is not None
    node = NodeState(
        role="broker",
        node_id=1,
        host="127.0.0.1",
        port=9092,
        properties_file="",
        log_file="",
        metadata_log_dir="",
        log_dirs=("/d1", "/d2"),
        process=ProcessState(pid=os.getpid(), start_ticks=int(fields[START_TICKS]) - ticks_earlier),
    )
    state = ClusterState(name=name, root="", cluster_id="", uid=0, gid=0, mounts=(), nodes=(node,))
    file = lab_state.cluster_file(state_dir, name)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(lab_state.to_json(state))
