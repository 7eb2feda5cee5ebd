"""The fixtures in a foreign project: tests that break disks, and a pytest that is killed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.cluster import wait_for
from lab.machine import processes
from lab.machine.folders import make_folder, remove_folder

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = ROOT / "examples" / "orders"
PYTEST = (sys.executable, "-m", "pytest", "-p", "jbodlab.testing.plugin", "-q")
SHARED = """
import asyncio

import pytest

pytestmark = pytest.mark.jbod(brokers=2, disks=2)


def test_one_leaves_its_cluster_broken(jbod_cluster):
    jbod_cluster.new_topic(replicas=2, name="left")
    jbod_cluster.leader_log_dir("left").fails("permission").wait_detected()
    jbod_cluster.broker(2).kill()
    jbod_cluster.first = True


def test_the_next_has_the_same_one_and_it_is_whole(jbod_cluster):
    assert jbod_cluster.first
    states = [log_dir.state for broker in jbod_cluster.brokers for log_dir in broker.log_dirs]
    assert states == ["online"] * 4
    assert jbod_cluster.inner.partitions("left") == {}


def test_a_loop_may_await_it(jbod_cluster_async):
    async def body():
        topic = await jbod_cluster_async.new_topic(replicas=2)
        log_dir = await (await jbod_cluster_async.leader(topic)).log_dir_of(topic)
        async with await log_dir.fails("permission") as fault:
            await fault.wait_detected()
            await jbod_cluster_async.wait_leaders(topic)
        assert await log_dir.state() == "online"
        assert '"event": "healed"' in str(await jbod_cluster_async.events())
        assert await jbod_cluster_async.broker(1).log_lines(1)

    asyncio.run(body())


def test_a_fault_that_cannot_be_made_says_what_to_do_here(jbod_cluster):
    with pytest.raises(Exception, match="mark the test with @pytest.mark.jbod.calls=True"):
        jbod_cluster.broker(1).log_dir(1).hangs()


def test_one_that_fails_says_what_was_done_to_the_cluster(jbod_cluster):
    with jbod_cluster.broker(1).log_dir(1).fails("permission"):
        raise AssertionError("on purpose")
"""
UNDONE = """
import contextlib
import functools
import os
import signal

import pytest

CLUSTERS = []

pytestmark = pytest.mark.jbod(brokers=2, disks=2)


@functools.cache
def admin_of(inner):
    # One for the life of a cluster: futures of a client that is collected would fail.
    from confluent_kafka.admin import AdminClient

    return AdminClient({**inner.client_config, "log_level": 0})


@pytest.fixture
def cluster(jbod_cluster):
    CLUSTERS.append(jbod_cluster)
    yield jbod_cluster


def test_the_application_deletes_its_topic(cluster):
    topic = cluster.new_topic(replicas=2)
    admin_of(cluster.inner).delete_topics([topic])[topic].result(10)


def test_the_application_deletes_one_of_its_topics_while_a_disk_is_dead(cluster):
    first, second = cluster.new_topic(replicas=2), cluster.new_topic(replicas=2)
    cluster.leader_log_dir(first).fails("permission").wait_detected()
    admin_of(cluster.inner).delete_topics([first])[first].result(10)


def test_a_topic_that_does_not_exist_is_not_in_sync(cluster):
    with pytest.raises(AssertionError, match="no topic nowhere"):
        cluster.wait_isr("nowhere", timeout=1)


def test_the_application_kills_a_server(cluster):
    os.kill(cluster.inner.broker(1).state.process.pid, signal.SIGKILL)
    os.kill(cluster.inner.broker(2).state.process.pid, signal.SIGSTOP)


def test_all_of_them_had_one_cluster_and_this_one_changes_a_setting(cluster):
    from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

    assert len(set(map(id, CLUSTERS))) == 1
    wanted = ConfigEntry("log.retention.ms", "1", incremental_operation=AlterConfigOpType.SET)
    whom = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[wanted])
    admin_of(cluster.inner).incremental_alter_configs([whom])[whom].result(10)


def test_the_next_has_another_one(cluster):
    assert cluster is not CLUSTERS[0]


@pytest.mark.jbod(brokers=1, security="sasl_ssl")
def test_the_application_removes_the_users(cluster):
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import ScramMechanism, UserScramCredentialDeletion

    wanted = [
        UserScramCredentialDeletion(name, ScramMechanism.SCRAM_SHA_512)
        for name in ("alice", "admin")
    ]
    for future in admin_of(cluster.inner).alter_user_scram_credentials(wanted).values():
        # The connection that asks is closed with its user.
        with contextlib.suppress(KafkaException):
            future.result(10)


@pytest.mark.jbod(brokers=1, security="sasl_ssl")
def test_the_next_finds_them(cluster):
    assert cluster.new_topic(replicas=1)
"""
ACROSS = """
import os
import pathlib
import time

import pytest

pytestmark = pytest.mark.jbod(brokers=3, disks=2, config={"min.insync.replicas": 1})


def told(name, text=""):
    path = pathlib.Path(f"{name}.new")
    path.write_text(f"{os.environ['PYTEST_XDIST_WORKER']} {text}")
    path.rename(name)


def awaited(name):
    end = time.monotonic() + 200
    while not pathlib.Path(name).exists():
        assert time.monotonic() < end, name
        time.sleep(0.05)


