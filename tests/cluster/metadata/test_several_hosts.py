"""A cluster on three hosts, each with an address of its own, and a network that loses packets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.cluster import ClusterSpec
from lab.machine.folders import make_folder, remove_folder
from tests.cluster import hosts
from tests.cluster.harness import wait_for
from tests.cluster.lab_cluster import Cluster

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(bool(hosts.refusal()), reason=hosts.refusal()),
]
SPEC = ClusterSpec(brokers=3, disks=2, controllers=3)
SETTINGS = {
    "broker.session.timeout.ms": "2500",
    "broker.heartbeat.interval.ms": "250",
    "controller.quorum.fetch.timeout.ms": "1000",
    "replica.lag.time.max.ms": "2000",
    "offsets.topic.num.partitions": "3",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    root = make_folder()
    try:
        with hosts.on_hosts(root / "cluster", SPEC, SETTINGS) as found:
            found.create_topic("orders", partitions=3, replicas=3)
            found.wait_isr("orders")
            yield found
    finally:
        remove_folder(root)


def test_a_partition_between_two_hosts_takes_the_follower_from_the_isr_until_it_heals(
    cluster: Cluster,
) -> None:
    leader = cluster.leader("orders", 0)
    follower, other = cluster.followers("orders", 0)

    with leader.fails("cut", from_=follower.name) as fault:
        assert fault.entry.mechanism == "packets"
        produce(cluster, "orders", 0)
        wait_for(
            "an ISR without the host that is not reached",
            lambda: cluster.isr("orders")[0] == {leader.id, other.id},
        )
        assert fault.broken.what == "packets"
        assert fault.broken.count > 0
        assert cluster.leader("orders", 0).id == leader.id

    cluster.wait_isr("orders", 60)


def test_a_broker_whose_packets_the_controllers_do_not_get_is_fenced_and_heals_by_its_length(
    cluster: Cluster,
) -> None:
    leader = cluster.leader("orders", 1)

    leader.fails("cut", from_="controller", for_="5s")
    wait_for("another leader", lambda: cluster.leader("orders", 1).id != leader.id, 20)

    assert leader.is_running
    cluster.wait_served(leader)
    cluster.wait_isr("orders", 60)


def test_an_active_controller_that_the_other_hosts_do_not_reach_is_replaced(
    cluster: Cluster,
) -> None:
    active = cluster.active_controller()
    others = ",".join(one.name for one in cluster.nodes.values() if one.id % 99 != active.id % 99)

    with active.fails("cut", from_=others):
        wait_for(
            "another active controller", lambda: active_of(cluster) not in (None, active.id), 20
        )

    cluster.wait_served()
    cluster.wait_isr("orders", 60)


def test_clients_of_other_hosts_are_cut_off_and_brokers_are_not(cluster: Cluster) -> None:
    broker = cluster.followers("orders", 0)[0]

    with broker.fails("cut", from_="clients") as fault:
        assert fault.entry.mechanism == "packets"
        produce(cluster, "orders", 0)
        cluster.wait_isr("orders")


def test_certificates_name_the_hosts_and_a_closed_cluster_meets_the_same_partition() -> None:
    root, spec = make_folder(), ClusterSpec(brokers=3, disks=1, security="sasl_ssl")
    try:
        with hosts.on_hosts(root / "cluster", spec, SETTINGS) as cluster:
            cluster.create_topic("orders", partitions=1, replicas=3)
            cluster.wait_isr("orders")
            leader, follower = cluster.leader("orders", 0), cluster.followers("orders", 0)[0]
            with leader.fails("cut", from_=follower.name):
                produce(cluster, "orders", 0)
                wait_for(
                    "an ISR without the host that is not reached",
                    lambda: follower.id not in cluster.isr("orders")[0],
                )
            cluster.wait_isr("orders", 60)
    finally:
        remove_folder(root)


def produce(cluster: Cluster, topic: str, partition: int) -> None:
    """Write a record that all of the ISR have."""
    from confluent_kafka import Producer

    failed: list[object] = []
    # librdkafka waits for 30 s otherwise if the broker that it has chosen first is cut off.
    quick = {"socket.connection.setup.timeout.ms": 5_000}
    producer = Producer({**cluster.application_config, **quick, "acks": "all"})
    producer.produce(
        topic, b"x", partition=partition, on_delivery=lambda error, _: failed.append(error)
    )
    assert producer.flush(30) == 0
    assert failed == [None]


def active_of(cluster: Cluster) -> int | None:
    quorum = cluster.quorum()
    return None if quorum is None else quorum.leader_id
