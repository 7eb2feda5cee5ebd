"""`jbodlab status`: brokers, their directories, what is wrong and why, and who leads what."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fault_injection.journal import Fault, read_faults
from jbodlab.cli import lab_state
from jbodlab.cli.lab_state import ClusterState, NodeState
from jbodlab.cli.output import counted
from jbodlab.kafka_admin.log_dirs import describe_log_dir_states
from jbodlab.kafka_wire.describe_log_dir_states import LogDirStateEntry
from jbodlab.record_batch.record_batch import iterate_headers
from jbodlab.vocabulary.addresses import address_text
from jbodlab.vocabulary.ids import METADATA_TOPIC
from lab.cluster import processes, questions
from lab.cluster.log_dir_states import of_kafka
from lab.cluster.questions import NO_ANSWER, ClusterView, LogDirView
from lab.cluster.server_log import LOG, Failure, last_failures
from lab.cluster.spec import spec_of

TIMEOUT_S = 3.0
LOG_DIR_KEYS = ("path", "state", "conditions", "cause")
FAULT_KEYS = ("kind", "mechanism", "since", "length_s")
"""What programs are given of directories and of faults."""

States = Mapping[int, Sequence[LogDirStateEntry]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """What was found.

    Attributes:
        alive: Ids of the nodes that run.
        log_dirs: What each broker tells clients of its directories; None without an answer.
        states: What each broker says of them in its own words.
        view: The cluster as a broker tells clients; None if none answers.
        noticed: When and why a broker noticed that a directory is offline, as its log says it, by
            the directory.
        faults: What is broken on purpose.
        metadata: The folder of the controller's metadata log, its bytes and its last offset.
    """

    state: ClusterState
    alive: frozenset[int]
    log_dirs: Mapping[int, list[LogDirView] | None]
    states: States
    view: ClusterView | None
    noticed: Mapping[str, Failure]
    faults: Sequence[Fault]
    metadata: tuple[Path, int, int]

    @property
    def is_healthy(self) -> bool:
        """Whether nodes, directories and partitions are all as they should be.

        Every node runs, no broker is fenced, every directory is online, every partition has a
        leader.
        """
        if len(self.alive) < len(self.state.nodes) or self.view is None:
            return False
        return (
            self.view.broker_ids >= {node.node_id for node in self.state.brokers}
            and all(map(self._has_its_directories, self.state.brokers))
            and all(found.leader >= 0 for found in self.view.partitions.values())
        )

    def _has_its_directories(self, node: NodeState) -> bool:
        online = {view.path for view in self.log_dirs.get(node.node_id) or () if not view.error}
        return online >= set(node.log_dirs)

    def _states(self, node: NodeState) -> Sequence[LogDirStateEntry]:
        """Return what a broker says of its directories; Kafka's say less."""
        return self.states.get(node.node_id) or of_kafka(self.log_dirs.get(node.node_id) or ())

    def text(self) -> str:
        """Return it for people."""
        state, (folder, size, offset) = self.state, self.metadata
        runs = spec_of(state).runs
        engine = f", {runs.title}" if runs.is_kafka else ""
        lines = [f"cluster {state.name} ({state.cluster_id}) at {state.bootstrap}{engine}", ""]
        lines += _nodes(self)
        lines += ["", f"metadata log: {folder}, {size:,} bytes, last offset {offset}"]
        lines += [
            f"open fault {fault.fault_id}: {fault.kind} on {fault.path} since {fault.since}"
            for fault in self.faults
        ]
        return "\n".join([*lines, "", *_partitions(self.view)])

    def to_json(self) -> dict[str, Any]:
        """Return it for programs."""
        state, (folder, size, offset) = self.state, self.metadata
        return {
            "name": state.name,
            "cluster_id": state.cluster_id,
            "bootstrap": state.bootstrap,
            "engine": str(spec_of(state).runs),
            "healthy": self.is_healthy,
            "nodes": [
                {
                    "role": node.role,
                    "id": node.node_id,
                    "address": address_text(node.host, node.port),
                    "pid": node.process.pid if node.process else None,
                    "running": node.node_id in self.alive,
                    "log_dirs": [
                        {key: getattr(entry, key) for key in LOG_DIR_KEYS}
                        | {"noticed": _noticed_json(self.noticed.get(entry.path))}
                        for entry in self._states(node)
                    ],
                }
                for node in state.nodes
            ],
            "metadata_log": {"path": str(folder), "bytes": size, "last_offset": offset},
            "open_faults": [
                {"id": fault.fault_id, "path": str(fault.path)}
                | {key: getattr(fault, key) for key in FAULT_KEYS}
                for fault in self.faults
            ],
            "partitions": [
                {"topic": partition.topic, "partition": partition.partition, **asdict(found)}
                for partition, found in sorted((self.view.partitions if self.view else {}).items())
            ],
        }


