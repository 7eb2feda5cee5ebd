"""Pictures of clusters, made of few words."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from jbodlab.kafka_admin.log_dirs import DescribedLogDir, HeldReplica
from jbodlab.picture.cluster_picture import BrokerPicture, ClusterPicture, PartitionPicture
from jbodlab.picture.places import Place
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import TopicPartition


def log_dir_told(
    path: str,
    sizes: Mapping[TopicPartition, int] | None = None,
    error: str = "",
    futures: Mapping[TopicPartition, int] | None = None,
    **more: Any,
) -> DescribedLogDir:
    """The description that a broker tells of a directory."""
    held = [(sizes or {}, False), (futures or {}, True)]
    return DescribedLogDir(
        path=path,
        error_code=ErrorCode[error] if error else 0,
        replicas=tuple(
            HeldReplica(
                topic=name.topic,
                partition=name.partition,
                size_bytes=size,
                offset_lag=0,
                is_future=is_future,
            )
            for some, is_future in held
            for name, size in some.items()
        ),
        **more,
    )


def pictured(
    replicas: Mapping[TopicPartition, tuple[int, ...]],
    contents: Mapping[Place, Mapping[TopicPartition, int]],
    *,
    leaderless: Collection[TopicPartition] = (),
    coordinators: Mapping[str, TopicPartition] | None = None,
) -> ClusterPicture:
    """A cluster in which the first replica leads, with what lies in its online directories."""
    brokers = sorted({place.broker for place in contents})
    return ClusterPicture(
        brokers=[
            BrokerPicture(
                broker_id=broker,
                paths={str(place): place.directory for place in contents if place.broker == broker},
                log_dirs=[
                    log_dir_told(str(place), sizes)
                    for place, sizes in contents.items()
                    if place.broker == broker
                ],
            )
            for broker in brokers
        ],
        listed=frozenset(brokers),
        partitions={
            name: PartitionPicture(
                leader=-1 if name in leaderless else own[0], replicas=own, isr=own
            )
            for name, own in replicas.items()
        },
        coordinators=coordinators or {},
    )
