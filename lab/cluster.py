"""Bring a cluster up, and take it down so that nothing is left.

Everything that is made is written down first: the state file names the folder before the folder
exists, each process is added in the moment it runs. Taking down works from that file and from what
the system itself says about the folder (mounts below it, processes that carry its name), so it is
the same whether the cluster is whole, half made, or what a killed process left.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from jbodlab import kafka_uuid, lab_state
from jbodlab.lab_state import ClusterState, NodeState
from lab import disks, plan, ports, processes, programs, questions
from lab.errors import LabError
from lab.interrupts import Interrupts
from lab.processes import ServerUser
from lab.state_files import StateFiles

READY_DEADLINE_S = 30.0
STOP_DEADLINE_S = 10.0
ASK_TIMEOUT_S = 1.0
POLL_S = 0.02
LOG_TAIL_LINES = 15

Tell = Callable[[str], None]


def up(
    name: str,
    user: ServerUser,
    shape: plan.Shape,
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
    root = files.root(name)
    state = plan.plan(
        name,
        root,
        kafka_uuid.to_text(kafka_uuid.random_uuid(os.urandom)),
        user,
        shape,
        ports.free_ports(shape.ports, start=random.randrange(ports.LAST_PORT)),
    )
    state = replace(state, owner=processes.find(os.getpid()))
    try:
        files.write(state)
        variables = programs.environment(files.directory, root)
        _make_folders(state)
        programs.check(user, root, variables)
        state = _make_disks(state, user, shape, interrupts, tell)
        files.write(state)
        _format(state, user, variables, tell)
        return _start(state, user, variables, files, interrupts, tell)
    except BaseException:
        with interrupts.deferred():
            for problem in down(name, files):
                tell(problem)
        raise


def stop(state: ClusterState) -> None:
    """End the processes of a cluster; its files stay."""
    # Brokers first: one that ends hands its leadership over, for which it needs the controller.
    for nodes in (state.brokers, (state.controller,)):
        known = [node.process for node in nodes if node.process is not None]
        processes.end(known, deadline_s=STOP_DEADLINE_S)


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


def _make_folders(state: ClusterState) -> None:
    root = Path(state.root)
    try:
        if root.exists():
            shutil.rmtree(root)
        for folder in (root, root / "config", root / "logs"):
            folder.mkdir(mode=0o755)
            folder.chmod(0o755)
        for node in state.nodes:
            Path(node.properties_file).write_text(plan.property_file(state, node), "utf-8")
            Path(node.properties_file).chmod(0o644)
    except OSError as error:
        raise LabError(f"cannot make the folders of the cluster: {error}") from error


def _make_disks(
    state: ClusterState, user: ServerUser, shape: plan.Shape, interrupts: Interrupts, tell: Tell
) -> ClusterState:
    directories = plan.directories(state)
    try:
        if shape.mounts:
            why_plain = disks.make(directories, user, shape.disk_mb, interrupts)
        else:
            disks.make_plain(directories, user)
            why_plain = "as asked for"
    except OSError as error:
        raise LabError(f"cannot make the disks of the cluster: {error}") from error
    if why_plain:
        tell(f"disks: plain folders ({why_plain})")
        return state
    tell(f"disks: {len(directories)} tmpfs mounts, up to {shape.disk_mb} MiB each")
    return replace(state, mounts=tuple(str(path.parent) for path in directories))


def _format(state: ClusterState, user: ServerUser, variables: dict[str, str], tell: Tell) -> None:
    def format_one(node: NodeState) -> str:
        command = programs.command("jbod-storage")
        arguments = ["format", "-t", state.cluster_id, "-c", node.properties_file]
        try:
            done = processes.run([*command, *arguments], user=user, environment=variables)
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
        return "" if done.returncode == 0 else (done.stderr.strip() or str(done.returncode))

    with ThreadPoolExecutor(max_workers=len(state.nodes)) as pool:
        errors = list(pool.map(format_one, state.nodes))
    for node, error in zip(state.nodes, errors, strict=True):
        if error:
            raise LabError(f"{node.role} {node.node_id} could not be formatted: {error}")
    tell(f"{len(plan.directories(state))} directories formatted for cluster {state.cluster_id}")


def _start(
    state: ClusterState,
    user: ServerUser,
    variables: dict[str, str],
    files: StateFiles,
    interrupts: Interrupts,
    tell: Tell,
) -> ClusterState:
    began = time.monotonic()
    for index, node in enumerate(state.nodes):
        with interrupts.deferred():
            try:
                process = processes.start(
                    [*programs.command(f"jbod-{node.role}"), "-c", node.properties_file],
                    user=user,
                    log_file=Path(node.log_file),
                    environment=variables,
                )
            except OSError as error:
                raise LabError(f"cannot start {node.role} {node.node_id}: {error}") from error
            nodes = list(state.nodes)
            nodes[index] = replace(node, process=process)
            state = replace(state, nodes=tuple(nodes))
            files.write(state)
    asyncio.run(_wait_until_ready(state))
    tell(f"every broker answers after {time.monotonic() - began:.1f} s: {state.bootstrap}")
    return state


async def _wait_until_ready(state: ClusterState) -> None:
    """Wait until every broker names every broker."""
    deadline = time.monotonic() + READY_DEADLINE_S
    wanted = frozenset(node.node_id for node in state.brokers)
    missing = list(state.brokers)
    while missing:
        for node in state.nodes:
            if node.process is not None and not processes.is_alive(node.process):
                raise LabError(
                    f"{node.role} {node.node_id} ended while starting; the end of its log:"
                    f"{log_tail(node)}"
                )
        if time.monotonic() > deadline:
            node = missing[0]
            raise LabError(
                f"broker {node.node_id} does not answer after {READY_DEADLINE_S:.0f} s; the end "
                f"of its log:{log_tail(node)}"
            )
        views = await asyncio.gather(
            *(questions.ask_cluster_view(node, ASK_TIMEOUT_S) for node in missing)
        )
        missing = [
            node
            for node, view in zip(missing, views, strict=True)
            if view is None or view.broker_ids != wanted
        ]
        await asyncio.sleep(POLL_S if missing else 0)


def _heal(root: Path, files: StateFiles) -> list[str]:
    """Undo the faults below a folder; those would keep it from being removed."""
    if not root.exists():
        return []
    try:
        done = subprocess.run(
            [*programs.command("jbod-fault"), "heal", "--under", str(root)],
            capture_output=True,
            text=True,
            check=False,
            cwd="/",
            env=programs.environment(files.directory, root),
            start_new_session=True,
            timeout=60,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return [f"faults below {root} could not be healed: {error}"]
    return done.stderr.strip().splitlines()


def _remove(root: Path) -> list[str]:
    try:
        shutil.rmtree(root)
    except FileNotFoundError:
        return []
    except OSError as error:
        return [f"{root} could not be removed: {error}"]
    return []
