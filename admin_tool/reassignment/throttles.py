"""Which throttles a reassignment needs, and setting and clearing them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from jbodlab.kafka_admin.configs import alter_broker_config, alter_topic_configs
from jbodlab.kafka_admin.log_dirs import Replica
from jbodlab.kafka_admin.reassignments import Reassignment
from jbodlab.kafka_admin.topics import describe_topics
from jbodlab.vocabulary.ids import TopicPartition

if TYPE_CHECKING:
    from jbodlab.kafka_admin.client import AdminClient

LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
LOG_DIRS_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
LEADER_REPLICAS = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS = "follower.replication.throttled.replicas"


class PartitionMove(NamedTuple):
    """Brokers that a partition's data comes from, and brokers that it goes to."""

    sources: frozenset[int]
    targets: frozenset[int]


def partition_moves(
    ongoing: Mapping[TopicPartition, Reassignment],
    proposed: Mapping[TopicPartition, Sequence[int]],
    current: Mapping[TopicPartition, Sequence[int]],
) -> dict[TopicPartition, PartitionMove]:
    """Return the moves that are throttled: those under way, and those proposed."""
    found = {
        one: PartitionMove(
            sources=frozenset(state.replicas) - frozenset(state.adding),
            targets=frozenset(state.adding),
        )
        for one, state in ongoing.items()
    }
    for one, replicas in proposed.items():
        known = found.get(one)
        found[one] = PartitionMove(
            sources=known.sources if known is not None else frozenset(current[one]),
            targets=frozenset(replicas),
        )
    return found


def throttled_replicas(
    moves: Mapping[TopicPartition, PartitionMove],
) -> dict[str, dict[str, str]]:
    """Return the settings by topic: every source as leader, and what is new as follower.

    A replica is written `partition:broker`.
    """
    leaders: dict[str, list[str]] = defaultdict(list)
    followers: dict[str, list[str]] = defaultdict(list)
    for one, move in sorted(moves.items()):
        leaders[one.topic].extend(f"{one.partition}:{broker}" for broker in sorted(move.sources))
        followers[one.topic].extend(
            f"{one.partition}:{broker}" for broker in sorted(move.targets - move.sources)
        )
    changes: dict[str, dict[str, str]] = defaultdict(dict)
    for key, listed in ((LEADER_REPLICAS, leaders), (FOLLOWER_REPLICAS, followers)):
        for topic, replicas in listed.items():
            if replicas:
                changes[topic][key] = ",".join(replicas)
    return dict(changes)


async def throttle_brokers(
    client: AdminClient, moves: Mapping[TopicPartition, PartitionMove], rate: int
) -> None:
    """Limit the traffic between brokers to so many bytes per second."""
    await alter_topic_configs(client, throttled_replicas(moves))
    brokers: set[int] = set()
    for move in moves.values():
        brokers |= move.sources | move.targets
    for broker in sorted(brokers):
        rates = dict.fromkeys((LEADER_RATE, FOLLOWER_RATE), str(rate))
        await alter_broker_config(client, broker, rates)


async def throttle_log_dirs(client: AdminClient, replicas: Iterable[Replica], rate: int) -> None:
    """Limit the copying between directories to so many bytes per second."""
    for broker in sorted({replica.broker for replica in replicas}):
        await alter_broker_config(client, broker, {LOG_DIRS_RATE: str(rate)})


async def clear_throttles(
    client: AdminClient, replicas: Mapping[TopicPartition, Sequence[int]]
) -> None:
    """Remove the limits of all brokers and of the named topics."""
    named = {broker for brokers in replicas.values() for broker in brokers}
    for broker in sorted(named | {broker.id for broker in await client.brokers()}):
        rates = dict.fromkeys((LEADER_RATE, FOLLOWER_RATE, LOG_DIRS_RATE))
        await alter_broker_config(client, broker, rates)
    # A topic that is gone took its settings with it.
    topics = sorted(await describe_topics(client, {one.topic for one in replicas}))
    lists = dict.fromkeys((LEADER_REPLICAS, FOLLOWER_REPLICAS))
    await alter_topic_configs(client, dict.fromkeys(topics, lists))
