"""Tests that client libraries bring along for a broker, pointed at this cluster."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from lab.cluster.kafka_jars import run
from tests.clients.programs import FETCH_DEADLINE_S, FRANZ, FRANZ_TESTS, NoKafkaError
from tests.cluster.group_stage import GROUP_SETTINGS
from tests.cluster.harness import running
from tests.kafka.jars import CACHE, once

pytestmark = [pytest.mark.cluster, pytest.mark.soak, pytest.mark.timeout(1800)]

DEADLINE_S = 1_500
SETTINGS = {
    **GROUP_SETTINGS,
    "auto.create.topics.enable": "true",
    # Many partitions and much load at once are no reason to take a broker for dead.
    "broker.session.timeout.ms": "30000",
}

RECORDS = 5_000
NOT_SERVED = ("^TestTxn", "^TestShareGroup")
"""Transactions and share groups."""
ENDED = re.compile(r"^--- (PASS|FAIL|SKIP): (\w+)", re.MULTILINE)
OF_BROKERS = {
    *("TestPing", "TestGroupETL", "TestGroupSimple", "TestClient_Produce", "TestConsumeRegex"),
    *("TestAddRemovePartitions", "Test848RegexBrokerResolves", "TestConsumeTopicRetrieval_Many"),
}
"""Some of those that cannot do without a broker: they have run, and passed."""

KAFKA_PYTHON = f"kafka-python=={version('kafka-python')}"
KAFKAS_RELEASE = "4.2.0"
"""Whose features kafka-python's tests expect."""
SKIPPED = "transaction"


def _run(command: list[str], folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        check=False,
        timeout=DEADLINE_S + 60,
    )


def test_franz_gos_own_integration_tests(cluster_root: Path) -> None:
    try:
        command = FRANZ_TESTS.command()
    except NoKafkaError as error:
        pytest.skip(str(error))
    # One of them reads the sources beside it.
    list_it = ["go", "list", "-f", "{{.Dir}}", FRANZ]
    listed = subprocess.run(
        list_it, cwd=Path(command[0]).parents[1], capture_output=True, text=True, check=True
    )
    skipped = "|".join(NOT_SERVED)
    command += ["-test.v", f"-test.timeout={DEADLINE_S}s", f"-test.skip={skipped}"]
    with running(cluster_root, settings=SETTINGS) as cluster:
        done = _run(
            command,
            Path(listed.stdout.strip()),
            KGO_SEEDS=cluster.bootstrap,
            KGO_TEST_RECORDS=str(RECORDS),
            KGO_LOG_LEVEL="none",
        )
    ended = {name: how for how, name in ENDED.findall(done.stdout)}
    print({how: sorted(n for n in ended if ended[n] == how) for how in sorted({*ended.values()})})
    assert "FAIL" not in ended.values(), done.stdout[-20_000:]
    assert done.returncode == 0, done.stdout[-20_000:]
    assert {name for name, how in ended.items() if how == "PASS"} >= OF_BROKERS


def test_kafka_pythons_own_integration_tests(cluster_root: Path) -> None:
    try:
        source = once(CACHE, f"tests-of-{KAFKA_PYTHON}", _unpacked)
    except NoKafkaError as error:
        pytest.skip(str(error))
    with running(cluster_root, settings=SETTINGS) as cluster:
        done = _run(
            [
                sys.executable,
                "-m",
                "pytest",
                "test/integration",
                "-q",
                "-rA",
                "-k",
                f"not {SKIPPED}",
            ],
            source,
            KAFKA_URI=f"kafka://{cluster.bootstrap.split(',')[0]}",
            KAFKA_VERSION=KAFKAS_RELEASE,
        )
    print(done.stdout[-5_000:])
    assert done.returncode == 0, done.stdout[-20_000:]


def _unpacked(folder: Path) -> None:
    """Fetch the source of the kafka-python that is installed, and unpack it."""
    fetch = ("-m", "pip", "download", "--quiet", "--no-deps", "--no-build-isolation")
    what = f"the source of {KAFKA_PYTHON} cannot be fetched"
    run(
        what,
        *(sys.executable, *fetch, "--no-binary", ":all:", "--dest", str(folder), KAFKA_PYTHON),
        deadline_s=FETCH_DEADLINE_S,
    )
    (archive,) = folder.glob("*.tar.gz")
    run(what, "tar", "-xzf", str(archive), "-C", str(folder), "--strip-components=1", deadline_s=60)
