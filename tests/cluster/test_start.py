"""What a server refuses to start with: one line on standard error that names it, exit code 1."""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path

import pytest

from tests.cluster.harness import BIN, CONTROLLER_ID, Cluster, as_server_user

pytestmark = pytest.mark.cluster


def start(cluster: Cluster, node: int) -> subprocess.CompletedProcess[str]:
    program = "jbod-controller" if node == CONTROLLER_ID else "jbod-broker"
    return subprocess.run(
        as_server_user([str(BIN / program), "-c", str(cluster.properties(node))]),
        capture_output=True,
        text=True,
        timeout=60,
        cwd="/",
        check=False,
    )


def refused(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    assert lines
    return lines[-1]


def change(cluster: Cluster, node: int, line: str) -> None:
    with cluster.properties(node).open("a") as file:
        file.write(line + "\n")


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
    cluster_root: Path, node: int, line: str, named: str
) -> None:
    cluster = Cluster(cluster_root, brokers=1)
    change(cluster, node, line)
    assert named in refused(start(cluster, node))


@pytest.mark.parametrize("node", [1, CONTROLLER_ID])
def test_missing_settings_file(cluster_root: Path, node: int) -> None:
    cluster = Cluster(cluster_root, brokers=1)
    cluster.properties(node).unlink()
    assert str(cluster.properties(node)) in refused(start(cluster, node))


def test_unformatted_directory_is_fatal(cluster_root: Path) -> None:
    cluster = Cluster(cluster_root, brokers=1)
    (cluster.log_dirs(1)[1] / "meta.properties").unlink()
    line = refused(start(cluster, 1))
    assert "No `meta.properties` found in" in line
    assert str(cluster.log_dirs(1)[1]) in line


def test_controller_port_in_use(cluster_root: Path) -> None:
    cluster = Cluster(cluster_root, brokers=1)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", cluster.ports[CONTROLLER_ID]))
        taken.listen()
        assert str(cluster.ports[CONTROLLER_ID]) in refused(start(cluster, CONTROLLER_ID))


def test_second_process_on_the_same_directories_is_refused(cluster_root: Path) -> None:
    cluster = Cluster(cluster_root, brokers=1)
    try:
        cluster.start()
        assert ".lock" in refused(start(cluster, 1))
    finally:
        cluster.stop()
