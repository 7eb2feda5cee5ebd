from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.machine.folders import make_folder, remove_folder
from lab.machine.waiting import witnesses
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
    for witness in list(witnesses.values()):
        if isinstance(witness, Cluster) and root in witness.root.parents:
            witness.close()
    remove_folder(root)


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


_scenes = pytest.StashKey[tuple[Stage, Scene]]()


@pytest.fixture
def scene(stage: Stage, request: pytest.FixtureRequest) -> Iterator[Scene]:
    """A scene on that stage, for tests that need nothing else of it."""
    scene = stage.begin()
    request.node.stash[_scenes] = stage, scene
    yield scene
    # It is not there any more where the test has failed.
    if request.node.stash.get(_scenes, None):
        try:
            scene.tidy_up()
        except BaseException as error:
            stage.fail(scene, error)
            raise


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Let a test that fails take its cluster along, and note what the nodes printed."""
    has_failed = call.excinfo is not None and not call.excinfo.errisinstance(pytest.skip.Exception)
    if call.when == "call" and has_failed and (found := item.stash.get(_scenes, None)):
        del item.stash[_scenes]
        stage, scene = found
        assert call.excinfo is not None
        stage.fail(scene, call.excinfo.value)


@pytest.fixture
def cluster(scene: Scene) -> Cluster:
    """The cluster of that scene."""
    return scene.cluster


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
