"""Apache Kafka's controller opens a directory of ours, and ours goes on behind it."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

from jbodlab.cli.lab_state import NodeState
from jbodlab.controller_api import requests
from jbodlab.vocabulary.error_code import ErrorCode
from lab.cluster.engine import Engine
from lab.cluster.kafka_servers import KafkaServers
from lab.machine.waiting import wait_for
from tests.builders import brokers
from tests.controller.formatted import NODE_ID
from tests.controller.process import Process
from tests.kafka.jars import RELEASE

pytestmark = [pytest.mark.process, pytest.mark.kafka]

STARTED = "Kafka Server started"


def run_kafka(it: Process) -> str:
    """Run Kafka's controller on the files of a stopped process until it leads; returns its log."""
    node = NodeState(
        role="controller",
        node_id=NODE_ID,
        host="127.0.0.1",
        port=it.port,
        properties_file=str(it.config),
        metadata_log_dir=str(it.metadata_dir),
    )
    servers = KafkaServers(Engine(RELEASE), brokers=1, controllers=(node,))
    path = it.home / "kafka.log"
    with path.open("wb") as output:
        java = subprocess.Popen(servers.command(node), stdout=output, stderr=subprocess.STDOUT)
    try:
        wait_for(
            STARTED,
            lambda: java.poll() is not None or STARTED in path.read_text(),
            120,
            last_seen=path.read_text,
        )
        assert STARTED in path.read_text(), path.read_text()
    finally:
        java.terminate()
        assert java.wait(60) in (0, 143)
    return path.read_text()


def create(it: Process, name: str) -> None:
    topic = requests.NewTopic(name=name, assignments=((0, brokers(1)),))
    (created,) = it.ask("CreateTopics", requests.CreateTopicsRequest(topics=(topic,))).topics
    assert created.error_code == ErrorCode.NONE


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL], ids=["stopped", "killed"])
def test_a_directory_changes_hands_and_comes_back(
    tmp_path: Path, kafka_jars: Path, end: signal.Signals
) -> None:
    del kafka_jars
    settings = {"metadata_max_idle_interval_ms": "0", "metadata_log_segment_ms": "1"}
    with Process(tmp_path, **settings) as it:
        it.start()
        it.heartbeat(1, it.register(1, "A1"))
        for number in range(3):
            create(it, f"topic-{number}")
        it.stop(end)
        before = it.image()
        segments = len(list(it.metadata_dir.glob("__cluster_metadata-0/*.log")))
        assert segments > 3

        log = run_kafka(it)

        assert " ERROR " not in log
        after = it.image()
        assert after.topics == before.topics
        assert after.offset > before.offset
        assert after.epoch > before.epoch
        it.start()
        create(it, "topic-3")
        it.stop(signal.SIGTERM)
        assert set(it.image().topics.by_name) == {f"topic-{number}" for number in range(4)}
