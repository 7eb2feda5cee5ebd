"""`jbodlab status`: brokers, their directories, and who leads what."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from jbodlab.lab_state import ClusterState, NodeState
from lab import up_and_down
from lab.cluster import processes, questions
from lab.cluster.questions import ClusterView, LogDirView

TIMEOUT_S = 3.0


def report(state: ClusterState) -> tuple[bool, str]:
    """Describe a cluster.

    Returns:
        Whether every node runs and every broker answers, and the text to print.
    """
    alive = {node.node_id for node in up_and_down.running(state)}
    log_dirs, view = asyncio.run(_ask(state))
    lines = [f"cluster {state.name} ({state.cluster_id}) at {state.bootstrap}", ""]
    lines += _nodes(state, alive, log_dirs)
    lines += ["", *_partitions(view)]
    healthy = len(alive) == len(state.nodes) and None not in log_dirs.values()
    return healthy, "\n".join(lines)


async def _ask(
    state: ClusterState,
) -> tuple[dict[int, list[LogDirView] | None], ClusterView | None]:
    log_dirs = await questions.ask_all_log_dirs(state.brokers, TIMEOUT_S)
    for node in state.brokers:
        if log_dirs[node.node_id] is not None:
            view = await questions.ask_cluster_view(node, TIMEOUT_S)
            if view is not None:
                return log_dirs, view
    return log_dirs, None


def _nodes(
    state: ClusterState, alive: set[int], log_dirs: dict[int, list[LogDirView] | None]
) -> Iterator[str]:
    for node in state.nodes:
        yield (
            f"{node.role} {node.node_id}  {node.host}:{node.port}  {_process(node, alive)}"
            f"{_answers(node, log_dirs)}"
        )
        for number, path in enumerate(node.log_dirs if node.role == "broker" else (), start=1):
            yield f"    {number}  {_directory(path, log_dirs.get(node.node_id)):<30}  {path}"


def _process(node: NodeState, alive: set[int]) -> str:
    if node.process is None:
        return "never started"
    if node.node_id not in alive:
        return f"pid {node.process.pid} has ended, see {node.log_file}"
    return f"pid {node.process.pid}, {processes.resident_mb(node.process) or 0} MiB"


def _answers(node: NodeState, log_dirs: dict[int, list[LogDirView] | None]) -> str:
    if node.role != "broker":
        return ""
    return ", does not answer" if log_dirs[node.node_id] is None else ", answers"


def _directory(path: str, found: list[LogDirView] | None) -> str:
    if found is None:
        return "unknown"
    for view in found:
        if view.path == path:
            if view.error:
                return f"OFFLINE ({view.error})"
            size_kb = sum(view.sizes.values()) / 1024
            return f"online, {len(view.sizes)} replicas, {size_kb:,.0f} KiB"
    return "OFFLINE (not named by the broker)"


def _partitions(view: ClusterView | None) -> Iterator[str]:
    if view is None:
        yield "no broker answers, so nobody knows the leaders"
        return
    if not view.partitions:
        yield "no topics"
        return
    yield f"{'partition':<24} {'leader':>6}  {'replicas':<12} {'isr':<12} offline"
    for partition, found in sorted(view.partitions.items()):
        leader = "none" if found.leader < 0 else str(found.leader)
        yield (
            f"{partition!s:<24} {leader:>6}  {_ids(found.replicas):<12} {_ids(found.isr):<12} "
            f"{_ids(found.offline)}"
        ).rstrip()


def _ids(ids: tuple[int, ...]) -> str:
    return ",".join(map(str, ids))
