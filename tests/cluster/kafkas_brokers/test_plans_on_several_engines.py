"""`jbodlab rehearse --against`: one plan on our servers and on Apache Kafka's, side by side."""

from __future__ import annotations

import json
import os
import subprocess
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from tests.cluster.engines import NEW, jars
from tests.cluster.harness import script

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.kafka,
    pytest.mark.timeout(300),
    pytest.mark.xdist_group("releases of Apache Kafka"),
]

PLAN = """\
rehearsal: 1
name: a disk of the leader dies
cluster: {brokers: 2, disks: {each: 2}}
topics: {orders: {partitions: 2, replicas: 2, config: {min.insync.replicas: 1}}}
load: [{name: writers, topic: orders, rate: 50/s}]
steady: {within: 60s, hold: 2s}
timeline:
  - {at: 500ms, do: permission, where: leader-of orders/0, as: dies}
end: {after: dies.first_ack, plus: 500ms, within: 60s}
objectives: [writers.lost == 0, dies.detected < 60s]
"""


def test_both_engines_run_the_plan_and_stand_beside_each_other(tmp_path: Path) -> None:
    jars(NEW)
    plan, results, junit = tmp_path / "plan.yaml", tmp_path / "results", tmp_path / "verdict.xml"
    plan.write_text(PLAN, "utf-8")
    engines = ["jbodlab", f"kafka:{NEW}"]
    command = [*script("jbodlab"), "rehearse", str(plan), "--engine", engines[0]]
    command += ["--against", engines[1], "--results", str(results)]

    done = subprocess.run(
        [*command, "--junit", str(junit), "--output", "json"],
        env={**os.environ, "JBODLAB_STATE_DIR": str(tmp_path / "state")},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )

    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    printed = json.loads(done.stdout)
    assert [one["verdict"] for one in printed] == ["PASS", "PASS"], said
    for one in printed:
        assert one["metrics"]["writers.acked"]["value"] > 0
        assert one["metrics"]["writers.lost"]["value"] == 0
    kept = [results / name / "result.json" for name in ("jbodlab", f"kafka-{NEW}")]
    assert [json.loads(file.read_text("utf-8")) for file in kept] == printed
    (heads,) = (line.split() for line in done.stderr.splitlines() if line.split() == engines)
    assert heads == engines
    page = (results / "report.html").read_text("utf-8")
    assert all(engine in page for engine in engines)
    suites = ElementTree.parse(junit).getroot()
    assert [suite.attrib["name"] for suite in suites] == [
        f"a disk of the leader dies [{engine}]" for engine in engines
    ]
