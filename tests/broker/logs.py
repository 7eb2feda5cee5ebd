"""Replica logs with something in them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from uuid import UUID

from broker.disk.directory.log_dir import LogDir
from broker.disk.directory.logs_in_use import LogInUse, OwnedLog
from broker.replica.log.partition_log import PartitionLog
from jbodlab.record_batch.record_batch import build_batch, read_header
from jbodlab.storage.directory.posix_filesystem import PosixFileSystem
from jbodlab.storage.log.instructions import Instructions, SyncRequest
from jbodlab.storage.log.log_config import LogConfig
from jbodlab.vocabulary.ids import TopicPartition
from tests.jbodlab.storage.log.direct_log import DirectLog

TOPIC_ID = UUID(int=0xABCDEF)
FS = PosixFileSystem()


def topic_partition(number: int) -> TopicPartition:
    return TopicPartition("orders", number)


def make_log(
    log_dir: Path, number: int, *, config: LogConfig | None = None, future_hex: str | None = None
) -> DirectLog:
    return DirectLog.create(
        FS,
        log_dir,
        topic_partition(number),
        TOPIC_ID,
        config or LogConfig(),
        future_hex=future_hex,
    )


def append(log: DirectLog, *, timestamp_ms: int = 1_000, count: int = 1) -> None:
    for _ in range(count):
        batch = build_batch(
            [(b"key", b"value")],
            base_offset=log.log_end_offset,
            leader_epoch=0,
            timestamp_ms=timestamp_ms,
        )
        log.append([batch], [read_header(batch)])


class Owned:
    """A log as its owner shows it to the upkeep; what it asks for is done at once."""

    def __init__(self, log: DirectLog) -> None:
        self.log = log
        self.state, self.files = log.state, log.files
        self.topic_partition = log.topic_partition
        self.config = log.state.config
        self.is_blocked = False

    @property
    def start_offset(self) -> int:
        return self.state.start_offset

    def retain(self, now_ms: int, high_watermark: int) -> bool:
        before = self.state.start_offset
        self.files.carry_out(self.state.retain(now_ms, high_watermark))
        return self.state.start_offset != before

    def drop_below(self, offset: int, now_ms: int) -> None:
        self.files.carry_out(self.state.drop_below(offset, now_ms))

    def sync(self, request: SyncRequest) -> asyncio.Future[None]:
        self.files.sync(self.files.fs, request)
        self.state.synced(request)
        return self.barrier()

    def barrier(self) -> asyncio.Future[None]:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done

    def close(self) -> Instructions:
        return self.state.close()


async def no_checkpoints(_log_dir: object) -> None:
    """Write none."""


class Hosted:
    """The replicas of a broker, as the upkeep of its directories sees them."""

    def __init__(self) -> None:
        self.logs: dict[str, list[LogInUse]] = {}
        self.moved: list[tuple[TopicPartition, int]] = []

    def put(self, log: DirectLog, high_watermark: int) -> None:
        here = self.logs.setdefault(log.directory.parent.name, [])
        here.append(LogInUse(Owned(log), high_watermark))

    def logs_in(self, log_dir: LogDir) -> Sequence[LogInUse]:
        return self.logs.get(log_dir.path.name, [])

    def log_start_moved(self, log: OwnedLog) -> None:
        self.moved.append((log.topic_partition, log.state.start_offset))


def read_direct(log: PartitionLog, offset: int, max_bytes: int = 1 << 20) -> bytes:
    """Read from the files of a log that nobody changes just now."""
    if offset >= log.end_offset:
        return b""
    return log.files.read(log.state.segments.ranges(offset), offset, max_bytes)
