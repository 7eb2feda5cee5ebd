from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.cluster.folders import make_folder, remove_folder
from lab.cluster.waiting import witnesses
from tests.cluster.group_stage import GROUP_SETTINGS
from tests.cluster.harness import running
from tests.cluster.lab_cluster import Cluster
from tests.cluster.scenes import Scene, Stage, Stages
from tests.kafka.servers import SHORT_LIVED, KafkaServers
from tests.kafka.tools import KafkaTools


@pytest.fixture
def cluster_root() -> Iterator[Path]:
    """A folder that the servers' user may enter; pytest's own are closed to others."""
    root = make_folder()
    yield root / "cluster"
    for witness in list(witnesses):
        if isinstance(witness, Cluster) and root in witness.root.parents:
            witness.close()
    remove_folder(root)


@pytest.fixture(scope="session", autouse=True)
def _open_file_limit() -> None:
    assert os.sysconf("SC_OPEN_MAX") >= 256


_stages = Stages()


@pytest.fixture(scope="session")
def stages() -> Iterator[Stages]:
    """The cluster that the tests of this process share."""
    yield _stages
    _stages.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """Close the shared cluster before other tests: idle, it still takes a tenth of a core."""
    yield
    if nextitem is None or nextitem.get_closest_marker("cluster") is None:
        _stages.close()


@pytest.fixture
def stage(stages: Stages) -> Stage:
    """The stage of most scenes: three brokers with four directories each."""
    return stages.of()


@pytest.fixture
def scene(stage: Stage) -> Iterator[Scene]:
    """A scene on that stage, for tests that need nothing else of it."""
    with stage.scene() as scene:
        yield scene


@pytest.fixture
def group_stage(stages: Stages) -> Stage:
    """Brokers that wait for no further member of a new group."""
    return stages.of(settings=GROUP_SETTINGS)


@pytest.fixture(scope="session")
def kafkas_cluster(kafka_tools: KafkaTools) -> Iterator[Cluster]:
    """Three brokers of Apache Kafka with three directories each, for one xdist group."""
    root = make_folder()
    servers = KafkaServers(kafka_tools, SHORT_LIVED)
    with running(root / "cluster", brokers=3, dirs=3, servers=servers) as started:
        yield started
    remove_folder(root)
