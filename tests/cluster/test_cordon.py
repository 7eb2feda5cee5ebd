"""Cordoned directories of a running cluster: nothing new goes there, what is there stays."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import NewTopic

from jbodlab.ids import BrokerId
from tests.cluster.harness import BIN, Cluster, Load, directory_id, running, wait_for
from tests.cluster.test_configs import BROKER, alter

pytestmark = pytest.mark.cluster

INVALID_REPLICATION_FACTOR, INVALID_REPLICA_ASSIGNMENT = 38, 39


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    root = Path(tempfile.mkdtemp(prefix="jbodlab-test-"))
    root.chmod(0o755)
    with running(root / "cluster", brokers=3, dirs=2) as started:
        yield started
    shutil.rmtree(root, ignore_errors=True)


def log_dirs(cluster: Cluster, *arguments: str) -> str:
    done = subprocess.run(
        [str(BIN / "jbod-log-dirs"), "--bootstrap-server", cluster.bootstrap, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def cordoned(cluster: Cluster, broker: int) -> set[Path]:
    """The cordoned directories of a broker, as the metadata has them."""
    ids = cluster.image().cluster.brokers[BrokerId(broker)].cordoned_directories or ()
    return {path for path in cluster.log_dirs(broker) if directory_id(path) in ids}


def refused(cluster: Cluster, topic: NewTopic) -> int:
    with pytest.raises(KafkaException) as error:
        cluster.admin().create_topics([topic])[topic.topic].result(30)
    assert "cordoned" in error.value.args[0].str()
    return int(error.value.args[0].code())


def test_a_cordoned_directory_gets_nothing_new_and_serves_what_it_has(cluster: Cluster) -> None:
    cluster.create_topic("before", 6, 3)
    closed, other = cluster.log_dirs(1)
    wait_for("both in use", lambda: len(cluster.on_disk(1, "before")) == 6)
    kept = cluster.partitions_in(closed, "before")
    assert kept
    with Load(cluster.bootstrap, "before") as load:
        log_dirs(cluster, "cordon", "--broker", "1", "--dir", str(closed))
        # What the tool has said is known to the controller.
        assert cordoned(cluster, 1) == {closed}
        cluster.create_topic("after", 6, 3)
        wait_for("the replicas", lambda: len(cluster.on_disk(1, "after")) == 6)
        assert cluster.partitions_in(closed, "after") == set()
        assert cluster.partitions_in(other, "after") == set(range(6))
        sent = len(load.acknowledged)
        wait_for("more records", lambda: len(load.acknowledged) > sent + 500)
    assert load.errors == []
    assert cluster.partitions_in(closed, "before") == kept
    shown = json.loads(log_dirs(cluster, "--describe", "--broker-list", "1").splitlines()[2])
    by_path = {each["logDir"]: each for each in shown["brokers"][0]["logDirs"]}
    assert by_path[str(closed)].get("isCordoned", True)
    log_dirs(cluster, "uncordon", "--broker", "1", "--dir", str(closed))
    assert cordoned(cluster, 1) == set()
    cluster.create_topic("again", 6, 3)
    wait_for("the replicas", lambda: len(cluster.on_disk(1, "again")) == 6)
    assert cluster.partitions_in(closed, "again")


def test_a_broker_that_is_closed_altogether_gets_no_replica_on_any_way(cluster: Cluster) -> None:
    admin = cluster.admin()
    alter(admin, BROKER, "2", cordoned_log_dirs="*")
    assert cordoned(cluster, 2) == set(cluster.log_dirs(2))
    cluster.create_topic("around", 6, 2)
    replicas = cluster.image().topics.by_name["around"].partitions.values()
    assert all(BrokerId(2) not in each.replicas for each in replicas)
    assert refused(cluster, NewTopic("wide", 1, 3)) == INVALID_REPLICATION_FACTOR
    assert refused(cluster, NewTopic("named", 1, replica_assignment=[[1, 2]])) == (
        INVALID_REPLICA_ASSIGNMENT
    )
    # It stays so when the process begins anew.
    cluster.kill(2)
    cluster.start_node(2)
    cluster.wait_ready()
    assert refused(cluster, NewTopic("named", 1, replica_assignment=[[1, 2]])) == (
        INVALID_REPLICA_ASSIGNMENT
    )
    log_dirs(cluster, "uncordon", "--broker", "2", "--dir", "*")
    cluster.create_topic("wide", 2, 3)
    wait_for("the replicas", lambda: len(cluster.on_disk(2, "wide")) == 2)


def test_a_directory_stays_cordoned_when_it_comes_back_from_a_failure(cluster: Cluster) -> None:
    closed, other = cluster.log_dirs(3)
    log_dirs(cluster, "cordon", "--broker", "3", "--dir", str(closed))
    closed.chmod(0o000)
    try:
        gone = directory_id_of(cluster, closed)
        brokers = lambda: cluster.image().cluster.brokers  # noqa: E731
        wait_for("the failure", lambda: gone not in brokers()[BrokerId(3)].directories)
    finally:
        closed.chmod(0o755)
    log_dirs(cluster, "revive", "--broker", "3", "--dir", str(closed))
    assert cordoned(cluster, 3) == {closed}
    cluster.create_topic("revived", 4, 3)
    wait_for("the replicas", lambda: len(cluster.on_disk(3, "revived")) == 4)
    assert cluster.partitions_in(other, "revived") == set(range(4))
    log_dirs(cluster, "uncordon", "--broker", "3", "--dir", str(closed))


def directory_id_of(cluster: Cluster, path: Path) -> object:
    """The id of a directory that cannot be read just now: what its broker had cordoned."""
    del path
    (only,) = cluster.image().cluster.brokers[BrokerId(3)].cordoned_directories or ()
    return only
