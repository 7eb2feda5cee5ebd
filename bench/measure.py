"""Measurements on one cluster: start, memory, failover, throughput."""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from lab.cluster.faults import Fault
from tests.cluster.harness import Cluster, Load, wait_for

MAKE = Callable[..., Cluster]
"""Makes a formatted cluster below a folder; `settings` are Kafka's keys for all its nodes."""

DOOR = Callable[[Cluster], list[str]]
"""Says kcat how to reach a cluster."""

CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
PARTITIONS = 6
CLIENTS, REQUEST_PARTITIONS = 8, 24
"""Of `requests`."""


def in_plain_text(cluster: Cluster) -> list[str]:
    """Return kcat's options for a cluster without encryption."""
    return ["-b", cluster.bootstrap]


@contextmanager
def fresh(make: MAKE) -> Iterator[Cluster]:
    """A formatted cluster below a folder of its own, stopped and removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="jbodlab-bench-", dir="/var/tmp") as folder:
        Path(folder).chmod(0o755)
        cluster = make(Path(folder) / "cluster")
        try:
            yield cluster
        finally:
            cluster.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Seconds from four formatted nodes to every broker answering, and MB resident of each."""

    ready_s: float
    resident_mb: dict[int, float]


def start(make: MAKE) -> Start:
    """Start a cluster once."""
    with fresh(make) as cluster:
        begin = time.monotonic()
        cluster.start()
        ready = time.monotonic() - begin
        return Start(ready_s=ready, resident_mb=resident_mb(cluster))


