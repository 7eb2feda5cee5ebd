"""The current assignment of partitions, with the directories that hold the replicas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from admin_tool.errors import unknown
from jbodlab.kafka_admin.errors import AdminError
from jbodlab.kafka_admin.log_dirs import Replica, by_broker, replica_dirs
from jbodlab.kafka_admin.topics import (
    TopicDescription,
    describe_topics,
    list_topics,
    replicas_of,
)
from jbodlab.vocabulary.ids import TopicPartition

if TYPE_CHECKING:
    from jbodlab.kafka_admin.client import AdminClient


async def described(client: AdminClient, names: Iterable[str]) -> dict[str, TopicDescription]:
    """Return topics that must exist.

    Raises:
        AdminError: one does not.
    """
    wanted = set(names)
    found = await describe_topics(client, wanted)
    missing = sorted(wanted - set(found))
    if missing:
        raise unknown("topic", missing[0], [one.name for one in await list_topics(client)])
    return found


async def current_replicas(
    client: AdminClient, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, tuple[int, ...]]:
    """Return the replicas of partitions that must exist.

    Raises:
        AdminError: one does not.
    """
    wanted = list(partitions)
    topics = await described(client, {one.topic for one in wanted})
    found = replicas_of(topics, wanted)
    missing = sorted(set(wanted) - set(found))
    if missing:
        raise AdminError(f"partition {missing[0]} does not exist")
    return found


async def current_log_dirs(
    client: AdminClient, replicas: Mapping[TopicPartition, Iterable[int]]
) -> dict[Replica, str]:
    """Return the directories of replicas, as far as their brokers answer and have them online."""
    wanted = [Replica(broker, *one) for one, brokers in replicas.items() for broker in brokers]
    found = {}
    for here in by_broker(dict.fromkeys(wanted)).values():
        try:
            dirs = await replica_dirs(client, here)
        except AdminError:
            # A dead broker is a reason to move away from it, none to refuse.
            continue
        found.update({one: where.current for one, where in dirs.items() if where.current})
    return found
