"""How far a reassignment has come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from admin_tool.arguments import listed
from jbodlab.kafka_admin.log_dirs import Replica, ReplicaDirs
from jbodlab.kafka_admin.reassignments import Reassignment
from jbodlab.vocabulary.ids import TopicPartition

DONE, MOVING, ELSEWHERE, OFFLINE = "done", "moving", "elsewhere", "offline"


class Status(NamedTuple):
    """How far one partition, or one replica of it, has come.

    Attributes:
        broker: None for the partition.
        state: `done`; `moving`; `elsewhere` where it has ended or goes to another place; `offline`
            where the replica is in no online directory.
        text: The state with its reason.
        is_over: Whether it has ended, as wanted or not.
    """

    partition: TopicPartition
    broker: int | None
    state: str
    text: str
    is_over: bool


def partition_status(
    wanted: Mapping[TopicPartition, Sequence[int]],
    ongoing: Mapping[TopicPartition, Reassignment],
    current: Mapping[TopicPartition, Sequence[int]],
) -> list[Status]:
    """Return how far partitions have come; pure.

    Args:
        wanted: The brokers that each shall have.
        ongoing: Reassignments of the cluster.
        current: The brokers that each has; partitions that do not exist are missing.
    """
    found = []
    for one, replicas in sorted(wanted.items()):
        now = current.get(one, ())
        if one in ongoing:
            found.append(Status(one, None, MOVING, MOVING, is_over=False))
        elif tuple(now) == tuple(replicas):
            found.append(Status(one, None, DONE, DONE, is_over=True))
        else:
            text = f"not moving: expected replicas {listed(replicas)}, got {listed(now) or 'none'}"
            found.append(Status(one, None, ELSEWHERE, text, is_over=True))
    return found


def replica_status(
    wanted: Mapping[Replica, str], found: Mapping[Replica, ReplicaDirs]
) -> list[Status]:
    """Return how far replicas have come; pure.

    Args:
        wanted: The directory that each shall be in.
        found: Where each is, and where it moves to.
    """
    return [
        Status(replica.topic_partition, replica.broker, *_of_replica(found[replica], target))
        for replica, target in sorted(wanted.items())
    ]


def _of_replica(where: ReplicaDirs, target: str) -> tuple[str, str, bool]:
    if where.current is None:
        return OFFLINE, "in no online log directory", False
    if where.future == target:
        return MOVING, f"moving to {target}", False
    if where.future is not None:
        return ELSEWHERE, f"moving to {where.future}, expected {target}", False
    if where.current == target:
        return DONE, f"done, in {target}", True
    return ELSEWHERE, f"not moving: in {where.current}, expected {target}", True
