"""Rehearsals that are interrupted at some moment, and clusters by the hundred: nothing is left."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from fault_injection import mounts
from lab.cluster import wait_for
from lab.machine import processes
from lab.machine.folders import make_folder, remove_folder
from lab.testing.clusters import Cluster
from tests.cluster.scenes import some

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).resolve().parents[3]
PLAN = """\
rehearsal: 1
name: interrupted
cluster: {brokers: 2, disks: {each: 2}}
topics: {orders: {partitions: 2, replicas: 2, config: {min.insync.replicas: 1}}}
load: [{name: writers, topic: orders, rate: 50/s}]
steady: {within: 60s, hold: 200ms}
timeline:
  - {at: 0s, do: permission, where: broker-1/dir-1, as: first, for: 2s}
  - {after: first.healed, do: kill, where: broker-2, as: second, for: 2s}
end: {after: last.healed, plus: 2s, within: 120s}
objectives: [writers.lost == 0]
"""
MOMENTS = {
    "while it starts": r"jbodlab-of-",
    "when it is steady": r"steady state reached",
    "while a disk is broken": r"first injected: permission on",
    "after the disk was healed": r"first reverted",
    "while a broker is away": r"second injected: kill on",
    "while messages are read back": r"reading every topic to its end",
}
BESIDE, ROWS = 4, 100


@pytest.fixture
def folder() -> Iterator[Path]:
    found = make_folder()
    yield found
    remove_folder(found)


def folders_of(pid: int) -> list[Path]:
    return list(Path(tempfile.gettempdir()).glob(f"jbodlab-of-{pid}-*"))


@pytest.mark.parametrize("moment", some(list(MOMENTS), "while a disk is broken"))
def test_an_interrupted_rehearsal_heals_ends_and_leaves_nothing(folder: Path, moment: str) -> None:
    plan, output = folder / "plan.yaml", folder / "output"
    plan.write_text(PLAN)
    said = folder / "said"
    with said.open("wb") as out:
        child = subprocess.Popen(
            [
                sys.executable,
                "-u",
                "-m",
                "jbodlab",
                "rehearse",
                str(plan),
                "--results",
                str(output),
            ],
            cwd=ROOT,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:

        def has_come() -> bool:
            assert child.poll() is None, said.read_text()
            now = said.read_text() + " ".join(map(str, folders_of(child.pid)))
            return re.search(MOMENTS[moment], now) is not None

        wait_for(moment, has_come, 120)
        roots = folders_of(child.pid)
        child.send_signal(signal.SIGINT)

        assert child.wait(120) == 130, said.read_text()
    finally:
        child.kill()
        child.wait(60)

    assert roots
    assert folders_of(child.pid) == []
    for root in roots:
        assert processes.below(root) == []
        assert [one for one in mounts.all_mounts() if root in one.point.parents] == []
    assert processes.in_session(child.pid) == []


@pytest.mark.soak
def test_a_hundred_clusters_in_a_row_leave_nothing() -> None:
    files = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - names only
    for _ in range(ROWS):
        with Cluster() as cluster:
            work_dir = cluster.work_dir
            cluster.new_topic(partitions=3)
        # `close` itself raises where something of the cluster is left.
        assert not work_dir.exists()

    assert folders_of(os.getpid()) == []
    # Clients of librdkafka close theirs a moment later.
    wait_for(
        "descriptors that are given back",
        lambda: len(os.listdir("/proc/self/fd")) <= files + 4,  # noqa: PTH208 - names only
    )


@pytest.mark.soak
def test_four_clusters_side_by_side_are_four() -> None:
    together = Barrier(BESIDE, timeout=240)

    def one(number: int) -> str:
        with Cluster() as cluster:
            together.wait()
            topic = cluster.new_topic(partitions=3, name=f"of-{number}")
            with cluster.leader_log_dir(topic).fails("permission") as fault:
                fault.wait_detected(60)
                cluster.wait_leaders(topic, 60)
            assert set(cluster.inner.partitions(topic)) == {0, 1, 2}
            together.wait()
            assert cluster.inner.partitions(f"of-{(number + 1) % BESIDE}") == {}
            return cluster.bootstrap

    with ThreadPoolExecutor(BESIDE) as pool:
        found = list(pool.map(one, range(BESIDE)))

    addresses = [address for bootstrap in found for address in bootstrap.split(",")]
    assert len(set(addresses)) == 3 * BESIDE
    assert folders_of(os.getpid()) == []
