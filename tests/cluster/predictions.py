"""Plays losses of directories one after the other, and compares each with what was foretold."""

from __future__ import annotations

import random
from argparse import Namespace
from collections.abc import Mapping
from typing import NamedTuple

from confluent_kafka.admin import NewTopic

from admin_tool.what_if import read
from jbodlab.cli.output import Output
from jbodlab.what_if import failure as failures
from jbodlab.what_if.cluster import Cluster as Model
from lab import cluster as library
from lab.machine.waiting import wait_for

TOPICS = {
    "plain": (9, 3, {"min.insync.replicas": "2"}),
    "pairs": (9, 2, {"min.insync.replicas": "1"}),
    "strict": (6, 2, {"min.insync.replicas": "2"}),
    "single": (6, 1, {}),
    "unclean": (9, 2, {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}),
}
"""Partitions, replicas and settings."""

SETTINGS = {
    # A stopped broker, and a directory of which nothing is written, are noticed soon.
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "log.flush.offset.checkpoint.interval.ms": "1000",
    "log.flush.start.offset.checkpoint.interval.ms": "1000",
    "replica.high.watermark.checkpoint.interval.ms": "1000",
    # Nothing but a loss changes a leader or an ISR.
    "replica.lag.time.max.ms": "600000",
    "auto.leader.rebalance.enable": "false",
}
DEADLINE_S = 60.0


class Seen(NamedTuple):
    """The fields of a partition that are compared."""

    leader: int
    isr: tuple[int, ...]
    is_below_min_isr: bool


class Played(NamedTuple):
    """One loss.

    Attributes:
        lost: Name of the directory.
        takes_broker: Whether its broker stopped with it.
        changed: How many partitions were not as before.
    """

    lost: str
    takes_broker: bool
    changed: int


def make_topics(cluster: library.Cluster) -> None:
    """Create the topics, and wait until every replica is in sync and in a directory."""
    admin = cluster.admin()
    wanted = [
        NewTopic(name, partitions, replicas, config=dict(config))
        for name, (partitions, replicas, config) in TOPICS.items()
    ]
    for future in admin.create_topics(wanted).values():
        future.result(30)

    def settled() -> bool:
        found = model(cluster)
        count = sum(partitions for partitions, _, _ in TOPICS.values())
        return len(found.placed) >= count and all(
            len(one.isr) == len(one.replicas) and -1 not in one.directories for one in found.placed
        )

    wait_for("all replicas in sync", settled, DEADLINE_S)


def model(cluster: library.Cluster) -> Model:
    """Return what the brokers tell now."""
    return read(Namespace(bootstrap_server=cluster.bootstrap, command_config=None), Output())


def play(cluster: library.Cluster, seed: int, losses: int, kind: str) -> list[Played]:
    """Break directories by chance, each on top of those before, and compare.

    Args:
        cluster: Where `make_topics` was called.
        seed: Of the choice.
        losses: How many directories are lost.
        kind: How they are broken.
    """
    chance = random.Random(seed)
    played = []
    for _ in range(losses):
        before = model(cluster)
        number = chance.choice([at for numbers in before.online.values() for at in numbers])
        directory = before.directories[number]
        failure = failures.of_directory(before, number)
        now, then = seen(before), foretold(before, failure)
        nodes = {broker.id: broker for broker in cluster.brokers}
        (log_dir,) = (
            one for one in nodes[directory.broker].log_dirs if str(one.path) == directory.path
        )
        log_dir.fails(kind)

        def is_lost(name: str = directory.name) -> bool:
            found = [one for one in model(cluster).directories if one.name == name]
            return not any(one.is_online for one in found)

        wait_for(f"the loss of {directory.name}", is_lost, DEADLINE_S)
        wait_for(
            f"what was foretold of the loss of {directory.name}",
            lambda then=then: seen(model(cluster)) == then,
            DEADLINE_S,
            last_seen=lambda then=then: differences(then, seen(model(cluster))),
        )
        changed = sum(now[name] != then[name] for name in now)
        played.append(Played(directory.name, failure.directory is None, changed))
    return played


def seen(found: Model) -> dict[str, Seen]:
    """Return leader and ISR of every partition."""
    return {
        one.name: Seen(one.leader, tuple(sorted(one.isr)), len(one.isr) < found.min_isr(one))
        for one in found.placed
    }


def foretold(before: Model, failure: failures.Failure) -> dict[str, Seen]:
    """Return the same as it is after a failure."""
    _, effects = failures.effects(before, failure)
    return seen(before) | {
        one.partition.name: Seen(one.leader, tuple(sorted(one.isr)), len(one.isr) < one.min_isr)
        for one in effects
    }


def differences(wanted: Mapping[str, Seen], found: Mapping[str, Seen]) -> str:
    """Return what is not as it was foretold."""
    return "; ".join(
        f"{name} is {found.get(name)}, foretold {one}"
        for name, one in wanted.items()
        if found.get(name) != one
    )
