"""Cost of thousands of partitions: to be idle, to answer, to lose a directory, to start again."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from bench.measure import MAKE, cpu_seconds, fresh, median, percentile, resident_mb
from bench.writes import Writes
from tests.cluster.harness import Cluster, wait_for

PARTITIONS_PER_TOPIC = 100
FACTOR = 3
TOPIC = "many"
SETTLE_S = 10.0
IDLE_S = 10.0
MESSAGES = 1_000
MESSAGES_PER_S = 200
WRITTEN = 100
"""Of the partitions of the directory that is lost, spread over them."""
WRITES_PER_S = 600
"""Messages over those, each of them a request of its own. More keep two cores busy by themselves,
and over all partitions each would have one in a second: what is measured then is the load.
"""
LOOK_S = 0.1
"""Between two looks at all leaders, each of which costs a broker and this process some time."""
DEADLINE_S = 300.0

Leaders = dict[tuple[str, int], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ManyPartitions:
    """One cluster with many partitions, as its clients see it.

    Attributes:
        created_s: From the first CreateTopics to every replica being on its disk.
        idle_cpu: Processors that all processes together use when nobody asks anything.
        ack_p50_ms: From sending one message to its acknowledgement by all replicas; p99 likewise.
        moved: Leaders in the directory that is taken away with `chmod 000`.
        last_leader_ms: From there to the last of them being led elsewhere.
        last_written_ms: From there to the last of those under load acknowledging records again.
        longest_gap_ms: Longest time without an acknowledgement of one of those around that.
        brokers_seen: The fewest brokers that were listed meanwhile; one that misses its heartbeats
            is not.
        stop_s: Clean stop of one broker.
        restart_s: From its start to it answering clients.
        isr_s: From its start to it being in every ISR again.
    """

    partitions: int
    created_s: float
    resident_mb: dict[int, float]
    idle_cpu: float
    ack_p50_ms: float
    ack_p99_ms: float
    moved: int
    last_leader_ms: float
    last_written_ms: float
    longest_gap_ms: float
    brokers_seen: int
    stop_s: float
    restart_s: float
    isr_s: float


def many_partitions(make: MAKE, partitions: int, sync_ms: float) -> ManyPartitions:
    """Create that many partitions and measure each thing once, in one cluster.

    Args:
        make: Makes the cluster.
        partitions: How many.
        sync_ms: How much longer each sync of a log directory takes.
    """
    with fresh(make) as cluster:
        for broker in cluster.brokers:
            broker.preload()
        cluster.start()
        for log_dir in (one for broker in cluster.brokers for one in broker.log_dirs):
            log_dir.fails("slow", delay=sync_ms / 1000, calls="sync")
        created_s = _create(cluster, partitions)
        time.sleep(SETTLE_S)
        cpu = cpu_seconds(cluster)
        time.sleep(IDLE_S)
        idle_cpu = (cpu_seconds(cluster) - cpu) / IDLE_S
        acks_ms = _acknowledgements_ms(cluster)
        resident = resident_mb(cluster)
        stop_s, restart_s, isr_s = _restart(cluster, partitions)
        time.sleep(SETTLE_S)
        moved, last_leader_s, last_written_s, gap_s, brokers_seen = _lose_directory(cluster)
        return ManyPartitions(
            partitions=partitions,
            created_s=created_s,
            resident_mb=resident,
            idle_cpu=idle_cpu,
            ack_p50_ms=median(acks_ms),
            ack_p99_ms=percentile(acks_ms, 0.99),
            moved=moved,
            last_leader_ms=last_leader_s * 1e3,
            last_written_ms=last_written_s * 1e3,
            longest_gap_ms=gap_s * 1e3,
            brokers_seen=brokers_seen,
            stop_s=stop_s,
            restart_s=restart_s,
            isr_s=isr_s,
        )


def _create(cluster: Cluster, partitions: int) -> float:
    begin = time.monotonic()
    for number in range(-(-partitions // PARTITIONS_PER_TOPIC)):
        count = min(PARTITIONS_PER_TOPIC, partitions - number * PARTITIONS_PER_TOPIC)
        topic = NewTopic(f"{TOPIC}-{number}", count, FACTOR)
        for future in cluster.admin().create_topics([topic], request_timeout=60).values():
            future.result(DEADLINE_S)
    _wait_until_replicated(cluster, partitions)
    # The controller names replicas before there is anything of them.
    wait_for(
        "every replica on its disk", lambda: _on_disk(cluster) == partitions * FACTOR, DEADLINE_S
    )
    return time.monotonic() - begin


def _on_disk(cluster: Cluster) -> int:
    return sum(
        path.name.startswith(f"{TOPIC}-")
        for broker in cluster.broker_ids
        for directory in cluster.broker(broker).paths
        for path in directory.iterdir()
    )


def _wait_until_replicated(cluster: Cluster, partitions: int) -> None:
    wait_for(
        "every replica in its ISR",
        lambda: _replicated(cluster.admin()) == partitions,
        DEADLINE_S,
    )


def _replicated(admin: AdminClient) -> int:
    """Return how many partitions have a leader and a full ISR."""
    topics = admin.list_topics(timeout=30).topics
    return sum(
        partition.leader > 0 and len(partition.isrs) == FACTOR
        for name, topic in topics.items()
        if name.startswith(TOPIC)
        for partition in topic.partitions.values()
    )


def _acknowledgements_ms(cluster: Cluster) -> list[float]:
    """Send single messages to one partition, at a steady rate."""
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "acks": "all",
            "enable.idempotence": True,
            "linger.ms": 0,
            "log_level": 0,
        }
    )
    found: list[float] = []
    begin = time.monotonic()
    for number in range(MESSAGES):
        while time.monotonic() < begin + number / MESSAGES_PER_S:
            producer.poll(0.0005)
        producer.produce(
            f"{TOPIC}-0", b"x" * 100, partition=0, on_delivery=_timed(found, time.monotonic())
        )
    producer.flush(60)
    # The first ones wait for the connection and the producer's id.
    return found[MESSAGES // 10 :]


def _timed(found: list[float], sent: float) -> Callable[[object, object], None]:
    return lambda _error, _message: found.append((time.monotonic() - sent) * 1e3)


def _restart(cluster: Cluster, partitions: int) -> tuple[float, float, float]:
    broker = cluster.broker_ids[1]
    begin = time.monotonic()
    cluster.node(broker).stop(DEADLINE_S)
    stopped = time.monotonic()
    cluster.node(broker).start()
    cluster.wait_served(*map(cluster.broker, [broker]))
    ready = time.monotonic()
    _wait_until_replicated(cluster, partitions)
    return stopped - begin, ready - stopped, time.monotonic() - stopped


def _lose_directory(cluster: Cluster) -> tuple[int, float, float, float, int]:
    """Take a directory from the broker that leads most; returns what happened."""
    before, _ = _leaders(cluster.admin())
    counts = {broker: list(before.values()).count(broker) for broker in cluster.broker_ids}
    victim = max(counts, key=lambda broker: counts[broker])
    directory = cluster.broker(victim).paths[0]
    names = {path.name for path in directory.iterdir()}
    moving = {key for key in before if f"{key[0]}-{key[1]}" in names and before[key] == victim}
    others = [f"127.0.0.1:{cluster.node(b).port}" for b in cluster.broker_ids if b != victim]
    watcher = AdminClient({"bootstrap.servers": ",".join(others), "log_level": 0})
    _leaders(watcher)
    written = sorted(moving)[:: -(-len(moving) // WRITTEN)]
    with Writes(cluster.bootstrap, written, WRITES_PER_S / len(written)) as writes:
        time.sleep(3)
        directory.chmod(0)
        begin = time.monotonic()
        brokers_seen = len(cluster.broker_ids)
        while True:
            leaders, brokers = _leaders(watcher)
            now = time.monotonic()
            brokers_seen = min(brokers_seen, brokers)
            if all(leaders[key] not in (victim, -1) for key in moving):
                break
            assert now < begin + DEADLINE_S, "leaders stay in the directory"
            time.sleep(LOOK_S)
        time.sleep(5)
        brokers_seen = min(brokers_seen, _leaders(watcher)[1])
    assert not writes.errors, writes.errors[:3]
    gap_s, last = writes.longest_outage(begin)
    return len(moving), now - begin, last - begin, gap_s, brokers_seen


def _leaders(admin: AdminClient) -> tuple[Leaders, int]:
    """Return the leaders of all partitions, and how many brokers are listed."""
    metadata = admin.list_topics(timeout=30)
    leaders = {
        (name, partition.id): partition.leader
        for name, topic in metadata.topics.items()
        if name.startswith(TOPIC)
        for partition in topic.partitions.values()
    }
    return leaders, len(metadata.brokers)
