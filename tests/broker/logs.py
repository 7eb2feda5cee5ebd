"""Replica logs with something in them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from uuid import UUID

from broker.logdirs.hosted import HostedLog
from broker.logdirs.log_dir import LogDir
from jbodlab.ids import TopicPartition
from jbodlab.log.filesystem import PosixFileSystem
from jbodlab.log.log_config import LogConfig
from jbodlab.log.replica_log import ReplicaLog
from jbodlab.protocol.record_batch import build_batch, read_header

TOPIC_ID = UUID(int=0xABCDEF)
FS = PosixFileSystem()


def topic_partition(number: int) -> TopicPartition:
    return TopicPartition("orders", number)


def make_log(
    log_dir: Path,
    number: int,
    *,
    config: LogConfig | None = None,
    future_hex: str | None = None,
) -> ReplicaLog:
    return ReplicaLog.create(
        FS,
        log_dir,
        topic_partition(number),
        TOPIC_ID,
        config or LogConfig(),
        future_hex=future_hex,
    )


def append(log: ReplicaLog, *, timestamp_ms: int = 1_000, count: int = 1) -> None:
    for _ in range(count):
        batch = build_batch(
            [(b"key", b"value")],
            base_offset=log.log_end_offset,
            leader_epoch=0,
            timestamp_ms=timestamp_ms,
        )
        log.append([batch], [read_header(batch)])


class Hosted:
    """The replicas of a broker, as the upkeep of its directories sees them."""

    def __init__(self) -> None:
        self.logs: dict[str, list[HostedLog]] = {}
        self.moved: list[tuple[TopicPartition, int]] = []

    def put(self, log: ReplicaLog, high_watermark: int) -> None:
        self.logs.setdefault(log.directory.parent.name, []).append(HostedLog(log, high_watermark))

    def hosted_in(self, log_dir: LogDir) -> Sequence[HostedLog]:
        return self.logs.get(log_dir.path.name, [])

    def log_start_moved(self, log: ReplicaLog, log_start_offset: int) -> None:
        self.moved.append((log.topic_partition, log_start_offset))