def test_one_breaks_a_disk(jbod_cluster_shared):
    cluster = jbod_cluster_shared
    topic = cluster.new_topic(partitions=1, replicas=3)
    log_dir = cluster.leader_log_dir(topic)
    fault = log_dir.fails("permission")
    fault.wait_detected()
    told("broken", f"{cluster.bootstrap} {fault.id}")
    awaited("seen")
    cluster.wait_leaders(topic)
    follower = cluster.followers(topic)[0]
    follower.kill()
    assert not follower.is_running


def test_another_sees_it_and_works_on(jbod_cluster_shared):
    cluster = jbod_cluster_shared
    topic = cluster.new_topic(partitions=1, replicas=3)
    awaited("broken")
    assert "offline" in [one.state for broker in cluster.brokers for one in broker.log_dirs]
    cluster.wait_leaders(topic)
    assert cluster.active_controller.id == cluster.controllers[0].id == 100
    with pytest.raises(Exception, match="there is no directory broker-9/1"):
        cluster.broker(9).log_dir().state
    fault = int(pathlib.Path("broken").read_text().split()[2])
    with pytest.raises(AssertionError, match="being healed did not happen within"):
        cluster.wait(0.1, healed=fault)
    told("seen", cluster.bootstrap)


def test_what_they_did_is_undone(jbod_cluster_shared):
    awaited("seen")
    jbod_cluster_shared.wait_settled()
    assert jbod_cluster_shared.client_config()["bootstrap.servers"] == jbod_cluster_shared.bootstrap
"""
WIDER = """
import pytest


@pytest.fixture(scope="session")
def app(jbod_cluster):
    return jbod_cluster.bootstrap


def test_it_asks_for_more_than_one_test(app):
    pass
"""
WAITS = """
import pathlib, signal


def test_it_waits(jbod_cluster_own):
    jbod_cluster_own.broker(1).log_dir(1).fails("permission")
    note = pathlib.Path("work_dir.new")
    note.write_text(str(jbod_cluster_own.work_dir))
    note.rename("work_dir")
    signal.pause()
"""


@pytest.fixture
def project() -> Iterator[Path]:
    """An empty folder of somebody else."""
    folder = make_folder()
    yield folder
    remove_folder(folder)


def environment() -> dict[str, str]:
    found = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST")}
    return {**found, "PYTHONPATH": os.pathsep.join([str(ROOT), str(EXAMPLE)])}


def run_pytest(project: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PYTEST, "-p", "no:cacheprovider", *words],
        cwd=project,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )


def test_a_cluster_is_shared_healed_and_shown_where_a_test_fails(project: Path) -> None:
    (project / "test_shared.py").write_text(SHARED)

    done = run_pytest(project)

    assert "1 failed, 4 passed" in done.stdout, done.stdout + done.stderr
    assert "jbodlab cluster" in done.stdout
    work_dir = re.search(r"files: (\S+)", done.stdout)
    assert work_dir
    assert '"kind": "permission"' in done.stdout
    assert not Path(work_dir[1]).exists()
    assert processes.of_cluster(Path(work_dir[1])) == []


def test_a_fixture_of_a_wider_scope_is_told_what_to_use(project: Path) -> None:
    (project / "test_wider.py").write_text(WIDER)

    done = run_pytest(project)

    assert "1 error" in done.stdout
    assert (
        "a fixture of a wider scope starts a cluster of its own: with jbodlab.testing.Cluster("
        in done.stdout
    )


def test_the_workers_of_xdist_share_a_cluster_that_ends_with_the_last_of_them(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "test_across.py").write_text(ACROSS)
    state = project / "state"
    state.mkdir(0o755)
    monkeypatch.setenv("JBODLAB_STATE_DIR", str(state))

    done = run_pytest(project, "-n", "2", "--basetemp", str(project / "base"))

    assert "3 passed" in done.stdout, done.stdout + done.stderr
    one, other = ((project / name).read_text().split() for name in ("broken", "seen"))
    assert one[0] != other[0]
    assert one[1] == other[1]
    wait_for("nothing left", lambda: not any((state / "clusters").glob("*/")), 60)


def test_a_pytest_that_is_killed_leaves_nothing(project: Path) -> None:
    (project / "test_waits.py").write_text(WAITS)
    note = project / "work_dir"
    child = subprocess.Popen(
        PYTEST, cwd=project, env=environment(), stdout=subprocess.DEVNULL, start_new_session=True
    )
    try:
        wait_for("a cluster with a fault", lambda: note.exists() or child.poll() is not None, 60)
        folder = Path(note.read_text()).parent
        assert folder.exists()
        child.send_signal(signal.SIGKILL)
        child.wait()

        wait_for("nothing left", lambda: not folder.exists(), 30)

        assert processes.below(folder) == []
    finally:
        child.kill()
        child.wait()


def test_the_example_project_passes(project: Path) -> None:
    done = run_pytest(project, "-c", str(EXAMPLE / "pyproject.toml"), str(EXAMPLE))

    assert "3 passed" in done.stdout, done.stdout + done.stderr


def test_whatever_an_application_has_done_is_undone_or_the_cluster_is_replaced(
    tmp_path: Path,
) -> None:
    (tmp_path / "test_it.py").write_text(UNDONE, "utf-8")

    done = subprocess.run(
        [*PYTEST, "--tb=short"], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert re.search(r"^8 passed in", done.stdout, re.M), done.stdout
