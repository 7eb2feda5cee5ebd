"""Bring a cluster up, and take it down so that nothing is left.

Everything that is made is written down first: the state file names the folder before the folder
exists, each process is added in the moment it runs. Taking down works from that file and from what
the system itself says about the folder (mounts below it, processes that carry its name), so it is
the same whether the cluster is whole, half made, or what a killed process left.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from fault_injection.journal import FaultError
from jbodlab import lab_state
from jbodlab.lab_state import ClusterState, NodeState
from lab.cluster import Cluster, NotInTimeError, disks, layout, processes, programs
from lab.cluster.faults import Faults
from lab.cluster.processes import ServerUser
from lab.errors import LabError
from lab.interrupts import Interrupts
from lab.state_files import StateFiles

SERVED_DEADLINE_S = 30.0
STOP_DEADLINE_S = 10.0
LOG_TAIL_LINES = 15

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How large a cluster is.

    Attributes:
        disk_mb: Most that one disk holds, in MiB.
        mounts: Whether disks shall be mounts where that is possible.
    """

    brokers: int = 3
    log_dirs: int = 3
    disk_mb: int = 512
    mounts: bool = True


def up(
    name: str,
    user: ServerUser,
    shape: Shape,
    files: StateFiles,
    interrupts: Interrupts,
    tell: Tell,
) -> ClusterState:
    """Make and start a cluster; when that fails nothing of it is left.

    Args:
        name: Its name; the lock of it is held.
        user: Who the servers run as.
        shape: How large it is.
        files: Where it is written down.
        interrupts: Held back while something is made that must not be lost sight of.
        tell: Told of each step, one line each.

    Raises:
        LabError: it could not be made; the text tells why.
    """
    own = processes.find(os.getpid())
    cluster = Cluster.plan(
        files.root(name),
        brokers=shape.brokers,
        log_dirs=shape.log_dirs,
        name=name,
        user=user,
        state_dir=files.directory,
        journal=lab_state.journal_file(files.directory),
        record=lambda state: files.write(replace(state, owner=own)),
        guard=interrupts.deferred,
        outlives_us=True,
    )
    try:
        files.write(replace(cluster.state, owner=own))
        cluster.make_folders()
        programs.check(user, cluster.root, cluster.environment())
        _make_disks(cluster, shape, interrupts, tell)
        cluster.format()
        count = len(layout.directories(cluster.state))
        tell(f"{count} directories formatted for cluster {cluster.id}")
        began = time.monotonic()
        cluster.start(deadline_s=SERVED_DEADLINE_S)
        tell(f"every broker answers after {time.monotonic() - began:.1f} s: {cluster.bootstrap}")
    except BaseException as error:
        with interrupts.deferred():
            for problem in down(name, files):
                tell(problem)
        if isinstance(error, NotInTimeError):
            raise LabError(str(error)) from error
        raise
    return replace(cluster.state, owner=own)


def stop(state: ClusterState) -> None:
    """End the processes of a cluster; its files stay."""
    Cluster(state).stop(STOP_DEADLINE_S)


def down(name: str, files: StateFiles) -> list[str]:
    """End a cluster and remove everything of it; works on any part of one.

    Returns:
        What could not be undone, one line each; empty if nothing is left.
    """
    root = files.root(name)
    state = files.read(name)
    if state is not None:
        stop(state)
    processes.end(processes.of_cluster(root), deadline_s=STOP_DEADLINE_S)
    problems = _heal(root, files)
    problems += [f"{path} could not be unmounted" for path in disks.unmount_below(root)]
    if not problems:
        problems = _remove(root)
    if not problems:
        files.remove(name)
    return problems


def make_room(name: str, files: StateFiles, tell: Tell) -> None:
    """See that there is no cluster of this name; what a killed process left is removed.

    Raises:
        LabError: one is running, or the rest of one cannot be removed.
    """
    state = files.read(name)
    if state is None and not files.root(name).exists():
        return
    if state is not None and state.owner is None and running(state):
        named = "" if name == lab_state.DEFAULT_NAME else f" --name {name}"
        raise LabError(
            f"cluster {name} is running already at {state.bootstrap}; `jbodlab down{named}` ends it"
        )
    tell(f"removing what is left of an earlier cluster {name}")
    if problems := down(name, files):
        raise LabError("; ".join(problems))


def remove_leftovers(files: StateFiles, tell: Tell) -> list[str]:
    """Remove every cluster whose owner was killed; returns what could not be undone."""
    problems: list[str] = []
    for name in files.names():
        with files.try_lock(name) as is_free:
            state = files.read(name) if is_free else None
            if state is not None and state.owner is not None:
                tell(f"removing cluster {name}, whose owner was killed")
                problems += down(name, files)
    return problems


def running(state: ClusterState) -> list[NodeState]:
    """Return the nodes whose process is alive."""
    return [
        node
        for node in state.nodes
        if node.process is not None and processes.is_alive(node.process)
    ]


def log_tail(node: NodeState) -> str:
    """Return the last lines of a node's output, indented."""
    try:
        lines = Path(node.log_file).read_text("utf-8", "replace").splitlines()
    except OSError:
        lines = []
    return "".join(f"\n    {line}" for line in lines[-LOG_TAIL_LINES:])


def _make_disks(cluster: Cluster, shape: Shape, interrupts: Interrupts, tell: Tell) -> None:
    directories = layout.directories(cluster.state)
    try:
        if shape.mounts:
            why_plain = disks.make(directories, cluster.user, shape.disk_mb, interrupts)
        else:
            disks.make_plain(directories, cluster.user)
            why_plain = "as asked for"
    except OSError as error:
        raise LabError(f"cannot make the disks of the cluster: {error}") from error
    if why_plain:
        tell(f"disks: plain folders ({why_plain})")
        return
    tell(f"disks: {len(directories)} tmpfs mounts, up to {shape.disk_mb} MiB each")
    cluster.use_disks([path.parent for path in directories])


def _heal(root: Path, files: StateFiles) -> list[str]:
    """Undo the faults below a folder; those would keep it from being removed."""
    try:
        Faults(lab_state.journal_file(files.directory)).heal_all(under=root)
    except FaultError as error:
        return [f"faults below {root} could not be healed: {error}"]
    return []


def _remove(root: Path) -> list[str]:
    try:
        shutil.rmtree(root)
    except FileNotFoundError:
        return []
    except OSError as error:
        return [f"{root} could not be removed: {error}"]
    return []
