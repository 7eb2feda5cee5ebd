"""One failure: which partitions it touches, and what becomes of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jbodlab.cli.dir_names import DirName
from jbodlab.picture.cluster_picture import SERVING
from jbodlab.what_if.cluster import ANYWHERE, Cluster, PartitionModel
from jbodlab.what_if.kinds import NOBODY, Effect
from jbodlab.what_if.losses import Effects, Loss


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A loss: a broker, or one of its directories, fails.

    Attributes:
        directory: Its number; None for the whole broker.
        name: Its name in a sentence.
        is_offline: Whether it is a directory that has failed already.
    """

    broker: int
    directory: int | None
    name: str
    is_offline: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionEffect:
    """Effect of the failure on one partition.

    Attributes:
        leader: Broker that leads then, or -1.
        isr: Brokers in sync then.
        why_nobody: Why none of the other replicas would lead; empty where there is no other.
    """

    partition: PartitionModel
    effect: Effect
    leader: int
    isr: tuple[int, ...]
    min_isr: int
    why_nobody: Sequence[str] = ()


def of_broker(cluster: Cluster, broker: int) -> Failure:
    """Return the failure of a broker.

    Raises:
        WhatIfError: nobody knows it.
    """
    cluster.check_known(broker)
    return Failure(broker=broker, directory=None, name=f"broker {broker}")


def of_directory(cluster: Cluster, number: int) -> Failure:
    """Return the failure of a directory: that of its broker where it stops without it."""
    directory = cluster.directories[number]
    if cluster.takes_broker(number):
        return of_broker(cluster, directory.broker)
    text = directory.path or directory.directory_id
    return Failure(
        broker=directory.broker,
        directory=number,
        name=f"directory {text} of broker {directory.broker}",
        is_offline=not directory.is_online,
    )


def named(cluster: Cluster, name: DirName) -> Failure:
    """Return the failure of a directory or a broker by its name on a command line.

    Raises:
        WhatIfError: it does not exist, or nobody tells of its directories.
    """
    number = cluster.found(name)
    return of_broker(cluster, name.broker) if number is None else of_directory(cluster, number)


def effects(cluster: Cluster, failure: Failure) -> tuple[Loss, list[PartitionEffect]]:
    """Return what a failure does in all, and to each partition that has a replica there.

    Where a directory is offline already, that is what it takes to give up what is in it, or may be.
    """
    known = Effects()
    numbers = (
        [at for at, one in enumerate(cluster.directories) if one.broker == failure.broker]
        if failure.directory is None
        else [failure.directory]
    )
    loss = Loss(
        name=failure.name,
        takes_broker=failure.directory is None,
        undescribed=sum(cluster.directories[number].undescribed for number in numbers),
    )
    found = []
    for partition in cluster.placed:
        if failure.broker not in partition.replicas:
            continue
        place = partition.replicas.index(failure.broker)
        if failure.directory is not None:
            own = partition.directories[place]
            # Brokers do not tell what is in a directory that is offline.
            may_be_there = failure.is_offline and own == ANYWHERE and not partition.alive[place]
            if own != failure.directory and not may_be_there:
                continue
        effect = known.of(cluster.kind(partition), (place,))
        loss.add(partition, (place,), effect)
        found.append(
            PartitionEffect(
                partition=partition,
                effect=effect,
                leader=-1 if effect.leader == NOBODY else _leader(partition, effect.leader),
                isr=_isr(partition, effect.isr),
                min_isr=cluster.min_isr(partition),
                why_nobody=_why_nobody(cluster, partition) if effect.leaderless else (),
            )
        )
    return loss, found


def _leader(partition: PartitionModel, place: int) -> int:
    return partition.replicas[place] if place < len(partition.replicas) else partition.leader


def _isr(partition: PartitionModel, places: tuple[int, ...]) -> tuple[int, ...]:
    """Return the members in the order in which they are told now."""
    then = [partition.replicas[place] for place in places]
    kept = [broker for broker in partition.isr if broker in then]
    return (*kept, *(broker for broker in then if broker not in kept))


def _why_nobody(cluster: Cluster, partition: PartitionModel) -> list[str]:
    others = []
    for place, broker in enumerate(partition.replicas):
        found = cluster.by_id.get(broker)
        if broker == partition.leader:
            continue
        if broker not in partition.isr:
            others.append(f"{broker} is out of the ISR")
        elif found is None or found.registration != SERVING:
            state = "unregistered" if found is None else found.registration
            others.append(f"{broker} is {state}")
        elif not partition.alive[place]:
            others.append(f"{broker} is in an offline directory")
    return others
