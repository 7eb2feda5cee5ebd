"""`jbodlab status`: brokers, their directories, what is wrong and why, and who leads what."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from fault_injection.journal import Fault, read_faults
from jbodlab.cli import lab_state
from jbodlab.cli.lab_state import ClusterState, NodeState
from jbodlab.cli.output import counted, place
from jbodlab.kafka_admin.log_dirs import DescribedLogDir
from jbodlab.kafka_admin.quorum import Quorum
from jbodlab.picture.cluster_picture import (
    OFFLINE,
    ONLINE,
    SERVES,
    BrokerPicture,
    ClusterPicture,
    DirectoryPicture,
)
from jbodlab.record_batch.record_batch import iterate_headers
from jbodlab.vocabulary.addresses import address_text
from jbodlab.vocabulary.ids import METADATA_TOPIC
from lab.cluster import picture, questions
from lab.cluster.spec import spec_of
from lab.machine import processes
from lab.watch.server_log import LOG, Failure, last_failures

if TYPE_CHECKING:
    from jbodlab.cli.results import NoticedInLog, StatusController
    from jbodlab.cli.results import Status as Printed

TIMEOUT_S = 3.0


@dataclass(frozen=True, kw_only=True)
class Status(ClusterPicture):
    """A cluster as `status` shows it: its picture, and what is known of it on this machine.

    Attributes:
        alive: Ids of the nodes that run.
        noticed: When and why a broker noticed that a directory is offline, as its log says it, by
            the directory.
        faults: Faults that are open on purpose.
        metadata: The folder of the controller's metadata log, its bytes and its last offset.
        quorum: The controllers, as the active one describes them; None where nobody tells.
    """

    state: ClusterState
    alive: frozenset[int]
    noticed: Mapping[str, Failure]
    faults: Sequence[Fault]
    metadata: tuple[Path, int, int]
    quorum: Quorum | None

    @property
    def is_healthy(self) -> bool:
        """Whether nodes, directories and partitions are all as they should be.

        Every node runs, no broker is fenced, every directory is online, every partition has a
        leader.
        """
        return (
            len(self.alive) == len(self.state.nodes)
            and self.listed is not None
            and not self.leaderless
            and all(self.state_of(one) == SERVES for one in self.brokers)
            and all(each.state == ONLINE for one in self.brokers for each in one.directories)
        )

    def broker(self, node: NodeState) -> BrokerPicture | None:
        """Return what is known of a node as a broker; None where it is none."""
        return next((one for one in self.brokers if one.broker_id == node.node_id), None)

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
        return "\n".join([*lines, "", *_partitions(self)])

    def to_json(self) -> Printed:
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
                        {
                            "path": told.path,
                            "state": told.word,
                            "conditions": told.conditions,
                            "cause": told.reason or None,
                            "noticed": _noticed_json(self.noticed.get(told.path)),
                        }
                        for told in _told(self.broker(node))
                    ],
                }
                for node in state.nodes
            ],
            "controllers": [_controller_json(self, node) for node in state.controllers],
            "metadata_log": {"path": str(folder), "bytes": size, "last_offset": offset},
            "open_faults": [
                {
                    "id": fault.fault_id,
                    "path": str(fault.path),
                    "kind": fault.kind,
                    "mechanism": fault.mechanism,
                    "since": fault.since,
                    "length_s": fault.length_s,
                }
                for fault in self.faults
            ],
            "partitions": [
                {
                    **place(partition),
                    "leader": found.leader,
                    "replicas": found.replicas,
                    "isr": found.isr,
                    "offline": found.offline,
                }
                for partition, found in self.partitions.items()
            ],
        }


def look(state: ClusterState, journal: Path) -> Status:
    """Ask everybody."""
    found, quorum = asyncio.run(_ask(state))
    root = Path(state.root)
    return Status(
        brokers=found.brokers,
        listed=found.listed,
        partitions=found.partitions,
        state=state,
        alive=frozenset(node.node_id for node in lab_state.running_nodes(state)),
        noticed={
            path: failure
            for node, one in zip(state.brokers, found.brokers, strict=True)
            for path, failure in _noticed(node, one).items()
        },
        faults=[fault for fault in read_faults(journal) if root in fault.path.parents],
        metadata=_metadata_log(state),
        quorum=quorum,
    )


async def _ask(state: ClusterState) -> tuple[ClusterPicture, Quorum | None]:
    found = await picture.read(state, TIMEOUT_S)
    for node, one in zip(state.brokers, found.brokers, strict=True):
        if one.log_dirs is not None:
            return found, await questions.ask_quorum(node, TIMEOUT_S)
    return found, None


def _controller_json(status: Status, node: NodeState) -> StatusController:
    quorum = status.quorum
    end_offset = -1 if quorum is None else quorum.end_offsets.get(node.node_id, -1)
    return {
        "id": node.node_id,
        "role": _role(status, node),
        "epoch": None if quorum is None else quorum.leader_epoch,
        "end_offset": None if end_offset < 0 else end_offset,
    }


def _role(status: Status, node: NodeState) -> str | None:
    """Return the part of a controller in the quorum; None where nobody tells."""
    if status.quorum is None or node.node_id not in status.alive:
        return None
    return status.quorum.role(node.node_id)


def _part(status: Status, node: NodeState) -> str:
    """Return what a controller of several does, for people."""
    quorum, role = status.quorum, _role(status, node)
    if quorum is None or role is None or len(status.state.controllers) == 1:
        return ""
    if role == "active":
        return f", active in epoch {quorum.leader_epoch}"
    end_offset = quorum.end_offsets.get(node.node_id, -1)
    if end_offset < 0:
        return ", standby, not heard"
    behind = max(0, quorum.end_offsets.get(quorum.leader_id, 0) - end_offset)
    return f", standby, {counted(behind, 'record')} behind"


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


def _noticed(node: NodeState, one: BrokerPicture) -> Mapping[str, Failure]:
    """Return what the log of a broker tells of those of its directories that are offline."""
    offline = {each.path for each in one.directories if each.state == OFFLINE}
    if not offline or not node.log_file:
        return {}
    failures = last_failures(Path(node.log_file), node.log_dirs)
    return {path: failures[path] for path in offline & failures.keys()}


def _told(one: BrokerPicture | None) -> Sequence[DescribedLogDir]:
    return () if one is None else one.log_dirs or ()


def _noticed_json(failure: Failure | None) -> NoticedInLog | None:
    if failure is None:
        return None
    return {"by": LOG, "at": _iso(failure), "cause": failure.cause or None}


def _iso(failure: Failure) -> str | None:
    if failure.wall_ms is None:
        return None
    return datetime.fromtimestamp(failure.wall_ms / 1000, UTC).isoformat(timespec="milliseconds")


def _nodes(status: Status) -> Iterator[str]:
    for node in status.state.nodes:
        one = status.broker(node)
        answers = (
            "" if one is None else ", does not answer" if one.log_dirs is None else ", answers"
        )
        process = _process(node, status.alive)
        part = _part(status, node) if node in status.state.controllers else ""
        yield f"{node.role} {node.node_id}  {node.host}:{node.port}  {process}{answers}{part}"
        for each in one.directories if one else ():
            yield f"    {each.number}  {_directory(each):<30}  {each.path}"
            if words := " ".join(filter(None, (*each.told.conditions, each.told.cause))):
                yield f"       {words}"
            if failure := status.noticed.get(each.path):
                told = f"noticed {_iso(failure) or ''} ({LOG}): {failure.cause}"
                yield f"       {told.removesuffix(': ')}"


def _process(node: NodeState, alive: frozenset[int]) -> str:
    if node.process is None:
        return "does not run"
    if node.node_id not in alive:
        return f"pid {node.process.pid} has ended, see {node.log_file}"
    return f"pid {node.process.pid}, {processes.resident_mb(node.process) or 0} MiB"


def _directory(one: DirectoryPicture) -> str:
    if one.state == OFFLINE:
        return f"OFFLINE ({one.told.error or 'not named by the broker'})"
    if one.state != ONLINE:
        return one.state
    size_kb = sum(one.told.sizes.values()) / 1024
    return f"online, {counted(len(one.told.sizes), 'replica')}, {size_kb:,.0f} KiB"


def _partitions(status: Status) -> Iterator[str]:
    if status.listed is None:
        yield "no broker answers, so nobody knows the leaders"
        return
    if not status.partitions:
        yield "no topics"
        return
    yield f"{'partition':<24} {'leader':>6}  {'replicas':<12} {'isr':<12} offline"
    for partition, found in status.partitions.items():
        leader = "none" if found.leader < 0 else str(found.leader)
        yield (
            f"{partition!s:<24} {leader:>6}  {_ids(found.replicas):<12} {_ids(found.isr):<12} "
            f"{_ids(found.offline)}"
        ).rstrip()


def _ids(ids: tuple[int, ...]) -> str:
    return ",".join(map(str, ids))
