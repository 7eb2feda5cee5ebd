"""Tests that a client library brings along for a broker, pointed at this cluster."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.clients.programs import FRANZ, FRANZ_TESTS, NoKafkaError
from tests.cluster.group_stage import GROUP_SETTINGS
from tests.cluster.harness import running

pytestmark = [pytest.mark.cluster, pytest.mark.soak, pytest.mark.timeout(1800)]

DEADLINE_S = 1_500
SETTINGS = {
    **GROUP_SETTINGS,
    "auto.create.topics.enable": "true",
    # Many partitions and much load at once are no reason to take a broker for dead.
    "broker.session.timeout.ms": "30000",
}
RECORDS = 5_000
NOT_RUN = ("^TestTxn", "^TestShareGroup", "^Test848RegexBrokerResolves$")
"""Transactions and share groups; the last ends too early where it consumes what the tests beside
it have committed, which is in the brokers' own topic.
"""
ENDED = re.compile(r"^--- (PASS|FAIL|SKIP): (\w+)", re.MULTILINE)
OF_BROKERS = {
    *("TestPing", "TestGroupETL", "TestGroupSimple", "TestClient_Produce", "TestConsumeRegex"),
    *("TestAddRemovePartitions", "TestConsumeTopicRetrieval_Many"),
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
