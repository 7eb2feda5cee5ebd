"""Compaction of one log: how fast it is, and what other partitions of the broker notice."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from functools import partial

from confluent_kafka import Producer

from bench.measure import MAKE, fresh, median, percentile
from bench.moves import OTHERS, QUIET_S, Latency
from jbodlab.storage.directory import names
from jbodlab.storage.directory.checkpoints import read_offsets
from jbodlab.storage.directory.posix_filesystem import PosixFileSystem
from tests.cluster.configs import TOPIC, alter, client
from tests.cluster.harness import Cluster, wait_for

COMPACTED = "compacted"
KEYS = 100_000
SEGMENT_BYTES = 64 << 20
DEADLINE_S = 600.0
SETTINGS = {"log.cleaner.backoff.ms": "100", "log.initial.task.delay.ms": "100"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaning:
    """One round over one log, on each replica at the same time.

    Attributes:
        value_bytes: Of each record.
        mb_s: MB/s of dirty log, until the slowest replica is clean.
        quiet_p50_ms, quiet_p99_ms: From sending to acknowledgement of messages to other partitions.
        cleaning_p50_ms, cleaning_p99_ms: The same meanwhile.
    """

    value_bytes: int
    size_mb: float
    mb_s: float
    quiet_p50_ms: float
    quiet_p99_ms: float
    cleaning_p50_ms: float
    cleaning_p99_ms: float


def cleaning(make: MAKE, megabytes: int, value_bytes: int) -> Cleaning:
    """Compact a log whose keys have about as many versions as it is large."""
    with fresh(partial(make, brokers=1, dirs=1, settings=SETTINGS)) as cluster:
        cluster.start()
        cluster.create_topic(OTHERS, 4, 1)
        cluster.create_topic(COMPACTED, 1, 1, segment_bytes=str(SEGMENT_BYTES))
        fill(cluster, megabytes, value_bytes)
        leader = cluster.leader(COMPACTED, 0)
        log_dir = leader.log_dir_of(COMPACTED, 0).path
        folder = log_dir / f"{COMPACTED}-0"
        logs = sorted(folder.glob("*.log"))[:-1]
        end = names.parse_offset(sorted(folder.glob("*.log"))[-1].name)
        size = sum(path.stat().st_size for path in logs)
        latency = Latency(cluster)
        time.sleep(2)
        begin = time.monotonic()
        time.sleep(QUIET_S)
        quiet = latency.between([(begin, time.monotonic())])
        begin = time.monotonic()
        alter(client(cluster), TOPIC, COMPACTED, cleanup_policy="compact")

        def is_clean() -> bool:
            checkpoint = read_offsets(PosixFileSystem(), log_dir / names.CLEANER_OFFSET_FILE)
            found = {(tp.topic, tp.partition): offset for tp, offset in checkpoint.items()}
            return found.get((COMPACTED, 0), -1) >= end

        wait_for("the log is clean", is_clean, DEADLINE_S)
        done = time.monotonic()
        meanwhile = latency.between([(begin, done)])
        latency.stop()
        return Cleaning(
            value_bytes=value_bytes,
            size_mb=size / 1e6,
            mb_s=size / (done - begin) / 1e6,
            quiet_p50_ms=median(quiet),
            quiet_p99_ms=percentile(quiet, 0.99),
            cleaning_p50_ms=median(meanwhile),
            cleaning_p99_ms=percentile(meanwhile, 0.99),
        )


def fill(cluster: Cluster, megabytes: int, value_bytes: int) -> None:
    """Write so many MB of records whose keys are chosen at random."""
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "linger.ms": 50,
            "batch.size": 500_000,
            "queue.buffering.max.kbytes": 200_000,
        }
    )
    choose, value = random.Random(7), b"x" * value_bytes
    for _ in range(megabytes * 1_000_000 // (value_bytes + 20)):
        while True:
            try:
                producer.produce(COMPACTED, value, b"key-%d" % choose.randrange(KEYS))
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush(120)
