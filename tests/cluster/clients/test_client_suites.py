"""Tests that a client library brings along for a broker, pointed at this cluster."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from tests.clients.programs import FRANZ, FRANZ_TESTS, NoKafkaError
from tests.cluster.group_stage import GROUP_SETTINGS
from tests.cluster.harness import running
from tests.kafka.jars import CACHE, once, run

pytestmark = [pytest.mark.cluster, pytest.mark.soak, pytest.mark.timeout(1800)]

DEADLINE_S = 1_500
SETTINGS = {
    **GROUP_SETTINGS,
    "auto.create.topics.enable": "true",
    # Many partitions and much load at once are no reason to take a broker for dead.
    "broker.session.timeout.ms": "30000",
    # Members of kafka-python's groups have 3 s.
    "group.min.session.timeout.ms": "1000",
}
RECORDS = 5_000
NOT_RUN = ("^TestShareGroup", "^Test848RegexBrokerResolves$")
"""Share groups. The last one waits for two topics and counts the brokers' own as
one of them: the records of its own group in that are enough for it to end too early, by chance.
"""
ENDED = re.compile(r"^--- (PASS|FAIL|SKIP): (\w+)", re.MULTILINE)
OF_BROKERS = {
    *("TestPing", "TestGroupETL", "TestGroupSimple", "TestClient_Produce", "TestConsumeRegex"),
    *("TestAddRemovePartitions", "TestConsumeTopicRetrieval_Many", "TestTxnEtl"),
}
"""Some of those that cannot do without a broker: they have run, and passed."""


def test_franz_gos_own_integration_tests(cluster_root: Path) -> None:
    try:
        command = FRANZ_TESTS.command()
    except NoKafkaError as error:
        pytest.skip(str(error))
    # One of them reads the sources beside it.
    listed = subprocess.run(
        ["go", "list", "-f", "{{.Dir}}", FRANZ],
        cwd=Path(command[0]).parents[1],
        capture_output=True,
        text=True,
        check=True,
    )
    skipped = "|".join(NOT_RUN)
    with running(cluster_root, settings=SETTINGS) as cluster:
        done = subprocess.run(
            [*command, "-test.v", f"-test.timeout={DEADLINE_S}s", f"-test.skip={skipped}"],
            cwd=listed.stdout.strip(),
            env={
                **os.environ,
                "KGO_SEEDS": cluster.bootstrap,
                "KGO_TEST_RECORDS": str(RECORDS),
                "KGO_LOG_LEVEL": "none",
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            check=False,
            timeout=DEADLINE_S + 60,
        )
    ended = {name: how for how, name in ENDED.findall(done.stdout)}
    print({how: sorted(n for n in ended if ended[n] == how) for how in sorted({*ended.values()})})
    assert "FAIL" not in ended.values(), done.stdout[-20_000:]
    assert done.returncode == 0, done.stdout[-20_000:]
    assert {name for name, how in ended.items() if how == "PASS"} >= OF_BROKERS


KAFKA_VERSION = "4.3"
"""Of the brokers, as kafka-python takes it from what they serve."""
NOT_FOR_THESE_BROKERS = ("acls", "transactional", "create_partitions", "alter_replica_log_dirs")
"""ACLs and transactions; the others take for granted that there is one broker, with the id 0."""
MANY = 35
"""Tests; fewer that pass have not all been run."""
SERVICE = """
class ExternalService:
    def __init__(self, host, port):
        self.host, self.port = host, port

    def open(self):
        pass

    def close(self):
        pass


class SpawnedService:
    pass
"""
"""For `test/service.py`, which runs brokers: the archive is without it."""


def kafka_pythons_sources() -> Path:
    """Return the sources of the installed release, tests included; they are fetched once.

    Raises:
        NoKafkaError: they cannot be fetched, with the reason.
    """
    release = metadata.version("kafka-python")

    def make(folder: Path) -> None:
        options = ("--quiet", "--no-deps", "--no-binary", "kafka-python", "--dest", str(folder))
        run(
            "kafka-python's sources cannot be fetched",
            *(sys.executable, "-m", "pip", "download", *options, f"kafka-python=={release}"),
            deadline_s=300,
        )
        (archive,) = folder.glob("*.tar.gz")
        shutil.unpack_archive(archive, folder)
        (sources,) = folder.glob("*/test")
        # Else the tests of Python itself are found under this name.
        (sources / "__init__.py").touch()
        (sources / "service.py").write_text(SERVICE)

    (sources,) = once(CACHE, f"kafka-python-{release}", make).glob("*/test")
    return sources.parent


def test_kafka_pythons_own_integration_tests(cluster_root: Path) -> None:
    try:
        sources = kafka_pythons_sources()
    except NoKafkaError as error:
        pytest.skip(str(error))
    kinds = ("admin", "consumer", "producer")
    chosen = " and ".join(f"not {each}" for each in NOT_FOR_THESE_BROKERS)
    with running(cluster_root, settings=SETTINGS) as cluster:
        done = subprocess.run(
            [
                *(sys.executable, "-B", "-m", "pytest", "-p", "no:cacheprovider", "-rA", "-q"),
                *("--show-capture=no", "-W", "ignore", "-k", chosen),
                *(f"test/integration/test_{kind}_integration.py" for kind in kinds),
            ],
            cwd=sources,
            env={
                **os.environ,
                "KAFKA_URI": f"plaintext://{cluster.bootstrap.split(',')[0]}",
                "KAFKA_VERSION": KAFKA_VERSION,
                # Where it would find brokers to run.
                "KAFKA_ROOT": str(sources),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            check=False,
            timeout=DEADLINE_S,
        )
    assert done.returncode == 0, done.stdout[-20_000:]
    print(done.stdout.splitlines()[-1])
    passed = set(re.findall(r"^PASSED \S+::(\w+)$", done.stdout, re.MULTILINE))
    assert passed >= {"test_group", "test_heartbeat_thread", "test_delete_groups"}
    assert len(passed) > MANY, sorted(passed)
