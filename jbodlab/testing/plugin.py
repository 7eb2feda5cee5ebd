"""The pytest plugin: fixtures that give a test a cluster whose disks it may break.

    @pytest.mark.jbod(brokers=3, disks=2, config={"min.insync.replicas": 2})
    def test_orders_survive_a_dying_disk(jbod_cluster): ...

It imports pytest and nothing else until a fixture is used. Tests with equal needs share one cluster
of their process, which is healed and settled between them; under pytest-xdist each worker has its
own. `jbod_cluster_shared` is one for all workers, behind the HTTP API.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from lab.testing.across import SharedServers
    from lab.testing.asynchronous import AsyncCluster
    from lab.testing.clusters import Cluster
    from lab.testing.needs import ClusterSpec
    from lab.testing.served import ServedCluster
    from lab.testing.shared import SharedClusters

MARK = "jbod"
EVENTS_SHOWN = 20
WIDER_SCOPE = (
    "the fixture jbod_cluster lasts for one test; a fixture of a wider scope starts a cluster of "
    "its own: with jbodlab.testing.Cluster(brokers=3, disks=2) as cluster: yield cluster"
)
_CLUSTER = pytest.StashKey["Cluster"]()


def pytest_configure(config: pytest.Config) -> None:
    """Tell of the mark."""
    from lab.testing.needs import mark_text

    config.addinivalue_line("markers", f"{MARK}({mark_text()}): the cluster that a test needs")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show, where a test failed, what was done to its cluster and what each node printed last.

    Where a fixture of a wider scope asked for a cluster, the error says what to use there.
    """
    error = None if call.excinfo is None else call.excinfo.value
    if isinstance(error, pytest.fail.Exception) and "fixture jbod_cluster" in (error.msg or ""):
        error.msg = f"{WIDER_SCOPE}\n{error.msg}"
    report = yield
    cluster = item.stash.get(_CLUSTER, None)
    if cluster is not None and report.when == "call" and report.failed:
        lines = [f"files: {cluster.work_dir}", *cluster.events(EVENTS_SHOWN)]
        report.sections.append(("jbodlab cluster", "\n".join(lines)))
    return report


@pytest.fixture(scope="session")
def _jbod_clusters() -> Iterator[SharedClusters]:
    from lab.testing.shared import SharedClusters

    clusters = SharedClusters()
    yield clusters
    clusters.close()


@pytest.fixture
def jbod_cluster(request: pytest.FixtureRequest, _jbod_clusters: SharedClusters) -> Iterator[Any]:
    """A cluster that is shared with other tests of equal needs; healed after each of them."""
    need = _need(request)
    cluster = _jbod_clusters.get(need)
    request.node.stash[_CLUSTER] = cluster
    yield cluster
    _jbod_clusters.give_back(need)


@pytest.fixture
def jbod_cluster_async(jbod_cluster: Cluster) -> AsyncCluster:
    """The same for tests that run on an event loop."""
    from lab.testing.asynchronous import AsyncCluster

    return AsyncCluster(jbod_cluster)


@pytest.fixture(scope="session")
def _jbod_servers(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SharedServers]:
    from lab.testing.across import SharedServers

    folder = tmp_path_factory.getbasetemp()
    # That of a worker lies in the one of the run.
    shared = folder.parent if hasattr(request.config, "workerinput") else folder
    servers = SharedServers(shared / "jbodlab")
    yield servers
    servers.close()


@pytest.fixture
def jbod_cluster_shared(
    request: pytest.FixtureRequest, _jbod_servers: SharedServers
) -> Iterator[ServedCluster]:
    """A cluster that all workers use at the same time; what this test did is undone at its end."""
    cluster = _jbod_servers.get(_need(request))
    yield cluster
    cluster.give_back()


@pytest.fixture
def jbod_cluster_own(
    request: pytest.FixtureRequest, jbod_cluster_factory: Callable[..., Cluster]
) -> Cluster:
    """A new cluster for this test alone."""
    need = _need(request)
    cluster = jbod_cluster_factory(need=need)
    request.node.stash[_CLUSTER] = cluster
    return cluster


@pytest.fixture
def jbod_cluster_factory() -> Iterator[Callable[..., Cluster]]:
    """Starts clusters that are gone at the end of the test; takes what the mark takes."""
    from lab.testing.needs import need as needed
    from lab.testing.shared import SharedClusters

    clusters = SharedClusters()
    yield lambda need=None, **wanted: clusters.own(need or needed(wanted))
    clusters.close()


def _need(request: pytest.FixtureRequest) -> ClusterSpec:
    from lab.testing.needs import need as needed

    mark = request.node.get_closest_marker(MARK)
    if mark is not None and mark.args:
        raise pytest.UsageError(f"@pytest.mark.{MARK} takes names only: brokers=3, disks=2")
    try:
        return needed(mark.kwargs if mark else {})
    except (TypeError, ValueError) as error:
        raise pytest.UsageError(f"@pytest.mark.{MARK}: {error}") from error
