"""The picture of a cluster with the settings that a loss concerns.

Losses are counted over many partitions, so directories are known by their numbers in
`Cluster.directories`, and each partition by those of its replicas.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from jbodlab.cli.dir_names import DirName
from jbodlab.picture.cluster_picture import (
    ONLINE,
    SERVING,
    BrokerPicture,
    ClusterPicture,
    DirectoryPicture,
    PartitionPicture,
)
from jbodlab.vocabulary import kafka_uuid
from jbodlab.vocabulary.errors import JbodlabError
from jbodlab.vocabulary.ids import TopicPartition
from jbodlab.what_if.kinds import NOBODY, PartitionKind

if TYPE_CHECKING:
    from jbodlab.cli.results import LossMoment

ANYWHERE = -1
"""The directory of a replica of which it is not known."""
DEGRADED = ("FULL", "SLOW")
"""Conditions in which others should lead."""


class WhatIfError(JbodlabError):
    """There is no answer: the question names what does not exist, or cannot fail again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Directory:
    """One log directory.

    Attributes:
        broker: Its broker.
        path: Empty where the source does not tell it.
        directory_id: Text of its id; empty where the source does not tell it.
        is_online: Whether it serves, and so can fail.
        takes: Whether new replicas may come into it.
        is_degraded: Whether others should lead: it is full or slow. Only our brokers tell.
        usable_bytes: Bytes that may still be written; None where the source does not tell it.
        stops_broker: Whether its broker stops without it: it has the metadata log.
        undescribed: Replicas of topics that the source does not describe.
    """

    broker: int
    path: str = ""
    directory_id: str = ""
    is_online: bool = True
    takes: bool = True
    is_degraded: bool = False
    usable_bytes: int | None = None
    stops_broker: bool = False
    undescribed: int = 0

    @property
    def name(self) -> str:
        """Its name in an answer, such as `broker-3:/data2`."""
        return f"broker-{self.broker}:{self.path or self.directory_id}"


@dataclass(frozen=True, slots=True)
class TopicRules:
    """The settings of a topic that a loss concerns."""

    min_isr: int = 1
    unclean_election: bool = False


@dataclass(slots=True)
class PartitionModel:
    """One partition.

    Attributes:
        directories: Number of each replica's directory, or ANYWHERE.
        alive: Whether each replica may lead: its broker is active, its directory online.
        sizes: Bytes of each replica; empty where the source does not tell them.
    """

    topic: str
    index: int
    replicas: tuple[int, ...]
    leader: int
    isr: tuple[int, ...]
    directories: tuple[int, ...]
    alive: tuple[bool, ...]
    sizes: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """Topic and index, as Kafka's tools write them."""
        return f"{self.topic}-{self.index}"


_NO_MOMENT: LossMoment = {}