def look(state: ClusterState, journal: Path) -> Status:
    """Ask everybody."""
    log_dirs, states, view = asyncio.run(_ask(state))
    root = Path(state.root)
    return Status(
        state=state,
        alive=frozenset(node.node_id for node in lab_state.running_nodes(state)),
        log_dirs=log_dirs,
        states=states,
        view=view,
        noticed={
            path: failure
            for node in state.brokers
            for path, failure in _noticed(node, log_dirs.get(node.node_id)).items()
        },
        faults=[fault for fault in read_faults(journal) if root in fault.path.parents],
        metadata=_metadata_log(state),
    )


async def _ask(
    state: ClusterState,
) -> tuple[dict[int, list[LogDirView] | None], States, ClusterView | None]:
    # Apache Kafka's brokers do not know the request for states, and log a stack trace.
    are_ours = not spec_of(state).runs.is_kafka
    answers = await asyncio.gather(*(_ask_broker(node, is_ours=are_ours) for node in state.brokers))
    log_dirs, states = {}, {}
    for node, (found, told) in zip(state.brokers, answers, strict=True):
        log_dirs[node.node_id] = found
        if found is not None:
            states[node.node_id] = told
    for node in state.brokers:
        if log_dirs[node.node_id] is not None:
            view = await questions.ask_cluster_view(node, TIMEOUT_S)
            if view is not None:
                return log_dirs, states, view
    return log_dirs, states, None


async def _ask_broker(
    node: NodeState, *, is_ours: bool
) -> tuple[list[LogDirView] | None, Sequence[LogDirStateEntry]]:
    """Ask for the directories of a broker, None without an answer, and for what only ours tell."""
    found: list[LogDirView] | None = None
    states: Sequence[LogDirStateEntry] = ()
    with contextlib.suppress(*NO_ANSWER):
        asked = await questions.connect(node, TIMEOUT_S)
        try:
            found = await questions.log_dirs(asked, TIMEOUT_S)
            if is_ours:
                states = await describe_log_dir_states(asked, None, TIMEOUT_S)
        finally:
            asked.close()
    return found, states


def _metadata_log(state: ClusterState) -> tuple[Path, int, int]:
    folder = Path(state.controller.metadata_log_dir) / f"{METADATA_TOPIC}-0"
    try:
        segments = sorted(folder.glob("*.log"))
        return folder, sum(path.stat().st_size for path in segments), _last_offset(segments)
    except OSError:
        return folder, 0, -1


def _last_offset(segments: Sequence[Path]) -> int:
    """Return the offset of the last record in segments, -1 if there is none.

    To replay the log would tell too, and takes a quarter of the whole command.
    """
    if not segments:
        return -1
    headers = deque(iterate_headers(segments[-1].read_bytes()), maxlen=1)
    # A segment that was just begun follows its predecessor.
    return headers[0][1].last_offset if headers else int(segments[-1].stem) - 1


def _noticed(node: NodeState, found: list[LogDirView] | None) -> Mapping[str, Failure]:
    """Return what the log of a broker tells of those of its directories that are offline."""
    offline = set(node.log_dirs) - {view.path for view in found or () if not view.error}
    if found is None or not offline or not node.log_file:
        return {}
    failures = last_failures(Path(node.log_file), node.log_dirs)
    return {path: failures[path] for path in offline & failures.keys()}


def _noticed_json(failure: Failure | None) -> dict[str, Any] | None:
    if failure is None:
        return None
    return {"by": LOG, "at": _iso(failure), "cause": failure.cause or None}


def _iso(failure: Failure) -> str | None:
    if failure.wall_ms is None:
        return None
    return datetime.fromtimestamp(failure.wall_ms / 1000, UTC).isoformat(timespec="milliseconds")


def _nodes(status: Status) -> Iterator[str]:
    state, alive, log_dirs, states = status.state, status.alive, status.log_dirs, status.states
    for node in state.nodes:
        yield (
            f"{node.role} {node.node_id}  {node.host}:{node.port}  {_process(node, alive)}"
            f"{_answers(node, log_dirs)}"
        )
        for number, path in enumerate(node.log_dirs if node.role == "broker" else (), start=1):
            yield f"    {number}  {_directory(path, log_dirs.get(node.node_id)):<30}  {path}"
            for entry in states.get(node.node_id, ()):
                if entry.path == path and (entry.cause or entry.conditions):
                    yield f"       {' '.join((*entry.conditions, entry.cause or ''))}".rstrip()
            if failure := status.noticed.get(path):
                told = f"noticed {_iso(failure) or ''} ({LOG}): {failure.cause}"
                yield f"       {told.removesuffix(': ')}"


def _process(node: NodeState, alive: frozenset[int]) -> str:
    if node.process is None:
        return "does not run"
    if node.node_id not in alive:
        return f"pid {node.process.pid} has ended, see {node.log_file}"
    return f"pid {node.process.pid}, {processes.resident_mb(node.process) or 0} MiB"


def _answers(node: NodeState, log_dirs: Mapping[int, list[LogDirView] | None]) -> str:
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
            return f"online, {counted(len(view.sizes), 'replica')}, {size_kb:,.0f} KiB"
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
