"""Three controllers and three brokers, ours beside Apache Kafka's: `python -m bench.quorum`.

A client changes a setting of a topic again and again while the active controller is killed, stopped
or loses its metadata directory. A gap is the longest time without an acknowledged change from that
moment on; a controller may notice a removed directory late, or never. Both have Kafka's time-outs.
"""

from __future__ import annotations

import argparse
import json
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import count, pairwise
from pathlib import Path
from statistics import quantiles
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from bench.__main__ import RESULTS
from bench.measure import fresh, resident_mb
from lab.cluster.engine import Engine
from lab.cluster.node import Node
from lab.machine.waiting import wait_for
from tests.cluster.harness import Cluster, made

ENGINES = ("jbodlab", "kafka:4.3.1")
TOPIC = "changed"
PATIENCE_S = 1.0
GAP_S_MAX = 60.0
QUIET_S = 3.0
"""After a fault, so that a controller may notice it; and with all controllers there again."""
LOAD_S = 10.0
CLIENTS = (1, 32)


def change(client: AdminClient, number: int) -> bool:
    """Change a setting of the topic; returns whether that is acknowledged."""
    entry = ConfigEntry(
        "retention.ms", str(1_000_000 + number), incremental_operation=AlterConfigOpType.SET
    )
    resource = ConfigResource(ResourceType.TOPIC, TOPIC, incremental_configs=[entry])
    futures = client.incremental_alter_configs([resource], request_timeout=PATIENCE_S)
    with suppress(KafkaException):
        futures[resource].result()
        return True
    return False


class Changes:
    """One client that changes the topic without a pause until it is closed."""

    def __init__(self, cluster: Cluster) -> None:
        self._client = AdminClient({**cluster.client_config, "log_level": 0})
        self._acknowledged: list[tuple[float, float]] = []
        """When each was asked for and acknowledged."""
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        for number in count():
            if self._ends.is_set():
                return
            began_s = time.monotonic()
            if change(self._client, number):
                self._acknowledged.append((began_s, time.monotonic()))
            else:
                time.sleep(0.005)

    def gap_s(self, since_s: float) -> float:
        """Wait until changes that were asked for after a moment go on; returns the longest gap."""

        def later() -> list[float]:
            return [done for began, done in tuple(self._acknowledged) if began >= since_s]

        wait_for("a change that is acknowledged", later, GAP_S_MAX)
        time.sleep(QUIET_S)
        times = [since_s, *later()]
        return max(after - before for before, after in pairwise(times))

    def close(self) -> None:
        """End."""
        self._ends.set()
        self._thread.join(GAP_S_MAX)


def _lose_directory(node: Node) -> None:
    node.metadata_dir.rename(node.metadata_dir.with_name("gone"))


def _bring_back(node: Node) -> None:
    gone = node.metadata_dir.with_name("gone")
    if gone.exists():
        node.kill()
        gone.rename(node.metadata_dir)
    if node.is_running:
        node.wait_ended(GAP_S_MAX)
    node.start()


FAULTS: dict[str, Callable[[Node], Any]] = {
    "killed": Node.kill,
    "stopped": partial(Node.signal, number=15),
    "directory removed": _lose_directory,
}


def gaps_s(cluster: Cluster, fault: Callable[[Node], Any], runs: int) -> list[float]:
    """Return the gaps of faults of the active controller, one after the other."""
    changes, found = Changes(cluster), []
    try:
        for _ in range(runs):
            active = cluster.active_controller()
            began_s = time.monotonic()
            fault(active)
            found.append(changes.gap_s(began_s))
            _bring_back(active)
            time.sleep(QUIET_S)
    finally:
        changes.close()
    return found


def changes_per_s(cluster: Cluster, clients: int) -> float:
    """Return how many changes so many clients have acknowledged in a second."""
    end_s = time.monotonic() + LOAD_S

    def run(number: int) -> int:
        client, done = AdminClient({**cluster.client_config, "log_level": 0}), 0
        while time.monotonic() < end_s:
            done += change(client, number + done)
        return done

    with ThreadPoolExecutor(clients) as pool:
        return sum(pool.map(run, range(clients))) / LOAD_S


def measure(engine: Engine, runs: int) -> dict[str, Any]:
    """Measure one engine."""
    options = {"brokers": 3, "dirs": 1, "controllers": 3, "engine": engine}
    with fresh(partial(made, **options)) as cluster:
        began_s = time.monotonic()
        cluster.start()
        found: dict[str, Any] = {"start, s": time.monotonic() - began_s}
        cluster.create_topic(TOPIC, partitions=1, replicas=3)
        for clients in CLIENTS:
            found[f"changes a second, {clients} clients"] = changes_per_s(cluster, clients)
        memory = resident_mb(cluster)
        found["memory of a controller, MB"] = max(memory[each.id] for each in cluster.controllers)
        for name, fault in FAULTS.items():
            found[f"gap after {name}, s"] = gaps_s(cluster, fault, runs)
    return found


def text_of(value: float | Sequence[float]) -> str:
    """Return a number, or median, 99th percentile and maximum of several."""
    if isinstance(value, float | int):
        return f"{value:.2f}"
    if len(value) < 2:
        return " ".join(f"{each:.3f}" for each in value)
    cuts = quantiles(value, n=100, method="inclusive")
    return f"p50 {cuts[49]:.3f}, p99 {cuts[98]:.3f}, most {max(value):.3f} of {len(value)}"


def main() -> None:
    """Measure the engines one after the other, and print and keep what was found."""
    parser = argparse.ArgumentParser(prog="python -m bench.quorum", description=__doc__)
    parser.add_argument("--runs", type=int, default=50, help="of each fault")
    parser.add_argument("--engine", action="append", choices=ENGINES, help="default: both")
    arguments = parser.parse_args()
    report = {}
    for name in arguments.engine or ENGINES:
        report[name] = measure(Engine.parse(name), arguments.runs)
        for what, value in report[name].items():
            print(f"{name:<12} {what:<36} {text_of(value)}", flush=True)
    RESULTS.mkdir(exist_ok=True)
    path = Path(RESULTS) / f"quorum-{time.strftime('%Y%m%dT%H%M%S')}.json"
    path.write_text(json.dumps(report, indent=1))
    print(f"written to {path}")


if __name__ == "__main__":
    main()
