"""A real Prometheus beside a cluster whose disk dies: values, alerts, every panel's question."""

from __future__ import annotations

import json
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.cluster import ClusterSpec, wait_for
from lab.cluster.log_dir_states import revive
from tests.cluster.lab_cluster import Cluster, set_property
from tests.config.observing import CONFIG, panel_expressions, rules

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(shutil.which("prometheus") is None, reason="prometheus is not installed"),
]

PERIOD = "500ms"
SAYS_NOTHING_OF_THE_WHOLE = ("== 0", "jbodlab_move_lag")
"""Parts of panels that have no series while nothing moves and everybody answers."""


class Prometheus:
    """The program, with the repository's alerts."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        metrics = cluster.more_ports(len(cluster.nodes))
        for node, port in zip(cluster.nodes.values(), metrics, strict=True):
            set_property(node, "jbodlab.metrics.port", str(port))
        (self._port,) = cluster.more_ports(1)
        told = yaml.safe_load((CONFIG / "prometheus.yml").read_text())
        told["global"] = {"scrape_interval": PERIOD, "evaluation_interval": PERIOD}
        targets = [f"127.0.0.1:{port}" for port in metrics]
        told["scrape_configs"][0]["static_configs"] = [{"targets": targets}]
        (folder / "prometheus.yml").write_text(yaml.safe_dump(told))
        shutil.copyfile(CONFIG / "alerts.yml", folder / "alerts.yml")
        self._log = (folder / "prometheus.log").open("wb")
        self._process = subprocess.Popen(
            [
                "prometheus",
                f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{self._port}",
            ],
            stdout=self._log,
            stderr=self._log,
        )

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._log.close()

    def ask(self, path: str, **query: str) -> Any:
        url = f"http://127.0.0.1:{self._port}{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(url, timeout=10) as answer:
            return json.loads(answer.read())["data"]

    def is_ready(self) -> bool:
        try:
            return bool(self.ask("/api/v1/status/buildinfo"))
        except (OSError, urllib.error.URLError):
            return False

    def values(self, expression: str) -> list[float]:
        found = self.ask("/api/v1/query", query=expression)["result"]
        return [float(one["value"][1]) for one in found]

    def firing(self) -> set[tuple[str, str]]:
        alerts = self.ask("/api/v1/alerts")["alerts"]
        return {
            (one["labels"]["alertname"], one["labels"].get("logDirectory", ""))
            for one in alerts
            if one["state"] == "firing"
        }


@pytest.fixture
def cluster(cluster_root: Path) -> Iterator[Cluster]:
    made = Cluster.plan(cluster_root, ClusterSpec(brokers=2, disks=2))
    try:
        yield made.make({"default.replication.factor": "2"})
    finally:
        made.close()


def test_prometheus_sees_a_disk_die_and_come_back(cluster: Cluster, tmp_path: Path) -> None:
    prometheus = Prometheus(cluster, tmp_path)
    try:
        cluster.start()
        cluster.create_topic("orders", 6, 2, min_insync_replicas="2")
        wait_for("Prometheus", prometheus.is_ready)
        whole = "sum(kafka_server_ReplicaManager_LeaderCount) >= 6"
        wait_for("values of all servers", lambda: prometheus.values(whole))
        wait_for("no alert", lambda: not prometheus.firing(), last_seen=prometheus.firing)

        log_dir = cluster.broker(1).log_dir(2)
        with log_dir.fails("permission"):
            dead = "kafka_log_LogManager_LogDirectoryOffline == 1"
            wait_for("the value of the dead directory", lambda: prometheus.values(dead) == [1.0])
            wanted = {("LogDirectoryOffline", str(log_dir.path)), ("UnderMinIsr", "")}
            wait_for("alerts", lambda: wanted <= prometheus.firing(), last_seen=prometheus.firing)
        assert revive(cluster.broker(1), str(log_dir.path)) == ""
        wait_for("no alert", lambda: not prometheus.firing(), last_seen=prometheus.firing)

        for expression in panel_expressions():
            asked = expression.replace("$__rate_interval", "1m").replace("$instance", ".*")
            if not any(part in asked for part in SAYS_NOTHING_OF_THE_WHOLE):
                wait_for(f"values for {asked}", lambda asked=asked: prometheus.values(asked))
        health = prometheus.ask("/api/v1/rules")["groups"]
        told = [rule for group in health for rule in group["rules"]]
        assert {rule["health"] for rule in told} == {"ok"}
        assert len(told) == len(rules())
    finally:
        prometheus.close()
