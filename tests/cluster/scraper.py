"""Asks the nodes of a stage for their metrics."""

from __future__ import annotations

import urllib.request

from tests.cluster.harness import CONTROLLER_ID, Cluster
from tests.cluster.scenes import metrics_port

Values = dict[str, float]


class Scraper:
    """Asks at the ports that a stage gives to its nodes.

    Attributes:
        nodes: The ids of all nodes.
        ports: The port of each.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.nodes = [CONTROLLER_ID, *cluster.broker_ids]
        self.ports = {node: metrics_port(cluster, node) for node in self.nodes}

    def __call__(self, node: int) -> Values:
        samples = [line.rpartition(" ") for line in self.lines(node) if not line.startswith("#")]
        return {name: float(value) for name, _, value in samples}

    def names(self, node: int) -> set[str]:
        """Names of all metrics, those included that have no sample at the moment."""
        return {line.split()[2] for line in self.lines(node) if line.startswith("# TYPE ")}

    def lines(self, node: int) -> list[str]:
        url = f"http://127.0.0.1:{self.ports[node]}/metrics"
        with urllib.request.urlopen(url, timeout=5) as answer:
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            return answer.read().decode().splitlines()
