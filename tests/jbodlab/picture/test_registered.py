"""Pictures made of registrations: where replicas are, and which of them may lead."""

from __future__ import annotations

from uuid import UUID

from jbodlab.kafka_admin.log_dirs import NOT_TOLD
from jbodlab.metadata.image.broker_registration import BrokerRegistration
from jbodlab.metadata.image.partition_registration import PartitionRegistration
from jbodlab.picture.cluster_picture import OFFLINE, ONLINE, SERVING
from jbodlab.picture.places import Place
from jbodlab.picture.registered import of_registrations
from jbodlab.vocabulary import directory_id as directory_ids
from jbodlab.vocabulary import kafka_uuid
from jbodlab.vocabulary.ids import (
    BrokerEpoch,
    BrokerId,
    DirectoryId,
    LeaderEpoch,
    PartitionEpoch,
    TopicPartition,
)

A, B, C = (DirectoryId(UUID(int=number)) for number in (1001, 1002, 1003))
P0 = TopicPartition("orders", 0)


def broker(number: int, *directories: DirectoryId, fenced: bool = False) -> BrokerRegistration:
    return BrokerRegistration(
        broker_id=BrokerId(number),
        epoch=BrokerEpoch(1),
        incarnation_id=UUID(int=number),
        rack=f"r{number}",
        fenced=fenced,
        directories=directories,
        cordoned_directories=(B,),
    )


def partition(*places: tuple[int, DirectoryId], leader: int = 1) -> PartitionRegistration:
    replicas = tuple(BrokerId(number) for number, _ in places)
    return PartitionRegistration(
        replicas=replicas,
        directories=tuple(directory for _, directory in places),
        isr=replicas[:1],
        removing_replicas=(),
        adding_replicas=(),
        leader=BrokerId(leader),
        leader_epoch=LeaderEpoch(0),
        partition_epoch=PartitionEpoch(0),
        elr=replicas[1:],
    )


def test_a_replica_lies_in_the_directory_that_it_was_given_and_sizes_are_not_told() -> None:
    found = of_registrations([broker(2, C), broker(1, A, B)], {P0: partition((1, B), (2, C))})

    assert [one.broker_id for one in found.brokers] == [1, 2]
    assert found.contents == {
        Place(1, 1): {},
        Place(1, 2): {P0: NOT_TOLD},
        Place(2, 1): {P0: NOT_TOLD},
    }
    assert [each.told.is_cordoned for each in found.brokers[0].directories] == [False, True]
    assert (found.partitions[P0].elr, found.partitions[P0].offline) == ((2,), ())


def test_replicas_of_fenced_brokers_and_in_lost_directories_may_not_lead() -> None:
    places = [(1, A), (2, B), (3, C), (4, directory_ids.UNASSIGNED), (5, C)]
    brokers = [broker(1, B), broker(2, B, fenced=True), broker(3, C), broker(4, A)]

    found = of_registrations(brokers, {P0: partition(*places, leader=3)})

    assert found.partitions[P0].offline == (1, 2, 5)
    assert [one.registration for one in found.brokers] == [SERVING, "fenced", SERVING, SERVING]


def test_a_directory_that_was_online_once_is_offline_with_what_lies_in_it() -> None:
    paths = {kafka_uuid.to_text(A): "/a"}
    found = of_registrations(
        [broker(1, A)], {P0: partition((1, B))}, former={BrokerId(1): [B, A]}, paths=paths
    )

    first, second = found.brokers[0].directories
    assert (first.state, first.path) == (ONLINE, "/a")
    assert (second.state, second.path) == (OFFLINE, kafka_uuid.to_text(B))
    assert second.told.sizes == {P0: NOT_TOLD}
