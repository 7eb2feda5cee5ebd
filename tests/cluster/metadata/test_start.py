"""Settings that stop a start: one line on standard error that names it, exit code 1."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator

import pytest

from lab.machine.folders import make_folder, remove_folder
from tests.cluster.harness import CONTROLLER_ID, Cluster, as_servers, made, script

pytestmark = pytest.mark.cluster


def start(cluster: Cluster, node: int) -> subprocess.CompletedProcess[str]:
    program = "jbod-controller" if node == CONTROLLER_ID else "jbod-broker"
    return as_servers(cluster, [*script(program), "-c", str(cluster.node(node).properties_file)])


def refused(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    assert lines
    return lines[-1]


def change(cluster: Cluster, node: int, line: str) -> None:
    with cluster.node(node).properties_file.open("a") as file:
        file.write(line + "\n")


@pytest.fixture(scope="module")
def shared() -> Iterator[Cluster]:
    """A cluster of which no node runs; each test leaves its files as they were."""
    root = make_folder()
    cluster = made(root / "cluster", brokers=1)
    yield cluster
    cluster.close()
    remove_folder(root)


@pytest.fixture
def cluster(shared: Cluster) -> Iterator[Cluster]:
    before = {node: node.properties_file.read_text() for node in shared.nodes.values()}
    yield shared
    for node, text in before.items():
        node.properties_file.write_text(text)


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("node.id=x", "node.id"),
        ("listeners=nonsense", "listeners"),
        ("process.roles=king", "process.roles"),
        ("controller.quorum.voters=nobody", "controller.quorum.voters"),
        ("log.dir.failure.timeout.ms=0", "log.dir.failure.timeout.ms"),
    ],
)
@pytest.mark.parametrize("node", [1, CONTROLLER_ID])
def test_wrong_value_stops_the_start_by_name(
    cluster: Cluster, node: int, line: str, named: str
) -> None:
    change(cluster, node, line)
    assert named in refused(start(cluster, node))


@pytest.mark.parametrize("node", [1, CONTROLLER_ID])
def test_missing_settings_file(cluster: Cluster, node: int) -> None:
    cluster.node(node).properties_file.unlink()
    assert str(cluster.node(node).properties_file) in refused(start(cluster, node))


def test_start_without_a_formatted_directory_is_refused(cluster: Cluster) -> None:
    files = [path / "meta.properties" for path in cluster.broker(1).paths]
    for file in files:
        file.rename(file.with_name("aside"))
    line = refused(start(cluster, 1))
    for file in files:
        file.with_name("aside").rename(file)
    assert str(cluster.broker(1).paths[1]) in line


def test_start_without_a_formatted_metadata_directory_is_refused(cluster: Cluster) -> None:
    file = cluster.node(1).metadata_dir / "meta.properties"
    aside = file.rename(file.with_name("aside"))
    line = refused(start(cluster, 1))
    aside.rename(file)
    assert str(file.parent) in line


def test_controller_port_in_use(cluster: Cluster) -> None:
    port = cluster.controller.port
    with socket.create_server(("127.0.0.1", port)):
        assert str(port) in refused(start(cluster, CONTROLLER_ID))
