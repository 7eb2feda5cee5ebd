"""Pictures of clusters, made of few words."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from jbodlab.picture.cluster_picture import (
    BrokerPicture,
    ClusterPicture,
    LogDirView,
    PartitionPicture,
)
from jbodlab.picture.places import Place
from jbodlab.vocabulary.ids import TopicPartition


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
                    LogDirView(path=str(place), error="", sizes=sizes)
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
