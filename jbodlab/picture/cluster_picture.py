"""State of a cluster in a moment: its brokers, their directories, and all partitions.

One value for all that shows a cluster, asks about it or predicts something of it: `status`, the
live page, what detects faults, the targets of plans, what must not break the last replica in sync,
and `what-if`. It is made of the answers of brokers (`lab.cluster.picture`, `admin_tool.what_if`),
or of registrations (`registered`): those of an image, or of the tables of a replay.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from jbodlab.kafka_admin.log_dirs import DescribedLogDir
from jbodlab.picture.places import Place
from jbodlab.vocabulary.ids import TopicPartition

ONLINE, OFFLINE, UNKNOWN = "online", "OFFLINE", "unknown"
SERVES, FENCED, SILENT = "serves", "FENCED", "SILENT"
SERVING = "unfenced"
"""The registration of a broker that takes part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionPicture:
    """One partition.

    Attributes:
        leader: -1 if there is none.
        offline: Replicas that may not lead: their broker or their directory is offline.
    """

    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def is_in_sync(self) -> bool:
        """Whether all replicas are."""
        return len(self.isr) == len(self.replicas)

    @property
    def state(self) -> str:
        """`no leader`, `in sync` or `under-replicated`."""
        if self.leader < 0:
            return "no leader"
        return "in sync" if self.is_in_sync else "under-replicated"


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryPicture:
    """One log directory.

    Attributes:
        number: Its place among those of its broker, from 1.
        state: `online`, `OFFLINE`, or `unknown` where its broker does not tell.
        told: Its broker's description of it; empty for one that it does not name.
    """

    number: int
    path: str
    state: str
    told: DescribedLogDir


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerPicture:
    """One broker.

    Attributes:
        folder: Folder of its files; empty where nobody knows.
        paths: Numbers of its directories, from 1, by their paths.
        log_dirs: Its last description of them; None if it owes an answer.
        serves: Whether it gives other answers than that one.
        before: The last answer of one that owes one now; None if it never gave any.
        registration: SERVING, or what else it is, as the source tells it.
    """

    broker_id: int
    address: str = ""
    folder: Path = Path()
    paths: Mapping[str, int] = field(default_factory=dict)
    log_dirs: Sequence[DescribedLogDir] | None = None
    serves: bool = False
    before: Sequence[DescribedLogDir] | None = None
    rack: str | None = None
    registration: str = SERVING

    @property
    def directories(self) -> list[DirectoryPicture]:
        """Its directories in order; one that it does not name is offline."""
        return self._as_told(self.log_dirs)

    @property
    def last_told(self) -> list[DirectoryPicture]:
        """The same, by its last answer where it owes one now."""
        return self._as_told(self.before if self.log_dirs is None else self.log_dirs)

    def _as_told(self, log_dirs: Sequence[DescribedLogDir] | None) -> list[DirectoryPicture]:
        told = {view.path: view for view in log_dirs or ()}
        found = []
        for path, number in sorted(self.paths.items(), key=lambda item: item[1]):
            view = told.get(path)
            state = OFFLINE if view is None or view.error_code else ONLINE
            found.append(
                DirectoryPicture(
                    number=number,
                    path=path,
                    state=UNKNOWN if log_dirs is None else state,
                    told=view or DescribedLogDir(path=path),
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
        listed: Ids of the brokers that the cluster lists; None before its first answer.
        partitions: All that are looked at, sorted by name.
        coordinators: Partitions of the transaction log, by the names of their clients.
    """

    brokers: Sequence[BrokerPicture]
    listed: Set[int] | None = None
    partitions: Mapping[TopicPartition, PartitionPicture] = field(default_factory=dict)
    coordinators: Mapping[str, TopicPartition] = field(default_factory=dict)

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
            if found.leader >= 0 and not found.is_in_sync
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
        is_fenced = self.listed is not None and one.broker_id not in self.listed
        return FENCED if is_fenced else SERVES

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