def resident_mb(cluster: Cluster) -> dict[int, float]:
    """Resident memory of each process, in MB of 10^6 bytes."""
    found = {}
    for node in cluster.nodes.values():
        status = Path(f"/proc/{node.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
        found[node.id] = int(line.split()[1]) * 1024 / 1e6
    return found


def cpu_seconds(cluster: Cluster) -> float:
    """Processor time of all processes so far, user and system."""
    total = 0
    for node in cluster.nodes.values():
        fields = Path(f"/proc/{node.pid}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / CLOCK_TICKS


@dataclass(frozen=True, slots=True, kw_only=True)
class Failover:
    """Milliseconds from one fault to what a client sees of it."""

    new_leader_ms: float
    first_ack_ms: float
    longest_gap_ms: float


def failover(make: MAKE, kind: str, *, leader_side: bool) -> Failover:
    """Break the directory of a leader, or of a follower, under 500 messages a second."""
    with fresh(make) as cluster:
        cluster.start()
        cluster.create_topic("load", PARTITIONS, 3, min_insync_replicas="2")
        with Load(cluster.bootstrap, "load", partition=0) as load:
            time.sleep(3)
            leader = cluster.leaders("load")[0]
            victim = leader if leader_side else next(b for b in cluster.broker_ids if b != leader)
            directory = cluster.broker(victim).log_dir_of("load", 0).path
            begin = time.monotonic()
            cluster.log_dir_at(directory).fails(kind)
            injected = time.monotonic()
            moved = wait_for(
                "the replica out of its role",
                lambda: time.monotonic() if _left(cluster, victim, leader_side) else None,
                60,
            )
            after = wait_for(
                "an acknowledgement afterwards",
                lambda: next((t for t in reversed(load.times) if t > moved), None),
                60,
            )
            first = next(t for t in load.times if t > moved) if after else moved
            time.sleep(2)
        assert begin <= injected
        return Failover(
            new_leader_ms=(moved - injected) * 1e3,
            first_ack_ms=(first - injected) * 1e3,
            longest_gap_ms=load.longest_gap_s() * 1e3,
        )


def _left(cluster: Cluster, victim: int, leader_side: bool) -> bool:
    if leader_side:
        return cluster.leaders("load")[0] not in (victim, -1)
    return victim not in cluster.isr("load")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Throughput:
    """MB/s (10^6 bytes of message values) and server processor seconds for each GB."""

    size_bytes: int
    factor: int
    produce_mb_s: float
    produce_cpu_s_per_gb: float
    consume_mb_s: float
    consume_cpu_s_per_gb: float


def throughput(
    make: MAKE, size_bytes: int, factor: int, total_bytes: int, door: DOOR = in_plain_text
) -> Throughput:
    """Produce acks=all idempotently, and consume, with kcat."""
    count = total_bytes // size_bytes
    with fresh(make) as cluster, tempfile.NamedTemporaryFile(dir="/var/tmp") as file:
        line = (b"x" * (size_bytes - 1)) + b"\n"
        written = max(1, count // 1000) * 1000
        for _ in range(written // 1000):
            file.write(line * 1000)
        file.flush()
        sent = Path(file.name).stat().st_size
        cluster.start()
        cluster.create_topic("load", PARTITIONS, factor)
        produce_s, produce_cpu = _timed(
            cluster,
            [
                *("kcat", "-P", *door(cluster), "-t", "load", "-l", file.name),
                *("-X", "acks=all", "-X", "enable.idempotence=true"),
                *("-X", "queue.buffering.max.messages=1000000"),
            ],
        )
        consume_s, consume_cpu = _timed(
            cluster,
            [
                *("kcat", "-C", *door(cluster), "-t", "load", "-o", "beginning"),
                # With -e kcat would wait for an empty fetch of each broker (fetch.wait.max.ms).
                *("-c", str(written), "-q"),
                # Else kcat pauses up to a second whenever messages come faster than it prints.
                *("-X", "queued.min.messages=1000000"),
                *("-X", "queued.max.messages.kbytes=2097151"),
            ],
        )
        gigabytes = sent / 1e9
        return Throughput(
            size_bytes=size_bytes,
            factor=factor,
            produce_mb_s=sent / 1e6 / produce_s,
            produce_cpu_s_per_gb=produce_cpu / gigabytes,
            consume_mb_s=sent / 1e6 / consume_s,
            consume_cpu_s_per_gb=consume_cpu / gigabytes,
        )


def _timed(cluster: Cluster, command: list[str]) -> tuple[float, float]:
    cpu = cpu_seconds(cluster)
    begin = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=600)
    return time.monotonic() - begin, cpu_seconds(cluster) - cpu


@dataclass(frozen=True, slots=True, kw_only=True)
class Requests:
    """Produce requests with one message each; microseconds of the servers' processors for one."""

    factor: int
    requests_per_s: float
    cpu_us: float


def requests(make: MAKE, factor: int, count: int, door: DOOR = in_plain_text) -> Requests:
    """Produce with one kcat for each client, acks=all, nothing put together."""
    with fresh(make) as cluster, tempfile.NamedTemporaryFile(dir="/var/tmp") as file:
        each = count // CLIENTS
        file.write(b"".join(b"%07d %s\n" % (number, b"x" * 92) for number in range(each)))
        file.flush()
        cluster.start()
        cluster.create_topic("load", REQUEST_PARTITIONS, factor)
        # Logs are made in the seconds after that.
        time.sleep(3)
        command = [
            *("kcat", "-P", *door(cluster), "-t", "load", "-l", file.name),
            *("-X", "acks=all", "-X", "linger.ms=0", "-X", "batch.num.messages=1"),
        ]
        cpu, begin = cpu_seconds(cluster), time.monotonic()
        clients = [subprocess.Popen(command) for _ in range(CLIENTS)]
        codes = [client.wait(600) for client in clients]
        took_s, cpu_s = time.monotonic() - begin, cpu_seconds(cluster) - cpu
        assert not any(codes), codes
        return Requests(
            factor=factor,
            requests_per_s=CLIENTS * each / took_s,
            cpu_us=cpu_s / (CLIENTS * each) * 1e6,
        )


def failed(cluster: Cluster, partitions: Iterable[tuple[str, int]]) -> list[Fault]:
    """Let the directories fail that hold the leaders of partitions, each once."""
    places = dict[Path, None]()
    for topic, partition in partitions:
        leader = cluster.leader(topic, partition)
        places[leader.log_dir_of(topic, partition).path] = None
    return [cluster.log_dir_at(path).fails("permission") for path in places]


def healed(cluster: Cluster, faults: Sequence[Fault], *topics: str) -> None:
    """Heal directories, start their brokers anew, and wait until topics have all replicas."""
    brokers = {
        broker.id: broker
        for broker in cluster.brokers
        for fault in faults
        if fault.path in broker.paths
    }
    for fault in faults:
        fault.heal()
    for broker in brokers.values():
        # A JVM says that a signal ended it.
        assert broker.stop() in (0, 128 + signal.SIGTERM)
        broker.start()
    cluster.wait_served()
    for topic in topics:
        cluster.wait_isr(topic)


def longest_s(times: Iterable[float], since: float, until: float) -> float:
    """The longest time between two events, or an event and either end."""
    within = [since, *(at for at in times if since < at < until), until]
    return max(b - a for a, b in pairwise(within))


def percentile(values: list[float], share: float) -> float:
    """The value below which this share of the values lies; the largest for few values."""
    if len(values) < 2:
        return values[0]
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, round(share * (len(ordered) - 1)))]


def median(values: list[float]) -> float:
    """The middle value."""
    return statistics.median(values)
