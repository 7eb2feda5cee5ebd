"""Cordoned directories of a running cluster: nothing new goes there, what is there stays."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import NewTopic

from jbodlab.vocabulary.ids import BrokerId
from tests.cluster.commands import called, value
from tests.cluster.configs import BROKER, alter, client
from tests.cluster.harness import Cluster, Load, directory_id, on_disk, partitions_in, wait_for
from tests.cluster.scenes import Scene

pytestmark = pytest.mark.cluster

INVALID_REPLICATION_FACTOR, INVALID_REPLICA_ASSIGNMENT = 38, 39


def cordoned(cluster: Cluster, broker: int) -> set[Path]:
    """The cordoned directories of a broker, as the metadata has them."""
    ids = cluster.image().cluster.brokers[BrokerId(broker)].cordoned_directories or ()
    return {path for path in cluster.broker(broker).paths if directory_id(path) in ids}


def refused(cluster: Cluster, topic: NewTopic) -> int:
    with pytest.raises(KafkaException) as error:
        cluster.admin().create_topics([topic])[topic.topic].result(30)
    assert "cordoned" in error.value.args[0].str()
    return int(error.value.args[0].code())


def test_a_cordoned_directory_gets_nothing_new_and_serves_what_it_has(scene: Scene) -> None:
    cluster = scene.cluster
    scene.create("before", 6, 3)
    closed, *others = cluster.broker(1).paths
    wait_for("all in use", lambda: len(on_disk(cluster, 1, "before")) == 6)
    kept = partitions_in(closed, "before")
    assert kept
    with Load(cluster.bootstrap, "before") as load:
        called(cluster, "dirs", "cordon", "broker-1/1")
        # Cordons that the tool has told of are known to the controller.
        assert cordoned(cluster, 1) == {closed}
        scene.create("after", 6, 3)
        wait_for("the replicas", lambda: len(on_disk(cluster, 1, "after")) == 6)
        assert partitions_in(closed, "after") == set()
        assert set().union(*(partitions_in(path, "after") for path in others)) == set(range(6))
        sent = len(load.acknowledged)
        wait_for("more records", lambda: len(load.acknowledged) > sent + 500)
    assert load.errors == []
    assert partitions_in(closed, "before") == kept
    first, *rest = value(cluster, "dirs", "list", "--brokers", "1")["directories"]
    assert (first["path"], first["state"]) == (str(closed), "CORDONED")
    assert {each["state"] for each in rest} == {"ONLINE"}
    called(cluster, "dirs", "uncordon", "broker-1/1")
    assert cordoned(cluster, 1) == set()
    scene.create("again", 6, 3)
    wait_for("the replicas", lambda: len(on_disk(cluster, 1, "again")) == 6)
    assert partitions_in(closed, "again")


def test_a_broker_that_is_closed_altogether_gets_no_replica_on_any_way(scene: Scene) -> None:
    cluster = scene.cluster
    admin = client(cluster)
    alter(admin, BROKER, "2", cordoned_log_dirs="*")
    assert cordoned(cluster, 2) == set(cluster.broker(2).paths)
    scene.create("around", 6, 2)
    replicas = cluster.image().topics.by_name["around"].partitions.values()
    assert all(BrokerId(2) not in each.replicas for each in replicas)
    assert refused(cluster, NewTopic("wide", 1, 3)) == INVALID_REPLICATION_FACTOR
    assert refused(cluster, NewTopic("named", 1, replica_assignment=[[1, 2]])) == (
        INVALID_REPLICA_ASSIGNMENT
    )
    # It stays so when the process begins anew.
    cluster.node(2).kill()
    cluster.node(2).start()
    cluster.wait_served()
    assert refused(cluster, NewTopic("named", 1, replica_assignment=[[1, 2]])) == (
        INVALID_REPLICA_ASSIGNMENT
    )
    called(cluster, "dirs", "uncordon", "broker-2")
    scene.create("wide", 2, 3)
    wait_for("the replicas", lambda: len(on_disk(cluster, 2, "wide")) == 2)
