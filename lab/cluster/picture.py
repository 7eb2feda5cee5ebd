"""What a cluster is like in a moment: its brokers, their directories, and all partitions.

One value for all that shows or asks it: `status`, the live page, the targets of plans, what detects
faults, and what must not break the last replica in sync. It is made of the answers of brokers
(`questions`): once by `read`, or again and again by an observer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from fault_injection.closed_cluster import SECURITY
from jbodlab.cli.lab_state import ClusterState, NodeState
from jbodlab.vocabulary.addresses import address_text
from jbodlab.vocabulary.ids import BrokerId, TopicPartition
from lab.cluster import questions
from lab.cluster.places import Place
from lab.cluster.questions import ClusterView, LogDirView, PartitionView
from lab.cluster.spec import spec_of

ONLINE, OFFLINE, UNKNOWN = "online", "OFFLINE", "unknown"
SERVES, FENCED, SILENT = "serves", "FENCED", "SILENT"


class Eligible(NamedTuple):
    """Who may lead a partition beside its ISR, or led it last; KIP-966."""

    elr: tuple[BrokerId, ...] = ()
    last_known_elr: tuple[BrokerId, ...] = ()

    def __str__(self) -> str:
        words = [f"eligible leader replicas {', '.join(map(str, self.elr)) or 'none'}"]
        if self.last_known_elr:
            words.append(f"last known {', '.join(map(str, self.last_known_elr))}")
        return ", ".join(words)


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryPicture:
    """One log directory.

    Attributes:
        number: Its place among those of its broker, from 1.
        state: `online`, `OFFLINE`, or `unknown` where its broker does not tell.
        told: What its broker says of it; of one that it does not name, nothing.
    """

    number: int
    path: str
    state: str
    told: LogDirView


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerPicture:
    """One broker.

    Attributes:
        paths: Numbers of its directories, from 1, by their paths.
        log_dirs: What it said of them last; None if it owes an answer.
        serves: Whether it gives other answers than that one.
        before: The last answer of one that owes one now; None if it never gave any.
    """

    broker_id: int
    address: str
    folder: Path
    paths: Mapping[str, int]
    log_dirs: Sequence[LogDirView] | None
    serves: bool = False
    before: Sequence[LogDirView] | None = None

    @property
    def directories(self) -> list[DirectoryPicture]:
        """Its directories in order; one that it does not name is offline."""
        return self._as_told(self.log_dirs)

    @property
    def last_told(self) -> list[DirectoryPicture]:
        """The same, by its last answer where it owes one now."""
        return self._as_told(self.before if self.log_dirs is None else self.log_dirs)

    def _as_told(self, log_dirs: Sequence[LogDirView] | None) -> list[DirectoryPicture]:
        told = {view.path: view for view in log_dirs or ()}
        found = []
        for path, number in sorted(self.paths.items(), key=lambda item: item[1]):
            view = told.get(path)
            state = OFFLINE if view is None or view.error else ONLINE
            found.append(
                DirectoryPicture(
                    number=number,
                    path=path,
                    state=UNKNOWN if log_dirs is None else state,
                    told=view or LogDirView(path=path, error="", sizes={}),
                )
            )
        return found


class Moving(NamedTuple):
    """A replica on its way from one directory of a broker to another; sizes are bytes.

    Attributes:
        source, target: Numbers of the directories; None where they are not known.
        total: -1 where it is not known.
    """

    partition: TopicPartition
    broker: int
    source: int | None
    target: int | None
    copied: int
    total: int


@dataclass(frozen=True, kw_only=True)
class ClusterPicture:
    """A cluster in a moment.

    Attributes:
        view: The last answer of a broker about the cluster; None before the first one.
        eligible: Eligible leader replicas, as the metadata log has them.
        coordinators: Partitions of the transaction log, by the names of their clients.
    """

    brokers: Sequence[BrokerPicture]
    view: ClusterView | None
    eligible: Mapping[TopicPartition, Eligible] = field(default_factory=dict)
    coordinators: Mapping[str, TopicPartition] = field(default_factory=dict)

    @cached_property
    def partitions(self) -> Mapping[TopicPartition, PartitionView]:
        """All partitions, sorted by name; empty before the first answer."""
        return {} if self.view is None else dict(sorted(self.view.partitions.items()))

    @property
    def leaderless(self) -> list[TopicPartition]:
        """The partitions without a leader."""
        return [key for key, found in self.partitions.items() if found.leader < 0]

    @property
    def under_replicated(self) -> list[TopicPartition]:
        """The partitions that have a leader, and not all replicas in sync."""
        return [
            key
            for key, found in self.partitions.items()
            if found.leader >= 0 and len(found.isr) < len(found.replicas)
        ]

    @cached_property
    def contents(self) -> Mapping[Place, Mapping[TopicPartition, int]]:
        """Bytes of each replica by its directory, of those that were online when last told."""
        return self._last_told(ONLINE)

    @property
    def offline(self) -> Set[Place]:
        """The directories that their brokers called offline when they told last."""
        return self._last_told(OFFLINE).keys()

    def _last_told(self, state: str) -> dict[Place, Mapping[TopicPartition, int]]:
        return {
            Place(one.broker_id, each.number): each.told.sizes
            for one in self.brokers
            for each in one.last_told
            if each.state == state
        }

    def leader(self, partition: TopicPartition) -> int:
        """Return who leads a partition; -1 for nobody."""
        found = self.partitions.get(partition)
        return -1 if found is None else found.leader

    def replicas(self, partition: TopicPartition) -> tuple[int, ...]:
        """Return the replicas of a partition; none if it is not there."""
        found = self.partitions.get(partition)
        return () if found is None else found.replicas

    def bytes_of(self, partitions: Collection[TopicPartition]) -> int:
        """Return how many bytes all replicas of some partitions have that can be seen."""
        held = (sizes.get(one, 0) for sizes in self.contents.values() for one in partitions)
        return sum(held)

    def state_of(self, one: BrokerPicture) -> str:
        """Return whether a broker serves, is fenced or is silent."""
        if one.log_dirs is None and not one.serves:
            return SILENT
        is_fenced = self.view is not None and one.broker_id not in self.view.broker_ids
        return FENCED if is_fenced else SERVES

    def place_of(self, path: Path) -> str:
        """Return the name of a path: a directory of a broker, a broker, or the path itself.

        What belongs to users is the folder beside those of the brokers, and is the whole cluster's.
        """
        for one in self.brokers:
            if path == one.folder.parent / SECURITY:
                return "cluster"
            if one.folder == path:
                return f"broker-{one.broker_id}"
            if (number := one.paths.get(str(path))) is not None:
                return f"broker-{one.broker_id}/{number}"
        return str(path)

    def holders(self, wanted: TopicPartition) -> dict[int, tuple[int, int]]:
        """Return the directory and the bytes of each replica of a partition, by its broker."""
        return {
            one.broker_id: (each.number, each.told.sizes[wanted])
            for one in self.brokers
            for each in one.directories
            if wanted in each.told.sizes
        }

    def last_in_sync(self, broker: int, directory: int | None) -> list[TopicPartition]:
        """Return the partitions that would have no replica in sync without a place.

        Args:
            broker: The broker.
            directory: Its directory, by number; None for the whole broker.
        """
        inside = {
            key
            for one in self.brokers
            for each in one.directories
            if one.broker_id == broker and each.number == directory
            for key in each.told.sizes
        }
        return [
            key
            for key, found in self.partitions.items()
            if set(found.isr) == {broker} and (directory is None or key in inside)
        ]

    def moving(self) -> Iterator[Moving]:
        """Yield the replicas on their way, by broker and target."""
        for one in self.brokers:
            current = {
                key: (each.number, size)
                for each in one.directories
                for key, size in each.told.sizes.items()
            }
            for each in one.directories:
                for key, copied in sorted(each.told.futures.items()):
                    source, total = current.get(key, (None, -1))
                    yield Moving(key, one.broker_id, source, each.number, copied, total)


async def read(state: ClusterState, timeout_s: float) -> ClusterPicture:
    """Ask every broker of a running cluster; eligible leader replicas are in its log only."""
    nodes, are_ours = state.brokers, not spec_of(state).runs.is_kafka
    found = await asyncio.gather(
        *(questions.ask_log_dirs(node, timeout_s, are_ours=are_ours) for node in nodes)
    )
    answers = dict(zip((node.node_id for node in nodes), found, strict=True))
    view = None
    for node in nodes:
        if view is None and answers[node.node_id] is not None:
            view = await questions.ask_cluster_view(node, timeout_s)
    return ClusterPicture(
        brokers=[of_node(node, answers[node.node_id]) for node in nodes], view=view
    )


def of_node(
    node: NodeState,
    log_dirs: Sequence[LogDirView] | None,
    paths: Mapping[str, int] | None = None,
    *,
    serves: bool = False,
    before: Sequence[LogDirView] | None = None,
) -> BrokerPicture:
    """Return a broker by what it said last; `paths` where its file does not tell them."""
    named = {path: number for number, path in enumerate(node.log_dirs, start=1)}
    return BrokerPicture(
        broker_id=node.node_id,
        address=address_text(node.host, node.port),
        folder=Path(node.metadata_log_dir).parent.parent,
        paths=named if paths is None else paths,
        log_dirs=log_dirs,
        serves=serves,
        before=before,
    )
