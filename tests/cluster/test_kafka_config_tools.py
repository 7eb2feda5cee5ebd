"""Apache Kafka's own tools for configs on this cluster, where Maven can fetch them."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.kafka import fetch_jars
from jbodlab.ids import BrokerId
from tests.cluster.harness import Cluster, directory_id, running

pytestmark = [pytest.mark.cluster, pytest.mark.kafka]

JARS = Path(tempfile.gettempdir()) / "jbodlab-kafka-4.3.1"
CONFIGS, TOPICS = "kafka.admin.ConfigCommand", "org.apache.kafka.tools.TopicCommand"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    for program in ("java", "mvn"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    try:
        fetch_jars(JARS)
    except (subprocess.SubprocessError, OSError) as error:
        pytest.skip(f"Maven cannot fetch Apache Kafka's jars: {error}")
    root = Path(tempfile.mkdtemp(prefix="jbodlab-test-"))
    root.chmod(0o755)
    with running(root / "cluster", brokers=2, dirs=2) as started:
        yield started
    shutil.rmtree(root, ignore_errors=True)


def tool(cluster: Cluster, name: str, *arguments: str) -> tuple[int, str]:
    done = subprocess.run(
        [
            *("java", "-Xmx256m", "-cp", f"{JARS}/*", name),
            *("--bootstrap-server", cluster.bootstrap, *arguments),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_topic_configs_are_changed_and_shown(cluster: Cluster) -> None:
    cluster.create_topic("shown", 2, 2, retention_ms="70000")
    entity = ("--entity-type", "topics", "--entity-name", "shown")
    changes = "max.message.bytes=5000,leader.replication.throttled.replicas=[0:1,1:2]"
    code, out = tool(
        cluster,
        CONFIGS,
        *(*entity, "--alter", "--add-config", changes, "--delete-config", "retention.ms"),
    )
    assert (code, out.strip()) == (0, "Completed updating config for topic shown.")
    code, out = tool(cluster, CONFIGS, *entity, "--describe")
    assert code == 0
    assert "max.message.bytes=5000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:" in out
    assert "leader.replication.throttled.replicas=0:1,1:2 " in out
    assert "retention.ms=" not in out
    code, out = tool(cluster, TOPICS, "--describe", "--topic", "shown")
    assert code == 0
    first = out.splitlines()[0]
    assert "PartitionCount: 2" in first
    assert "max.message.bytes=5000" in first
    code, out = tool(cluster, CONFIGS, *entity, "--alter", "--add-config", "nope=1")
    assert code == 1
    assert "Unknown topic config name: nope" in out


def test_directories_are_cordoned_and_brokers_configured(cluster: Cluster) -> None:
    (closed, _) = cluster.log_dirs(1)
    entity = ("--entity-type", "brokers", "--entity-name", "1")
    default = ("--entity-type", "brokers", "--entity-default")
    add = ("--alter", "--add-config")
    code, out = tool(cluster, CONFIGS, *entity, *add, f"cordoned.log.dirs={closed}")
    assert (code, out.strip()) == (0, "Completed updating config for broker 1.")
    registered = cluster.image().cluster.brokers[BrokerId(1)]
    assert registered.cordoned_directories == (directory_id(closed),)
    code, out = tool(cluster, CONFIGS, *default, *add, "log.retention.ms=99999999")
    assert code == 0
    code, out = tool(cluster, CONFIGS, "--entity-type", "brokers", "--describe")
    assert code == 0
    assert f"cordoned.log.dirs={closed} sensitive=false" in out
    assert "synonyms={DYNAMIC_DEFAULT_BROKER_CONFIG:log.retention.ms=99999999}" in out
    code, out = tool(cluster, CONFIGS, *entity, "--alter", "--delete-config", "cordoned.log.dirs")
    assert code == 0
    assert cluster.image().cluster.brokers[BrokerId(1)].cordoned_directories == ()
    code, out = tool(cluster, CONFIGS, *entity, *add, "node.id=7")
    assert code == 1
    assert "Cannot update these configs dynamically: node.id" in out
