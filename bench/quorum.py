"""Three controllers and three brokers, ours beside Apache Kafka's: `python -m bench.quorum`.

A client changes a setting of a topic again and again while the active controller is killed, stopped
or loses its metadata directory. A gap is the longest time without an acknowledged change from that
moment on. In the same moment the directory of a partition's leader dies: the measurement
ends when the metadata name another leader. Both sides use Kafka's time-outs.
"""

from __future__ import annotations

import argparse
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
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
from lab.cluster.faults import Fault
from lab.cluster.log_dir import LogDir
from lab.cluster.node import Node
from lab.machine.waiting import wait_for
from tests.cluster.harness import Cluster, Load, made

ENGINES = ("jbodlab", "kafka:4.3.1")
TOPIC = "changed"
LED, DIRS, REVIVED_EVERY = "led", 12, 20
"""A topic with a replica in each directory; each run costs one, until all are whole again."""
LED_RATE = 500
"""Messages a second: a leader notices its directory when it writes."""
PATIENCE_S = 1.0
GAP_S_MAX = 60.0
POLL_S = 0.005
QUIET_S = 1.5
"""After a fault, as a change may wait later than the first one."""
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


def _lose_directory(node: Node) -> Fault:
    return node.log_dir(1).fails("eio")


FAULTS: dict[str, Callable[[Node], Any]] = {
    "kill -9": Node.kill,
    "SIGTERM": partial(Node.signal, number=15),
    "its directory died": _lose_directory,
}


class Leaders:
    """Directories that die under leaders of partitions, and the leaders that follow them."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._client = AdminClient({**cluster.client_config, "log_level": 0})

    def choose(self) -> tuple[int, int, LogDir]:
        """Return a partition whose leader has followers, that leader, and its directory."""
        found = self._cluster.partitions(LED)
        number = max(found, key=lambda each: (len(found[each].isr or ()), -each))
        leader = found[number].leader
        return number, leader, self._cluster.broker(leader).log_dir_of(LED, number)

    def wait_next(self, partition: int, former: int, since_s: float) -> float:
        """Return the seconds from a moment until metadata name another leader, or GAP_S_MAX."""
        while time.monotonic() - since_s < GAP_S_MAX:
            with suppress(KafkaException):
                told = self._client.list_topics(LED, timeout=PATIENCE_S).topics[LED]
                if told.partitions[partition].leader not in (former, -1):
                    break
            time.sleep(POLL_S)
        return time.monotonic() - since_s


def bring_back(cluster: Cluster, node: Node) -> None:
    """Wait until a controller that met a fault has all that the others have."""
    node.heal()
    if node.is_running:
        node.kill()
    node.wait_ended(GAP_S_MAX)
    node.start()

    def has_all() -> bool:
        quorum = cluster.quorum()
        return quorum is not None and quorum.end_offsets[node.id] >= quorum.high_watermark

    wait_for(f"the log of {node}", has_all, GAP_S_MAX)


def revive(cluster: Cluster) -> None:
    """Start the brokers again with whole directories."""
    for broker in cluster.brokers:
        broker.heal()
        broker.kill()
        broker.start()
    cluster.wait_served()
    cluster.wait_isr(LED, GAP_S_MAX)


def gaps_s(cluster: Cluster, fault: Callable[[Node], Any], runs: int) -> dict[str, list[float]]:
    """Return the gaps of faults of the active controller, and when leaders followed."""
    found: dict[str, list[float]] = {"next change": [], "next leader": []}
    changes, leaders = Changes(cluster), Leaders(cluster)
    try:
        with Load(cluster.bootstrap, LED, rate=LED_RATE), ThreadPoolExecutor(2) as pool:
            for number in range(runs):
                if number % REVIVED_EVERY == 0:
                    revive(cluster)
                active = cluster.active_controller()
                partition, former, log_dir = leaders.choose()
                began_s = time.monotonic()
                # Each is proved after it has begun, which may take longer than its effects.
                made = [pool.submit(fault, active), pool.submit(log_dir.fails, "eio")]
                found["next leader"].append(leaders.wait_next(partition, former, began_s))
                found["next change"].append(changes.gap_s(began_s))
                for each in made:
                    each.result()
                bring_back(cluster, active)
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


def measure(engine: Engine, runs: int) -> Iterator[tuple[str, float | Sequence[float]]]:
    """Measure one engine."""
    options = {"brokers": 3, "dirs": DIRS, "controllers": 3, "engine": engine}
    with fresh(partial(made, **options)) as cluster:
        for node in (*cluster.brokers, *cluster.controllers):
            node.preload()
        began_s = time.monotonic()
        cluster.start()
        yield "start, s", time.monotonic() - began_s
        cluster.create_topic(TOPIC, partitions=1, replicas=3)
        cluster.create_topic(LED, partitions=DIRS, replicas=3)
        cluster.wait_isr(LED, GAP_S_MAX)
        for clients in CLIENTS:
            yield f"changes a second, {clients} clients", changes_per_s(cluster, clients)
        memory = resident_mb(cluster)
        yield "memory of a controller, MB", max(memory[each.id] for each in cluster.controllers)
        for name, fault in FAULTS.items():
            for what, found in gaps_s(cluster, fault, runs).items():
                yield f"{what} after {name}, s", found


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
    report: dict[str, dict[str, Any]] = {}
    for name in arguments.engine or ENGINES:
        report[name] = {}
        for what, value in measure(Engine.parse(name), arguments.runs):
            report[name][what] = value
            print(f"{name:<12} {what:<40} {text_of(value)}", flush=True)
    RESULTS.mkdir(exist_ok=True)
    path = Path(RESULTS) / f"quorum-{time.strftime('%Y%m%dT%H%M%S')}.json"
    path.write_text(json.dumps(report, indent=1))
    print(f"written to {path}")


if __name__ == "__main__":
    main()
