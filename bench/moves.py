"""Moves of a replica between two mounts: how fast against `cp`, and what others notice.

Both mounts are made for the purpose, as tmpfs or as ext4 on loop devices; only root may do that.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Producer

from bench.measure import median, percentile
from jbodlab.vocabulary.error_code import ErrorCode
from tests.cluster.harness import Cluster, made, wait_for
from tests.cluster.moving import alter
from tests.cluster.small_disks import FillableDisk, ThrottledDisk

TOPIC = "big"
OTHERS = "others"
LINE_BYTES = 1_000
QUIET_S = 10.0
MESSAGES_PER_S = 200
MOVE_DEADLINE_S = 300.0
SETTINGS = {
    "log.segment.delete.delay.ms": "100",
    "log.dir.reserved.bytes": "0",
    "log.retention.ms": "-1",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Moves:
    """Some moves of one replica, each beside a `cp` of the same files between the same mounts.

    Attributes:
        move_mb_s: MB/s from the request to the replica being in the target, one for each run.
        cp_mb_s: The same of `cp`.
        cp_synced_mb_s: Of `cp` and a `sync` of what it wrote: a move ends on the disk.
        quiet_p99_ms: From sending to acknowledgement of messages to other partitions of the broker.
        cp_p99_ms: The same while `cp` copies, a process of its own.
        moving_p99_ms: The same while the replica moves.
    """

    file_system: str
    size_mb: float
    move_mb_s: list[float]
    cp_mb_s: list[float]
    cp_synced_mb_s: list[float]
    quiet_p50_ms: float
    quiet_p99_ms: float
    cp_p99_ms: float
    moving_p50_ms: float
    moving_p99_ms: float


def disk_maker(file_system: str, size_mib: int) -> type[FillableDisk] | type[ThrottledDisk]:
    """Return what makes a disk of this size at a path."""
    kind = FillableDisk if file_system == "tmpfs" else ThrottledDisk

    class Disk(kind):  # type: ignore[misc, valid-type]
        def __init__(self, path: Path) -> None:
            super().__init__(path, size_mib=size_mib)

        def close(self) -> None:
            if isinstance(self, FillableDisk):
                super().close()
                return
            subprocess.run(["umount", "-l", str(self.path)], check=True)
            subprocess.run(["losetup", "--detach", self._device], check=True)

    return Disk


@contextmanager
def disks(file_system: str, megabytes: int) -> Iterator[Cluster]:
    """A broker with two directories on mounts of their own, and a third beside them."""
    with tempfile.TemporaryDirectory(prefix="jbodlab-bench-", dir="/var/tmp") as folder:
        Path(folder).chmod(0o755)
        cluster = made(
            Path(folder) / "cluster",
            disk=disk_maker(file_system, 3 * megabytes + 200),
            brokers=1,
            dirs=2,
            settings=SETTINGS,
        )
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.close()


def moves(file_system: str, megabytes: int, runs: int) -> Moves:
    """Move a replica to and fro."""
    with disks(file_system, megabytes) as cluster:
        cluster.create_topic(TOPIC, 1, 1, segment_bytes=str(128 << 20))
        cluster.create_topic(OTHERS, 4, 1)
        fill(cluster, megabytes)
        latency = Latency(cluster)
        time.sleep(2)
        begin = time.monotonic()
        time.sleep(QUIET_S)
        quiet = latency.between([(begin, time.monotonic())])
        spans, copying, speeds, copied, synced = [], [], [], [], []
        for _ in range(runs):
            source = cluster.broker(1).log_dir_of(TOPIC, 0).path
            target = next(path for path in cluster.broker(1).paths if path != source)
            size = sum(file.stat().st_size for file in (source / f"{TOPIC}-0").glob("*.log"))
            begin, plain_s, synced_s = cp(source / f"{TOPIC}-0", target)
            copying.append((begin, begin + plain_s))
            copied.append(size / plain_s / 1e6)
            synced.append(size / synced_s / 1e6)
            time.sleep(1)
            begin = time.monotonic()
            assert alter(cluster, 1, {(TOPIC, 0): target}) == {ErrorCode.NONE}
            wait_for("the move", (target / f"{TOPIC}-0").is_dir, MOVE_DEADLINE_S)
            end = time.monotonic()
            spans.append((begin, end))
            speeds.append(size / (end - begin) / 1e6)
            wait_for("the old copy removed", lambda source=source: not _left(source))
            time.sleep(1)
        moving, beside_cp = latency.between(spans), latency.between(copying)
        latency.stop()
        return Moves(
            file_system=file_system,
            size_mb=size / 1e6,
            move_mb_s=speeds,
            cp_mb_s=copied,
            cp_synced_mb_s=synced,
            quiet_p50_ms=median(quiet),
            quiet_p99_ms=percentile(quiet, 0.99),
            cp_p99_ms=percentile(beside_cp, 0.99),
            moving_p50_ms=median(moving),
            moving_p99_ms=percentile(moving, 0.99),
        )


def cp(source: Path, target: Path) -> tuple[float, float, float]:
    """Copy a folder with `cp`; returns when, and the seconds without and with a sync behind it."""
    copy = target.parent / "cp"
    subprocess.run(["sync"], check=True)
    begin = time.monotonic()
    subprocess.run(["cp", "-r", str(source), str(copy)], check=True)
    plain_s = time.monotonic() - begin
    subprocess.run(["sync", "-f", str(copy)], check=True)
    synced_s = time.monotonic() - begin
    shutil.rmtree(copy)
    subprocess.run(["sync"], check=True)
    return begin, plain_s, synced_s


def fill(cluster: Cluster, megabytes: int) -> None:
    """Write so many MB into the partition that will move."""
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "linger.ms": 50,
            "batch.size": 900_000,
            "queue.buffering.max.kbytes": 200_000,
        }
    )
    value = b"x" * LINE_BYTES
    for _ in range(megabytes * 1_000_000 // LINE_BYTES):
        while True:
            try:
                producer.produce(TOPIC, value=value, partition=0)
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush(120)


class Latency:
    """A producer at a steady rate that notes how long each acknowledgement took."""

    def __init__(self, cluster: Cluster) -> None:
        self._producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 0})
        self._found: list[tuple[float, float]] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def between(self, spans: list[tuple[float, float]]) -> list[float]:
        """Return the latencies in ms of what was sent in these spans of time."""
        time.sleep(1)
        return [
            latency * 1e3
            for sent, latency in list(self._found)
            if any(begin <= sent <= end for begin, end in spans)
        ]

    def stop(self) -> None:
        """End."""
        self._stop.set()
        self._thread.join(30)

    def _run(self) -> None:
        due = time.monotonic()
        number = 0
        while not self._stop.is_set():
            now = time.monotonic()
            if now >= due:
                due += 1 / MESSAGES_PER_S
                number += 1
                self._send(number % 4)
            self._producer.poll(max(0.0, min(0.005, due - time.monotonic())))
        self._producer.flush(30)

    def _send(self, partition: int) -> None:
        sent = time.monotonic()
        self._producer.produce(
            OTHERS,
            value=b"x" * 100,
            partition=partition,
            on_delivery=lambda error, _: self._found.append((sent, time.monotonic() - sent)),
        )


def _left(source: Path) -> list[Path]:
    return list(source.glob(f"{TOPIC}-0*"))
