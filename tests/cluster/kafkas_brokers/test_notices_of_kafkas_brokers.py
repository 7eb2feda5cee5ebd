"""Notices of a failed directory of Apache Kafka's brokers, and by which source."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from jbodlab.picture.places import Place
from lab.cluster import Cluster, ClusterSpec, wait_for
from lab.cluster.engine import Engine
from lab.cluster.picture import places_of
from lab.machine.kafka_jars import RELEASE, NoKafkaError
from lab.status import look
from lab.watch.noticed import ANSWERS, METADATA, METRICS, SOURCES
from lab.watch.observer import Observer
from lab.watch.server_log import LOG

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.kafka,
    pytest.mark.xdist_group("a cluster of Apache Kafka"),
]

DEADLINE_S = 60.0
RELEASES = os.environ.get("JBODLAB_TEST_RELEASES", RELEASE).split(",")


@pytest.fixture(params=RELEASES)
def cluster(request: pytest.FixtureRequest, cluster_root: Path) -> Iterator[Cluster]:
    """One broker with two directories."""
    engine = Engine(request.param)
    planned = Cluster.plan(cluster_root, ClusterSpec(brokers=1, disks=2, engine=engine))
    try:
        planned.make_folders()
        try:
            planned.check_servers()
        except NoKafkaError as error:
            pytest.skip(str(error))
        planned.format()
        planned.start(deadline_s=engine.served_deadline_s)
        yield planned
    finally:
        planned.close()


def test_each_source_tells_of_a_failed_directory_and_status_names_it(cluster: Cluster) -> None:
    cluster.create_topic("orders", partitions=4, replicas=1)
    brokers, place = cluster.state.brokers, Place(1, 1)
    observer = Observer(
        brokers,
        places_of(brokers),
        [cluster.controller.metadata_dir],
        None,
        metrics=cluster.metrics_commands(),
    )
    observer.begin()
    try:
        with cluster.broker(1).log_dirs[0].fails("permission"):
            wait_for(
                "a notice of each source",
                lambda: {LOG, METRICS, ANSWERS, METADATA} <= sources(observer, place),
                DEADLINE_S,
                last_seen=lambda: sources(observer, place),
            )
            (told, other) = look(cluster.state, cluster.faults.journal).to_json()["nodes"][1][
                "log_dirs"
            ]
    finally:
        observer.stop()

    assert told["state"] == "OFFLINE"
    assert told["noticed"]["by"] == LOG
    assert told["noticed"]["cause"].startswith("Error while")
    assert (other["state"], other["noticed"]) == ("ONLINE", None)
    assert not any("Unexpected api key" in line for line in cluster.broker(1).log_lines())
    assert not sources(observer, Place(1, 2))


def sources(observer: Observer, place: Place) -> set[str]:
    events = [(one.source, one.kind) for one in observer.events if one.place == place]
    return {SOURCES[event] for event in events if event in SOURCES}
