"""Kafka Streams' own integration tests of `exactly_once_v2`, on our brokers.

They start brokers in their own process; in place of the class that does so there is one that names
ours. Their tests with groups of the protocol of KIP-1071 are left out.
"""

from __future__ import annotations

import os
import subprocess
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from lab.machine import processes
from tests.clients.programs import Program
from tests.cluster.group_stage import GROUP_SETTINGS
from tests.cluster.harness import running
from tests.kafka.jars import STREAMS_TESTS, NoKafkaError
from tests.kafka.tools import SHORT_LIVED

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.kafka,
    pytest.mark.soak,
    pytest.mark.timeout(1800),
]

DEADLINE_S = 1_500
SETTINGS = {
    **GROUP_SETTINGS,
    # As the tests have their brokers.
    "auto.create.topics.enable": "true",
    "transaction.max.timeout.ms": "2147483647",
    "transaction.state.log.num.partitions": "5",
    "group.min.session.timeout.ms": "0",
    # Much load at once is no reason to take a broker for dead.
    "broker.session.timeout.ms": "30000",
}
CLASS_PATH = "{built}:{jars}/*"
SUITE = Program(
    sources="streams",
    tools=("java", "javac"),
    build=(
        *("javac", "-J-XX:TieredStopAtLevel=1", "-proc:none", "-Werror", "-encoding", "UTF-8"),
        *("-cp", CLASS_PATH, "-d", "{built}", "{built}/ClassicGroups.java"),
        "{built}/org/apache/kafka/streams/integration/utils/EmbeddedKafkaCluster.java",
    ),
    run=(
        *("java", *SHORT_LIVED, "-Xmx768m", "-cp", CLASS_PATH),
        *("org.junit.platform.console.ConsoleLauncher", "execute"),
        *("--disable-banner", "--disable-ansi-colors", "--details=tree"),
        "--config=junit.jupiter.extensions.autodetection.enabled=true",
    ),
    release=STREAMS_TESTS,
)
CLASSES = {
    "EosIntegrationTest": 19,
    "StandbyTaskEOSIntegrationTest": 1,
    "StandbyTaskEOSMultiRebalanceIntegrationTest": 1,
    "EOSUncleanShutdownIntegrationTest": 1,
    "GlobalKTableEOSIntegrationTest": 1,
}
"""By class how many tests run at least; fewer have not all been found."""


@pytest.mark.parametrize("name", CLASSES)
def test_kafka_streams_own_tests_of_exactly_once(
    name: str, cluster_root: Path, tmp_path: Path
) -> None:
    try:
        command = SUITE.command()
    except NoKafkaError as error:
        pytest.skip(str(error))
    chosen = f"--select-class=org.apache.kafka.streams.integration.{name}"
    with running(cluster_root, settings=SETTINGS) as cluster:
        done = subprocess.run(
            processes.ending_with_us([*command, chosen, f"--reports-dir={tmp_path}"]),
            cwd=tmp_path,
            env={**os.environ, "BOOTSTRAP": cluster.bootstrap},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            check=False,
            timeout=DEADLINE_S,
        )
    report = ElementTree.parse(tmp_path / "TEST-junit-jupiter.xml").getroot()
    figures = {key: int(report.attrib[key]) for key in ("tests", "skipped", "failures", "errors")}
    print(name, figures)
    assert done.returncode == 0, done.stdout[-20_000:]
    assert figures["failures"] == figures["errors"] == 0
    assert figures["tests"] - figures["skipped"] >= CLASSES[name]
