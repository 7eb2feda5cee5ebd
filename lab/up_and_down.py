"""Bring a cluster up, and take it down so that nothing is left.

Everything that is made is written down first: the state file names the folder before the folder
exists, each process is added in the moment it runs. Taking down works from that file and from what
the system itself says about the folder (mounts below it, processes that carry its name), so it is
the same whether the cluster is whole, half made, or what a killed process left.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from uuid import UUID

from msgspec.structs import replace

from fault_injection.errors import FaultError
from fault_injection.fuse import disk as fuse_disk
from jbodlab.cli import lab_state
from jbodlab.cli.lab_state import ClusterState
from jbodlab.storage.directory.names import PARTITION_METADATA_FILE, DirKind, parse_partition_dir
from jbodlab.storage.directory.partition_metadata import read_topic_id
from jbodlab.storage.directory.posix_filesystem import PosixFileSystem
from jbodlab.vocabulary.errors import CorruptRecordError
from jbodlab.vocabulary.ids import INTERNAL_TOPICS, TopicPartition
from lab.cluster import Cluster, ClusterSpec, NotInTimeError, layout, limits
from lab.cluster.faults import Faults
from lab.errors import LabError
from lab.machine import disks, folders, processes, programs
from lab.machine.disk_kinds import FOLDER, FUSE, SIZED, TMPFS
from lab.machine.interrupts import Interrupts
from lab.machine.processes import ServerUser
from lab.state_files import StateFiles

DEMO_CLUSTER = "demo"
"""Name of the cluster of `jbodlab demo`."""
STOP_DEADLINE_S = 10.0

Tell = Callable[[str], None]


def up(
    name: str,
    user: ServerUser,
    spec: ClusterSpec,
    files: StateFiles,
    interrupts: Interrupts,
    tell: Tell,
    meanwhile: Callable[[], object] = lambda: None,
) -> ClusterState:
    """Make and start a cluster; when that fails nothing of it is left.

    Args:
        name: Its name; the lock of it is held.
        user: User that the servers run as.
        spec: Its description.
        files: Where it is written down.
        interrupts: Held back while something is made that must not be lost sight of.
        tell: Told of each step, one line each.
        meanwhile: Called while the nodes are starting.

    Raises:
        LabError: it could not be made; the text tells why.
    """
    if reason := limits.refusal(limits.this_machine(files.root(name), user.uid), spec):
        raise LabError(reason)
    own = processes.find(os.getpid())
    cluster = Cluster.plan(
        files.root(name),
        spec,
        name=name,
        user=user,
        state_dir=files.directory,
        journal=files.journal,
        record=lambda state: files.write(replace(state, owner=own)),
        guard=interrupts.deferred,
        outlives_us=True,
    )
    try:
        files.write(replace(cluster.state, owner=own))
        cluster.make_folders(spec.properties)
        # Copies the sources where the servers' user cannot read them, which the next steps need.
        cluster.environment()
        make_disks(cluster, spec, interrupts, tell)
        make_breakable(cluster, spec.mechanism, tell)
        cluster.format()
        count = len(layout.directories(cluster.state))
        tell(f"{count} directories formatted for cluster {cluster.id}")
        began = time.monotonic()
        try:
            cluster.start(meanwhile=meanwhile)
        except LabError:
            # Where their user cannot run them at all, this says what helps.
            cluster.check_servers()
            raise
        tell(f"every broker answers after {time.monotonic() - began:.1f} s: {cluster.bootstrap}")
    except BaseException as error:
        with interrupts.deferred():
            for problem in down(name, files):
                tell(problem)
        if isinstance(error, NotInTimeError):
            raise LabError(str(error)) from error
        raise
    cluster.let_go()
    return replace(cluster.state, owner=own)


def opened(
    state: ClusterState,
    files: StateFiles,
    guard: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext,
) -> Cluster:
    """Take hold of a cluster that is up and goes on when this process ends."""
    return Cluster(
        state,
        state_dir=files.directory,
        journal=files.journal,
        record=files.write,
        guard=guard,
        outlives_us=True,
    )


def stop(state: ClusterState) -> None:
    """End the processes of a cluster; its files stay."""
    Cluster(state).stop(STOP_DEADLINE_S)


def down(name: str, files: StateFiles) -> list[str]:
    """End a cluster and remove everything of it; works on any part of one.

    Returns:
        Problems that could not be undone, one line each; empty if nothing is left.
    """
    root = files.root(name)
    steps: list[Callable[[], list[str]]] = [
        # A process that hangs below a system call does not even die of SIGKILL before it is healed,
        # and the one that would heal a fault later ends with it.
        lambda: _heal(root, files),
        lambda: _stop(files.read(name)),
        lambda: _end(root),
        lambda: [f"{path} could not be unmounted" for path in disks.unmount_below(root)],
    ]
    problems = [problem for step in steps for problem in _tried(step)]
    for step in (lambda: _remove(root), lambda: folders.left_of(root)):
        problems = problems or _tried(step)
    if not problems:
        files.remove(name)
    return problems


def _tried(step: Callable[[], list[str]]) -> list[str]:
    """Take a step of a clean-up; one that fails, whatever the reason is, keeps no other from it."""
    try:
        return step()
    except Exception as error:  # noqa: BLE001 - what comes next ends processes and mounts
        return [f"an error while cleaning up: {error!r}"]


def _stop(state: ClusterState | None) -> list[str]:
    if state is not None:
        stop(state)
    return []


def _end(root: Path) -> list[str]:
    processes.end(processes.of_cluster(root), deadline_s=STOP_DEADLINE_S)
    return []


def make_room(name: str, files: StateFiles, tell: Tell) -> None:
    """See that there is no cluster of this name; what a killed process left is removed.

    Raises:
        LabError: one is running, or the rest of one cannot be removed.
    """
    state = files.read(name)
    if state is None and not files.root(name).exists():
        return
    if state is not None and state.owner is None and lab_state.running_nodes(state):
        raise LabError(
            f"cluster {name} is running already at {state.bootstrap}; "
            f"`{programs.call('down', name)}` ends it"
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


def records_kept(state: ClusterState) -> tuple[int, int]:
    """Return how many partitions have records, and the bytes of all their replicas.

    Topics of the cluster's own are left out, and what is deleted already. A directory that cannot
    be looked into counts as empty.
    """
    partitions, size = set(), 0
    for node in state.brokers:
        for path in filter(fuse_disk.lets_through, map(Path, node.log_dirs)):
            with contextlib.suppress(OSError):
                for replica in path.iterdir():
                    partition = _partition_of(replica.name)
                    if partition is None or partition.topic in INTERNAL_TOPICS:
                        continue
                    if found := sum(log.stat().st_size for log in replica.glob("*.log")):
                        partitions.add((_topic_of(replica) or partition.topic, partition.partition))
                        size += found
    return len(partitions), size


def _partition_of(name: str) -> TopicPartition | None:
    """Return the partition of which a folder is a replica; None for what is none, or deleted."""
    try:
        parsed = parse_partition_dir(name)
    except ValueError:
        return None
    return None if parsed.kind is DirKind.DELETE else parsed.topic_partition


def _topic_of(replica: Path) -> UUID | None:
    """Return the topic id of a folder, whose name may be cut; None for one without."""
    with contextlib.suppress(CorruptRecordError):
        return read_topic_id(PosixFileSystem(), replica / PARTITION_METADATA_FILE)
    return None


def make_disks(cluster: Cluster, spec: ClusterSpec, interrupts: Interrupts, tell: Tell) -> None:
    """Make the disks of a cluster whose folders are there, with the directories in them.

    Raises:
        LabError: that failed, or disks of this kind cannot be made here.
    """
    directories = layout.directories(cluster.state)
    mounted = directories
    try:
        if spec.disk_kind == FOLDER:
            disks.make_plain(directories, cluster.user)
            why_plain = "as asked for"
        elif spec.disk_kind == FUSE:
            mounted = [path for broker in cluster.brokers for path in broker.paths]
            why_plain = disks.make_served(
                mounted, cluster.user, interrupts, cluster.serve_disk, cluster.root / "logs"
            )
            disks.make_plain([path for path in directories if path not in mounted], cluster.user)
        else:
            why_plain = disks.make(
                directories, cluster.user, spec.disk_mb, interrupts, spec.disk_kind or TMPFS
            )
    except OSError as error:
        raise LabError(f"cannot make the disks of the cluster: {error}") from error
    if why_plain and spec.disk_kind not in ("", FOLDER):
        raise LabError(f"disks of kind {spec.disk_kind} cannot be made: {why_plain}")
    if why_plain:
        tell(f"disks: plain folders ({why_plain})")
        return
    kind = spec.disk_kind or TMPFS
    size = f", up to {spec.disk_mb} MiB each" if kind in SIZED else ""
    tell(f"disks: {len(mounted)} {kind} mounts{size}")
    cluster.use_disks([path.parent for path in mounted])


def make_breakable(cluster: Cluster, mechanism: str, tell: Tell) -> None:
    """Let the nodes be started so that their calls can be broken.

    Raises:
        LabError: `preload` was asked for, and the library cannot be had.
    """
    if mechanism == "none":
        return
    try:
        for node in cluster.nodes.values():
            node.preload()
    except FaultError as error:
        if mechanism == "preload":
            raise LabError(f"calls of the servers cannot be broken: {error}") from error
        tell(f"calls of the servers cannot be broken: {error}")
    else:
        tell("calls of the servers can be broken")


def _heal(root: Path, files: StateFiles) -> list[str]:
    """Undo the faults below a folder; those would keep it from being removed."""
    try:
        # A server that a fault has ended is not started again: it would be ended at once.
        Faults(files.journal, start=lambda _: None).heal_all(under=root)
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
