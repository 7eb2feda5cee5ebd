"""Target of a fault: as a plan names it, and as it is in the moment when the fault is made.

::

    broker-2                          controller                      cluster
    broker-2/dir-1                    all directories of broker-2
    leader-of orders/0                follower-of orders/0
    coordinator-of writers            active controller
    (busiest | emptiest | random) directory of (broker-2 | any broker)
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn, assert_never

from jbodlab.picture.places import WORDS, Place
from jbodlab.vocabulary.ids import TopicPartition

if TYPE_CHECKING:
    from jbodlab.picture.cluster_picture import ClusterPicture

EXAMPLES = (
    "broker-2, broker-2/dir-1, controller, active controller, leader-of orders/0, "
    "coordinator-of writers, busiest directory of broker-3, all directories of broker-1"
)
_BROKER = re.compile(r"broker-(\d+)")
_DIRECTORY = re.compile(r"broker-(\d+)/dir-(\d+)")
_REPLICA = re.compile(r"(leader|follower)-of (\S+)/(\d+)")
_COORDINATOR = re.compile(r"coordinator-of (\S+)")
_PICK = re.compile(r"(busiest|emptiest|random) directory of (?:broker-(\d+)|any broker)")
_ALL = re.compile(r"all directories of broker-(\d+)")


@dataclass(frozen=True, slots=True)
class Node:
    """A broker, the controller, or the whole cluster."""

    number: int


@dataclass(frozen=True, slots=True)
class Directory:
    """One entry of a broker's `log.dirs`, from 1."""

    broker: int
    number: int


@dataclass(frozen=True, slots=True)
class ReplicaOf:
    """Where the leader of a partition is, or its first follower."""

    is_leader: bool
    partition: TopicPartition


@dataclass(frozen=True, slots=True)
class CoordinatorOf:
    """Where the log is from which the transactions of a client are coordinated."""

    client: str


@dataclass(frozen=True, slots=True)
class Pick:
    """One directory, chosen by what lies in it; of any broker where none is named."""

    how: str
    broker: int | None


@dataclass(frozen=True, slots=True)
class AllOf:
    """Every directory of a broker."""

    broker: int


@dataclass(frozen=True, slots=True)
class ActiveController:
    """The controller that is active in the moment, or the directory of its metadata."""


ACTIVE = "active controller"
Target = ActiveController | Node | Directory | ReplicaOf | CoordinatorOf | Pick | AllOf


def parse(text: str) -> Target:
    """Return the target that a text names.

    Raises:
        ValueError: it names none.
    """
    for number, word in WORDS.items():
        if text == word:
            return Node(number)
    if text == ACTIVE:
        return ActiveController()
    if match := _BROKER.fullmatch(text):
        return Node(int(match[1]))
    if match := _DIRECTORY.fullmatch(text):
        return Directory(int(match[1]), int(match[2]))
    if match := _REPLICA.fullmatch(text):
        return ReplicaOf(match[1] == "leader", TopicPartition(match[2], int(match[3])))
    if match := _COORDINATOR.fullmatch(text):
        return CoordinatorOf(match[1])
    if match := _PICK.fullmatch(text):
        return Pick(match[1], int(match[2]) if match[2] else None)
    if match := _ALL.fullmatch(text):
        return AllOf(int(match[1]))
    raise ValueError(f"expected a target such as {EXAMPLES}; got {text[:60]!r}")


def is_node(target: Target) -> bool:
    """Return whether it can only be a whole node."""
    return isinstance(target, Node)


def is_directory(target: Target) -> bool:
    """Return whether it can only be a directory."""
    return isinstance(target, Directory | Pick | AllOf)


def resolve(
    target: Target, picture: ClusterPicture, chance: random.Random, *, directories: bool
) -> tuple[Place, ...]:
    """Return what a target is now.

    Args:
        target: As the plan names it.
        picture: The cluster in this moment.
        chance: Draws for `random`; seeded by the plan.
        directories: Whether directories are wanted, else whole nodes.

    Raises:
        ValueError: there is no such thing now; the text tells why.
    """
    match target:
        case Node(number):
            return (Place(number),)
        case ActiveController():
            return _none("brokers have to be asked for the active controller")
        case Directory(broker, number):
            return (Place(broker, number),)
        case AllOf(broker):
            return tuple(sorted(p for p in picture.contents if p.broker == broker)) or _none(
                f"broker-{broker} has no directory that is online"
            )
        case Pick(how, broker):
            return (_pick(how, broker, picture, chance),)
        case ReplicaOf(is_leader, partition):
            node = _replica(is_leader, partition, picture)
            return (_directory_of(node, partition, picture) if directories else Place(node),)
        case CoordinatorOf(client):
            found = picture.coordinators.get(client) or _none(f"{client} has no coordinator yet")
            log = ReplicaOf(is_leader=True, partition=found)
            return resolve(log, picture, chance, directories=directories)
        case _:
            assert_never(target)


def _pick(how: str, broker: int | None, picture: ClusterPicture, chance: random.Random) -> Place:
    found = sorted(place for place in picture.contents if broker in (None, place.broker))
    if not found:
        _none("no directory is online there")
    if how == "random":
        return chance.choice(found)

    def filled(place: Place) -> tuple[int, int]:
        replicas = picture.contents[place]
        led = sum(picture.leader(each) == place.broker for each in replicas)
        return led, sum(replicas.values())

    # Of equals the first one, so that the same plan picks the same directory.
    return (max if how == "busiest" else min)(found, key=filled)


def _replica(is_leader: bool, partition: TopicPartition, picture: ClusterPicture) -> int:
    leader = picture.leader(partition)
    if leader < 0:
        _none(f"{partition} has no leader now")
    if is_leader:
        return leader
    followers = [each for each in picture.replicas(partition) if each != leader]
    return followers[0] if followers else _none(f"{partition} has no follower")


def _directory_of(broker: int, partition: TopicPartition, picture: ClusterPicture) -> Place:
    for place, replicas in picture.contents.items():
        if place.broker == broker and partition in replicas:
            return place
    return _none(f"no directory of broker-{broker} that is online has {partition}")


def _none(why: str) -> NoReturn:
    raise ValueError(why)
