from __future__ import annotations

from uuid import UUID

import pytest

from broker.metadata.metadata_cache import BrokerNode, MetadataCache
from jbodlab.metadata.image.broker_registration import BrokerRegistration
from jbodlab.metadata.image.cluster_image import ClusterImage
from jbodlab.metadata.image.metadata_image import MetadataImage
from jbodlab.metadata.image.partition_registration import PartitionRegistration
from jbodlab.metadata.image.topics_image import TopicImage, TopicsImage
from jbodlab.metadata.records.cluster_records import BrokerEndpoint
from jbodlab.vocabulary.directory_id import LOST, MIGRATING, UNASSIGNED
from jbodlab.vocabulary.ids import (
    BrokerEpoch,
    BrokerId,
    DirectoryId,
    LeaderEpoch,
    PartitionEpoch,
    TopicId,
    TopicIdPartition,
    TopicPartition,
)
from tests.broker.disks import directory_id

B1, B2, B3 = BrokerId(1), BrokerId(2), BrokerId(3)
D1, D2, D3 = directory_id(1), directory_id(2), directory_id(3)
TOPIC = TopicId(UUID(int=5 << 80))
T0 = TopicPartition("orders", 0)


def broker(
    broker_id: BrokerId,
    *directories: DirectoryId,
    fenced: bool = False,
    listener: str = "PLAINTEXT",
) -> BrokerRegistration:
    return BrokerRegistration(
        broker_id=broker_id,
        epoch=BrokerEpoch(10),
        incarnation_id=UUID(int=broker_id),
        endpoints=(BrokerEndpoint(name=listener, host=f"b{broker_id}", port=9092),),
        rack="r",
        fenced=fenced,
        directories=directories,
    )


def cache(
    *brokers: BrokerRegistration,
    directories: tuple[DirectoryId, ...] = (D1, D2, D3),
    leader: BrokerId = B1,
) -> MetadataCache:
    partition = PartitionRegistration(
        replicas=(B1, B2, B3),
        directories=directories,
        isr=(B1, B2, B3),
        leader=leader,
        leader_epoch=LeaderEpoch(4),
        partition_epoch=PartitionEpoch(6),
    )
    topic = TopicImage(name="orders", topic_id=TOPIC, partitions={0: partition})
    made = MetadataCache(B1, "PLAINTEXT")
    made.publish(
        MetadataImage(
            cluster=ClusterImage(brokers={each.broker_id: each for each in brokers}),
            topics=TopicsImage(by_id={TOPIC: topic}, by_name={"orders": topic}),
        )
    )
    return made


def offline(made: MetadataCache, listener: str = "PLAINTEXT") -> list[BrokerId]:
    partition = made.partition(T0)
    assert partition is not None
    return made.offline_replicas(partition, listener)


def test_replicas_of_live_brokers_in_online_directories_are_online() -> None:
    assert offline(cache(broker(B1, D1), broker(B2, D2), broker(B3, D3))) == []


def test_a_replica_is_offline_when_its_broker_is_unknown_fenced_or_lacks_the_listener() -> None:
    made = cache(broker(B2, D2, fenced=True), broker(B3, D3, listener="OTHER"))
    assert offline(made) == [B1, B2, B3]
    assert offline(made, "OTHER") == [B1, B2]


def test_a_replica_is_offline_when_its_directory_is() -> None:
    assert offline(cache(broker(B1, D1), broker(B2, D1), broker(B3, D3))) == [B2]


@pytest.mark.parametrize(
    ("directory", "expected"), [(UNASSIGNED, []), (MIGRATING, []), (LOST, [B2])]
)
def test_reserved_directories(directory: DirectoryId, expected: list[BrokerId]) -> None:
    made = cache(broker(B1, D1), broker(B2, D2), broker(B3, D3), directories=(D1, directory, D3))
    assert offline(made) == expected


def test_a_broker_registered_without_directories_has_them_all_online() -> None:
    made = cache(broker(B1), broker(B2), broker(B3))
    assert offline(made) == []


def test_live_brokers_are_registered_unfenced_and_have_the_listener() -> None:
    made = cache(broker(B3), broker(B1), broker(B2, fenced=True))
    assert made.live_brokers("PLAINTEXT") == [
        BrokerNode(B1, "b1", 9092, "r"),
        BrokerNode(B3, "b3", 9092, "r"),
    ]
    assert made.live_brokers("OTHER") == []


def test_names_and_ids_of_topics() -> None:
    made = cache()
    assert made.topic_id("orders") == TOPIC
    assert made.topic_name(TOPIC) == "orders"
    assert made.topic_id("other") is None
    assert made.topic_name(TopicId(UUID(int=9))) is None


def test_a_live_broker_is_named_as_controller() -> None:
    assert cache(broker(B1), broker(B2)).controller_id() == B1
    assert cache(broker(B1, fenced=True), broker(B2)).controller_id() == B2
    assert cache().controller_id() == -1


def test_what_this_broker_leads_in_a_directory() -> None:
    made = cache(broker(B1, D1))
    assert made.leads_in(D1)
    assert not made.leads_in(D2)
    assert not cache(broker(B1, D1), leader=B2).leads_in(D1)


def test_whether_this_broker_is_a_replica() -> None:
    made = cache()
    assert made.is_replica(TopicIdPartition(TOPIC, 0))
    assert not made.is_replica(TopicIdPartition(TOPIC, 1))
    assert not made.is_replica(TopicIdPartition(TopicId(UUID(int=9)), 0))


def test_a_new_image_replaces_the_old_one_as_a_whole() -> None:
    made = cache(broker(B1), broker(B2))
    assert len(made.live_brokers("PLAINTEXT")) == 2
    made.publish(MetadataImage())
    assert made.live_brokers("PLAINTEXT") == []
    assert made.topic_id("orders") is None
