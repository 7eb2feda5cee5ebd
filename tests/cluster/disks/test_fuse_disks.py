"""Brokers on disks in user space, ours and Apache Kafka's: a disk fails, the other one goes on."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from fault_injection import mounts
from fault_injection.fuse import disk as disks
from fault_injection.fuse import machine
from lab.cluster import ClusterSpec
from lab.cluster.log_dir import LogDir
from lab.cluster.node import Servers
from lab.machine import processes
from lab.machine.folders import make_folder, remove_folder
from lab.machine.interrupts import Interrupts
from lab.up_and_down import make_disks
from tests.cluster.harness import DEFAULTS, TREE, partitions_in, wait_for
from tests.cluster.lab_cluster import Cluster

pytestmark = pytest.mark.cluster

TOPIC, PARTITIONS = "orders", 4
TIMEOUT_MS = 4000
PLAN = """\
rehearsal: 1
name: interrupted
cluster: {brokers: 1, disks: {each: 2}, mechanism: fuse}
topics: {orders: {partitions: 2, replicas: 1}}
load: [{name: writers, topic: orders, rate: 50/s}]
steady: {within: 60s, hold: 200ms}
timeline: [{at: 0s, do: hang, where: broker-1/dir-1, as: first, for: 60s}]
end: {after: last.healed, plus: 2s, within: 120s}
objectives: [writers.lost == 0]
"""


@pytest.fixture
def root() -> Iterator[Path]:
    if reason := machine.refusal():
        pytest.skip(reason)
    found = make_folder()
    yield found
    remove_folder(found)
    assert mounts_below(found) == []


@pytest.fixture(params=["ours", pytest.param("kafka", marks=[pytest.mark.kafka, pytest.mark.soak])])
def cluster(request: pytest.FixtureRequest, root: Path) -> Iterator[Cluster]:
    """One broker with two directories, each on a disk of its own."""
    servers: Servers | None = None
    if request.param == "kafka":
        from tests.kafka.servers import SHORT_LIVED, KafkaServers

        servers = KafkaServers(request.getfixturevalue("kafka_tools"), SHORT_LIVED)
    found = started(root / "cluster", servers)
    yield found
    # It raises where something is left: a mount, a process, a file with rules.
    found.close()


def started(root: Path, servers: Servers | None = None) -> Cluster:
    spec = ClusterSpec(brokers=1, disks=2, disk_kind="fuse")
    cluster = Cluster.plan(root, spec, servers=servers)
    try:
        cluster.make_folders(DEFAULTS if servers is None else None)
        make_disks(cluster, spec, Interrupts(), print)
        cluster.format()
        cluster.start()
    except BaseException:
        cluster.close()
        raise
    return cluster


def mounts_below(folder: Path) -> list[Path]:
    return [one.point for one in mounts.all_mounts() if folder in one.point.parents]


def produces(cluster: Cluster, partition: int) -> bool:
    """Whether a record to a partition is acknowledged."""
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap, "message.timeout.ms": TIMEOUT_MS, "log_level": 0}
    )
    acknowledged: list[bool] = []
    producer.produce(
        TOPIC,
        b"x",
        partition=partition,
        on_delivery=lambda error, _: acknowledged.append(error is None),
    )
    producer.flush(3 * TIMEOUT_MS / 1000)
    return acknowledged == [True]


def partition_in(log_dir: LogDir) -> int:
    return min(wait_for("its replicas", lambda: partitions_in(log_dir.path, TOPIC)))


def test_a_disk_fails_and_its_broker_goes_on_with_the_other(cluster: Cluster) -> None:
    cluster.create_topic(TOPIC, PARTITIONS, 1)
    (broker,) = cluster.brokers
    broken, other = broker.log_dirs
    lost, kept = partition_in(broken), partition_in(other)
    wait_for("both partitions", lambda: produces(cluster, lost) and produces(cluster, kept), 60)

    with broken.fails("eio", mechanism="fuse") as fault:
        assert not produces(cluster, lost)
        wait_for("the other partition", lambda: produces(cluster, kept), 60)
        assert fault.broken.count >= 1
        assert fault.broken.what == "calls"
        assert broker.is_running

    broker.stop()
    broker.start()
    cluster.wait_served()
    wait_for("both partitions", lambda: produces(cluster, lost) and produces(cluster, kept), 60)


def test_a_cluster_whose_disk_hangs_is_closed_and_nothing_is_left(root: Path) -> None:
    cluster = started(root / "cluster")
    fault = cluster.brokers[0].log_dirs[0].fails("hang", mechanism="fuse", for_="10m")
    wait_for("a call of the broker that hangs", lambda: fault.broken.count, 60)

    began = time.monotonic()
    cluster.close()

    assert time.monotonic() - began < 60
    assert mounts_below(root) == []


def test_a_killed_lab_leaves_no_mount(root: Path) -> None:
    script = (
        "import sys, time; from pathlib import Path\n"
        "from tests.cluster.disks.test_fuse_disks import started\n"
        "cluster = started(Path(sys.argv[1])); print('ready', flush=True); time.sleep(600)"
    )
    command = [sys.executable, "-c", script, str(root / "cluster")]
    with subprocess.Popen(command, cwd=TREE, stdout=subprocess.PIPE, text=True) as lab:
        try:
            assert lab.stdout is not None
            assert any(line == "ready\n" for line in lab.stdout)
            assert len(mounts_below(root)) == 2
        finally:
            lab.kill()

    wait_for("the end of all processes", lambda: not processes.below(root))
    assert mounts_below(root) == []


def test_an_interrupted_rehearsal_answers_what_hangs_and_leaves_nothing(root: Path) -> None:
    plan, said = root / "plan.yaml", root / "said"
    plan.write_text(PLAN)
    with said.open("wb") as out:
        lab = subprocess.Popen(
            [sys.executable, "-u", "-m", "jbodlab", "rehearse", plan, "--results", root / "output"],
            cwd=TREE,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        wait_for(
            "a disk that hangs",
            lambda: re.search("first broke its first call", said.read_text()),
            120,
        )
        served = [one.point for one in mounts.all_mounts() if one.kind == disks.KIND]
        own = [one for one in served if f"jbodlab-of-{lab.pid}-" in str(one)]
        lab.send_signal(signal.SIGINT)
        assert lab.wait(120) == 130, said.read_text()
    finally:
        lab.kill()
        lab.wait(60)

    assert len(own) == 2
    left = [one.point for one in mounts.all_mounts()]
    assert not set(own) & set(left)
    assert processes.in_session(lab.pid) == []
