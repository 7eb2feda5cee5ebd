"""Small clusters: broker N has the directories `/a` and `/b`, with the numbers 2N-2 and 2N-1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from jbodlab.kafka_admin.log_dirs import DescribedLogDir
from jbodlab.picture.cluster_picture import BrokerPicture, PartitionPicture
from jbodlab.vocabulary.ids import TopicPartition
from jbodlab.what_if.cluster import Cluster, Directory, PartitionModel, TopicRules
from tests.lab.pictures import log_dir_told


def a(broker: int) -> int:
    return 2 * broker - 2


def b(broker: int) -> int:
    return 2 * broker - 1


def partition(index: int, *places: int, topic: str = "t", **fields: object) -> PartitionModel:
    """A partition with replicas in directories, all in sync, the first one leading."""
    replicas = tuple(place // 2 + 1 for place in places)
    made = PartitionModel(
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


def pictured(
    directories: Sequence[Directory],
    partitions: Sequence[PartitionModel],
    racks: Sequence[str | None] = (),
) -> list[BrokerPicture]:
    """Brokers with some directories, and in these the replicas of partitions."""
    held: dict[int, dict[TopicPartition, int]] = {}
    for one in partitions:
        for at, number in enumerate(one.directories):
            name = TopicPartition(one.topic, one.index)
            held.setdefault(number, {})[name] = one.sizes[at] if one.sizes else 0
    found: dict[int, list[DescribedLogDir]] = {}
    for number, each in enumerate(directories):
        view = log_dir_told(
            path=each.path,
            error="" if each.is_online else "KAFKA_STORAGE_ERROR",
            sizes=held.get(number, {}),
            usable_bytes=-1 if each.usable_bytes is None else each.usable_bytes,
            conditions=("FULL",) if each.is_degraded else (),
            directory_id=each.directory_id,
            is_cordoned=not each.takes,
            has_metadata_log=each.stops_broker,
        )
        found.setdefault(each.broker, []).append(view)
    return [
        BrokerPicture(
            broker_id=broker,
            rack=racks[broker - 1] if racks else None,
            log_dirs=views,
            paths={view.path: number for number, view in enumerate(views, start=1)},
        )
        for broker, views in found.items()
    ]


def cluster(
    partitions: Sequence[PartitionModel],
    *,
    brokers: int = 3,
    racks: Sequence[str | None] = (),
    rules: TopicRules | None = None,
    **fields: object,
) -> Cluster:
    """A cluster; `min.insync.replicas` is 1 where nothing else is said."""
    ids = range(1, brokers + 1)
    directories = [Directory(broker=one, path=path) for one in ids for path in ("/a", "/b")]
    made = Cluster(
        moment="now",
        brokers=pictured(directories, partitions, racks),
        partitions={
            TopicPartition(one.topic, one.index): PartitionPicture(
                leader=one.leader,
                replicas=one.replicas,
                isr=one.isr,
                offline=tuple(
                    broker
                    for broker, alive in zip(one.replicas, one.alive, strict=True)
                    if not alive
                ),
                elr=one.elr,
                last_known_elr=one.last_known_elr,
                adding=one.adding,
                removing=one.removing,
            )
            for one in partitions
        },
        rules={one.topic: rules or TopicRules() for one in partitions},
        tells_sizes=all(one.sizes for one in partitions),
    )
    return replace(made, **fields)  # type: ignore[arg-type]


def with_directories(model: Cluster, directories: Sequence[Directory]) -> Cluster:
    """The same cluster with other directories; replicas lie where they lay."""
    racks = [one.rack for one in model.brokers]
    return replace(model, brokers=pictured(directories, model.placed, racks))
