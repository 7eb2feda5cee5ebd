"""Clusters of releases of Apache Kafka, and of a distribution in a folder, as the lab runs them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.cluster.engine import ENGINE_VARIABLE
from lab.errors import LabError
from lab.machine import kafka_jars
from lab.testing.clusters import Cluster
from tests.cluster.engines import NEW, OLD, jars

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.kafka,
    pytest.mark.xdist_group("releases of Apache Kafka"),
]


@pytest.fixture(scope="module", params=[OLD, NEW])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    jars(request.param)
    with Cluster(brokers=1, disks=2, engine=f"kafka:{request.param}") as cluster:
        yield cluster


def pid(cluster: Cluster) -> int:
    process = cluster.inner.broker(1).state.process
    assert process is not None
    return process.pid


def test_a_repaired_directory_comes_back_with_a_restart_of_the_broker(cluster: Cluster) -> None:
    topic = cluster.new_topic(partitions=4, replicas=1)
    cluster.wait_leaders(topic)
    log_dir = cluster.leader_log_dir(topic)
    before = pid(cluster)

    with log_dir.fails("permission") as fault:
        fault.wait_detected(timeout=60)
        assert log_dir.state != "online"
    cluster.heal()

    assert log_dir.state == "online"
    assert pid(cluster) != before


def test_a_killed_broker_is_started_again(cluster: Cluster) -> None:
    cluster.broker(1).kill()
    cluster.heal()
    assert cluster.broker(1).log_dir(1).state == "online"


def test_servers_run_as_the_servers_user(cluster: Cluster) -> None:
    found = Path(f"/proc/{pid(cluster)}")
    assert found.stat().st_uid == cluster.inner.user.uid
    assert (found / "comm").read_text().strip() == "java"


def test_a_folder_with_jars_is_an_engine_and_the_variable_names_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = jars(OLD)
    folder = found[0].parent.parent / f"distribution-{os.getpid()}"
    (folder / "libs").mkdir(parents=True)
    try:
        for jar in found:
            (folder / "libs" / jar.name).symlink_to(jar)
        monkeypatch.setenv(ENGINE_VARIABLE, f"kafka:{folder}")
        with Cluster(brokers=1, disks=1) as cluster:
            assert cluster.inner.engine.release == OLD
            assert cluster.broker(1).log_dir(1).state == "online"
    finally:
        for link in (folder / "libs").iterdir():
            link.unlink()
        (folder / "libs").rmdir()
        folder.rmdir()


def test_a_setting_that_the_release_refuses_is_named_before_anything_is_started() -> None:
    jars(NEW)
    with pytest.raises(LabError, match=r"could not be formatted: .*log\.segment\.bytes") as caught:
        Cluster(brokers=1, engine=f"kafka:{NEW}", config={"log.segment.bytes": "x"})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("how", "nodes"), [({"brokers": 1, "controllers": 3}, 4), ({"brokers": 2, "combined": True}, 2)]
)
def test_controllers_are_as_many_as_is_said_and_topics_can_be_made(
    how: dict[str, Any], nodes: int
) -> None:
    jars(NEW)
    more = {"config": {"log.retention.hours": 5}, "jvm_options": "-Dkey=value"}
    with Cluster(disks=1, engine=f"kafka:{NEW}", **how, **more) as cluster:
        assert len(cluster.inner.nodes) == nodes
        cluster.wait_leaders(cluster.new_topic(partitions=2, replicas=1))
        broker = cluster.inner.broker(1)
        assert "log.retention.hours=5" in broker.properties_file.read_text("utf-8")
        assert b"-Dkey=value" in Path(f"/proc/{broker.pid}/cmdline").read_bytes().split(b"\0")


def test_classes_are_mapped_from_the_archive_of_the_engine(cluster: Cluster) -> None:
    maps = Path(f"/proc/{pid(cluster)}/maps").read_text("utf-8")
    assert f"{kafka_jars.CACHE}/archive-" in maps