@dataclass(frozen=True, kw_only=True)
class Cluster(ClusterPicture):
    """A cluster as `what-if` asks it: its picture, and what else a loss concerns.

    Attributes:
        moment: When it was so, as the end of a sentence.
        moment_value: The same as JSON has it.
        rules: Of each topic.
        has_elr: Whether eligible leader replicas are kept.
        tells_sizes: Whether the source tells how large replicas are.
        moved: The partitions in other places than in the picture; None: as there.
        assumed: Assumptions about settings, as a sentence; empty for none.
        notes: Matters that the answers leave out, each as a sentence.
    """

    moment: str = ""
    moment_value: LossMoment = field(default_factory=lambda: _NO_MOMENT)
    rules: Mapping[str, TopicRules]
    has_elr: bool = False
    assumed: str = ""
    notes: Sequence[str] = field(default=())
    tells_sizes: bool = True
    moved: Sequence[PartitionModel] | None = None

    @cached_property
    def by_id(self) -> Mapping[int, BrokerPicture]:
        """The brokers by their ids."""
        return {one.broker_id: one for one in self.brokers}

    @cached_property
    def directories(self) -> Sequence[Directory]:
        """Those of all brokers; those of a broker in the order in which it tells them."""
        return [_directory(one, each, self.partitions) for one, each in self._told]

    @cached_property
    def _told(self) -> Sequence[tuple[BrokerPicture, DirectoryPicture]]:
        return [
            (one, each)
            for one in self.brokers
            if one.log_dirs is not None
            for each in one.directories
        ]

    @cached_property
    def placed(self) -> Sequence[PartitionModel]:
        """All partitions, with the numbers of the directories of their replicas."""
        if self.moved is not None:
            return self.moved
        numbers: dict[int, dict[TopicPartition, int]] = {
            one.broker_id: {} for one in self.brokers if one.log_dirs is not None
        }
        for number, (one, each) in enumerate(self._told):
            numbers[one.broker_id].update(dict.fromkeys(each.told.sizes, number))
        sizes = [each.told.sizes for _, each in self._told] if self.tells_sizes else ()
        return [_placed(name, one, numbers, sizes) for name, one in self.partitions.items()]

    def min_isr(self, partition: PartitionModel) -> int:
        """Return the effective `min.insync.replicas` of a partition."""
        return min(self.rules[partition.topic].min_isr, len(partition.replicas))

    def kind(self, partition: PartitionModel) -> PartitionKind:
        """Return what a partition is without the names of its brokers."""
        bit = {broker: 1 << place for place, broker in enumerate(partition.replicas)}
        leader = partition.leader
        rules = self.rules[partition.topic]
        count = len(partition.replicas)
        place = NOBODY if leader < 0 else count
        if leader in bit:
            place = bit[leader].bit_length() - 1
        degraded = 0
        if self._degraded:
            degraded = _bits(at in self._degraded for at in partition.directories)
        return PartitionKind(
            count,
            place,
            _members(bit, partition.isr),
            _bits(partition.alive),
            min(rules.min_isr, count),
            self.has_elr,
            rules.unclean_election,
            _members(bit, partition.elr),
            _members(bit, partition.last_known_elr),
            _members(bit, partition.adding),
            _members(bit, partition.removing),
            degraded,
        )

    @cached_property
    def online(self) -> Mapping[int, Sequence[int]]:
        """The numbers of the online directories of each broker."""
        found: dict[int, list[int]] = {broker: [] for broker in self.by_id}
        for number, directory in enumerate(self.directories):
            if directory.is_online:
                found[directory.broker].append(number)
        return found

    @cached_property
    def racks(self) -> Mapping[str, Sequence[int]]:
        """The brokers of each rack."""
        found: dict[str, list[int]] = {}
        for one in self.brokers:
            if one.rack is not None:
                found.setdefault(one.rack, []).append(one.broker_id)
        return found

    def takes_broker(self, number: int) -> bool:
        """Return whether a broker stops when it loses a directory.

        It does without its metadata log, and without any directory.
        """
        directory = self.directories[number]
        is_last = len(self.online[directory.broker]) == 1
        return directory.is_online and (directory.stops_broker or is_last)

    def check_known(self, broker: int) -> None:
        """Check that there is a broker.

        Raises:
            WhatIfError: there is none of this id.
        """
        if broker not in self.by_id:
            known = ", ".join(map(str, sorted(self.by_id)))
            raise WhatIfError(f"broker {broker} is unknown; known: {known or 'none'}")

    def found(self, name: DirName) -> int | None:
        """Return the number of a directory; None where the name is that of a broker.

        Raises:
            WhatIfError: there is no such broker or directory, or nobody tells of its directories.
        """
        self.check_known(name.broker)
        if name.is_broker:
            return None
        own = [at for at, one in enumerate(self.directories) if one.broker == name.broker]
        state = self.by_id[name.broker].registration
        if not own and state != SERVING:
            raise WhatIfError(f"broker {name.broker} is {state}: its directories are not known")
        for place, number in enumerate(own, 1):
            directory = self.directories[number]
            wanted = (directory.path, directory.directory_id)
            if place == name.number or (name.path is not None and name.path in wanted):
                return number
        known = ", ".join(f"{at}: {self.directories[one].name}" for at, one in enumerate(own, 1))
        raise WhatIfError(
            f"broker {name.broker} has no log directory {name.path or name.number}, "
            f"it has {known or 'none'}"
        )

    @cached_property
    def stoppers(self) -> Mapping[int, Sequence[int]]:
        """The numbers of the directories of each broker with which it stops."""
        return {
            broker: [number for number in online if self.takes_broker(number)]
            for broker, online in self.online.items()
        }

    def numbered(self, directory_id: str) -> int:
        """Return the number of a directory.

        Raises:
            WhatIfError: it is no id, or no broker has it.
        """
        try:
            kafka_uuid.parse(directory_id)
        except ValueError:
            raise WhatIfError(
                f"expected a directory such as broker-3:/data2 or its id, got {directory_id!r}"
            ) from None
        for number, directory in enumerate(self.directories):
            if directory.directory_id == directory_id:
                return number
        raise WhatIfError(f"directory {directory_id} is known to no broker")

    @cached_property
    def _degraded(self) -> frozenset[int]:
        return frozenset(at for at, one in enumerate(self.directories) if one.is_degraded)


def _directory(
    one: BrokerPicture,
    each: DirectoryPicture,
    described: Mapping[TopicPartition, PartitionPicture],
) -> Directory:
    told = each.told
    return Directory(
        broker=one.broker_id,
        # Where nobody knows the path, the id stands for it.
        path="" if told.path == told.directory_id else told.path,
        directory_id=told.directory_id,
        is_online=each.state == ONLINE,
        takes=not told.is_cordoned and not told.troubles,
        is_degraded=any(one in DEGRADED for one in told.troubles),
        usable_bytes=None if told.usable_bytes < 0 else told.usable_bytes,
        stops_broker=told.has_metadata_log,
        undescribed=sum(
            name not in described for some in (told.sizes, told.futures) for name in some
        ),
    )


def _placed(
    name: TopicPartition,
    one: PartitionPicture,
    numbers: Mapping[int, Mapping[TopicPartition, int]],
    sizes: Sequence[Mapping[TopicPartition, int]],
) -> PartitionModel:
    found = [numbers.get(broker, {}).get(name, ANYWHERE) for broker in one.replicas]
    return PartitionModel(
        topic=name.topic,
        index=name.partition,
        replicas=one.replicas,
        leader=one.leader,
        isr=one.isr,
        directories=tuple(found),
        alive=tuple(broker in numbers and broker not in one.offline for broker in one.replicas),
        sizes=tuple(0 if at == ANYWHERE else sizes[at][name] for at in found) if sizes else (),
        elr=one.elr,
        last_known_elr=one.last_known_elr,
        adding=one.adding,
        removing=one.removing,
    )


def _members(bit: Mapping[int, int], brokers: Sequence[int]) -> int:
    found = 0
    for broker in brokers:
        found |= bit.get(broker, 0)
    return found


def _bits(flags: Iterable[bool]) -> int:
    found = 0
    for place, flag in enumerate(flags):
        if flag:
            found |= 1 << place
    return found
