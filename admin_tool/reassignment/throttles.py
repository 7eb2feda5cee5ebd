"""Which throttles a reassignment needs, and setting and clearing them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from admin_tool.requests.configs import (
    Change,
    Operation,
    alter_broker_config,
    alter_topic_configs,
)
from admin_tool.requests.connection import Connection
from admin_tool.requests.log_dirs import Replica
from admin_tool.requests.reassignments import Reassignment
from admin_tool.requests.topics import describe_topics
from jbodlab.ids import TopicPartition

LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
LOG_DIRS_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
LEADER_REPLICAS = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS = "follower.replication.throttled.replicas"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionMove:
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
) -> dict[str, list[Change]]:
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
    changes: dict[str, list[Change]] = defaultdict(list)
    for key, listed in ((LEADER_REPLICAS, leaders), (FOLLOWER_REPLICAS, followers)):
        for topic, replicas in listed.items():
            if replicas:
                value = ",".join(replicas)
                changes[topic].append(Change(name=key, operation=Operation.SET, value=value))
    return dict(changes)


def throttle_brokers(
    connection: Connection, moves: Mapping[TopicPartition, PartitionMove], rate: int
) -> None:
    """Limit the traffic between brokers to so many bytes per second."""
    alter_topic_configs(connection, throttled_replicas(moves))
    brokers: set[int] = set()
    for move in moves.values():
        brokers |= move.sources | move.targets
    for broker in sorted(brokers):
        alter_broker_config(connection, broker, _rates((LEADER_RATE, FOLLOWER_RATE), rate))


def throttle_log_dirs(connection: Connection, replicas: Iterable[Replica], rate: int) -> None:
    """Limit the copying between directories to so many bytes per second."""
    for broker in sorted({replica.broker for replica in replicas}):
        alter_broker_config(connection, broker, _rates((LOG_DIRS_RATE,), rate))


def clear_throttles(
    connection: Connection, replicas: Mapping[TopicPartition, Sequence[int]]
) -> None:
    """Remove the limits of all brokers and of the named topics."""
    named = {broker for brokers in replicas.values() for broker in brokers}
    for broker in sorted(named | {broker.id for broker in connection.brokers()}):
        alter_broker_config(
            connection, broker, _deletions((LEADER_RATE, FOLLOWER_RATE, LOG_DIRS_RATE))
        )
    # A topic that is gone took its settings with it.
    topics = sorted(describe_topics(connection, {one.topic for one in replicas}))
    deletions = _deletions((LEADER_REPLICAS, FOLLOWER_REPLICAS))
    alter_topic_configs(connection, dict.fromkeys(topics, deletions))


def _rates(keys: Iterable[str], rate: int) -> list[Change]:
    return [Change(name=key, operation=Operation.SET, value=str(rate)) for key in keys]


def _deletions(keys: Iterable[str]) -> list[Change]:
    return [Change(name=key, operation=Operation.DELETE) for key in keys]
