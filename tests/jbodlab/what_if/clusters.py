"""Small clusters: broker N has the directories `/a` and `/b`, with the numbers 2N-2 and 2N-1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from jbodlab.what_if.cluster import Broker, Cluster, Directory, Partition, TopicRules


def a(broker: int) -> int:
    return 2 * broker - 2


def b(broker: int) -> int:
    return 2 * broker - 1


def partition(index: int, *places: int, topic: str = "t", **fields: object) -> Partition:
    """A partition with replicas in directories, all in sync, the first one leading."""
    replicas = tuple(place // 2 + 1 for place in places)
    made = Partition(
        topic=topic,
        index=index,
        replicas=replicas,
        leader=replicas[0],
        isr=replicas,
        directories=places,
        alive=(True,) * len(places),
        sizes=(100,) * len(places),
    )
    return replace(made, **fields)  # type: ignore[arg-type]


def cluster(
    partitions: Sequence[Partition],
    *,
    brokers: int = 3,
    racks: Sequence[str | None] = (),
    rules: TopicRules | None = None,
    **fields: object,
) -> Cluster:
    """A cluster; `min.insync.replicas` is 1 where nothing else is said."""
    ids = range(1, brokers + 1)
    made = Cluster(
        moment="now",
        moment_value={},
        brokers={one: Broker(broker=one, rack=racks[one - 1] if racks else None) for one in ids},
        directories=[Directory(broker=one, path=path) for one in ids for path in ("/a", "/b")],
        partitions=partitions,
        rules={one.topic: rules or TopicRules() for one in partitions},
    )
    return replace(made, **fields)  # type: ignore[arg-type]
