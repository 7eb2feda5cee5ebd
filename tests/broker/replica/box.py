"""A log on a cramped disk."""

from __future__ import annotations

from pathlib import Path

from broker.bounds.limits import FULL_RETRY_S
from broker.disk.calls.no_space import WaitsForRoomError
from broker.disk.directory.log_dir import LogDir
from broker.replica.log.directory_writer import DirectoryWriter
from broker.replica.log.partition_log import PartitionLog
from broker.replica.log.tail_cache import EMPTY_SLICE, Slice, TailCacheBudget
from jbodlab.record_batch.record_batch import iterate_headers, read_header
from jbodlab.storage.directory.posix_filesystem import PosixFileSystem
from jbodlab.storage.log.loaded_log import create_log
from jbodlab.storage.log.log_config import LogConfig
from jbodlab.storage.log.transactions import read_marker
from tests.broker.disks import CrampedDisk, make_log_dir
from tests.broker.logs import TOPIC_ID, no_checkpoints, topic_partition
from tests.builders import batch_at
from tests.jbodlab.storage.log import transactional
from tests.jbodlab.storage.log.direct_log import DirectLog
from tests.waiting import set_forward, turns

CONFIG = LogConfig(segment_bytes=300, index_interval_bytes=100, retention_ms=-1)


class Box:
    """A log on a cramped disk, and the batches that it is to hold."""

    def __init__(self, disk: CrampedDisk, log_dir: LogDir, log: PartitionLog) -> None:
        self.disk, self.log_dir, self.log = disk, log_dir, log
        self.batches: list[bytes] = []
        self.failures: list[BaseException] = []
        log.on_failed = self.failures.append

    @classmethod
    async def create(cls, path: Path, disk: CrampedDisk) -> Box:
        path.mkdir(parents=True)  # noqa: ASYNC240 - of a test
        log_dir = make_log_dir(path / "d1", 1, disk)
        return cls(
            disk, log_dir, await cls.new_log(log_dir, DirectoryWriter(log_dir, no_checkpoints), 0)
        )

    @staticmethod
    async def new_log(log_dir: LogDir, writer: DirectoryWriter, number: int) -> PartitionLog:
        created = await log_dir.run(
            lambda: create_log(
                log_dir.fs, log_dir.path, topic_partition(number), TOPIC_ID, CONFIG, log_dir.files
            )
        )
        return PartitionLog(created, writer, TailCacheBudget())

    def append(self, count: int = 1, *, epoch: int = 0, producer: int = 7) -> None:
        for _ in range(count):
            self.take(batch_at(self.log.end_offset, epoch=epoch, producer_id=producer))

    def take(self, data: bytes) -> None:
        header = read_header(data)
        marker = read_marker(data, 0, header) if header.is_control else None
        self.log.append_as_follower(
            data, [header], {} if marker is None else {header.base_offset: marker}
        )
        self.batches.append(data)

    def abort_a_transaction(self, producer: int) -> None:
        self.take(transactional.data(self.log.end_offset, producer, 0))
        self.take(transactional.marker(self.log.end_offset, producer, transactional.ABORT))

    async def truncate(self, count: int) -> None:
        """Cut so many batches off; on a disk without room that waits."""
        offset = read_header(self.batches[-count]).base_offset
        while True:
            try:
                await self.log.truncate(offset)
            except WaitsForRoomError:
                await self.check_reading()
                await self.make_room()
            else:
                break
        del self.batches[-count:]

    async def make_room(self) -> None:
        self.disk.left = None
        await turns()
        while self.log.is_blocked:
            set_forward(FULL_RETRY_S)
            await self.log.barrier()
            await turns()

    async def check_reading(self) -> None:
        """Each batch that is written can be read, to the last one, and nothing behind it."""
        log, found, offset = self.log, [], 0
        await log.barrier()
        await turns()
        log.tail.clear()
        end = log.written_end
        while offset < end:
            got = log.read(offset, 100, end, at_least_one=True)
            assert not isinstance(got, Slice)
            data = await got
            assert data, f"nothing at {offset} of {end}"
            for position, header in iterate_headers(data):
                found.append(data[position : position + header.size])
                offset = header.next_offset
        assert offset == end
        assert found == self.batches[: len(found)]
        assert log.read(end, 100, end, at_least_one=True) is EMPTY_SLICE
        for timestamp in (0, 1000 + end // 2):
            await log.offset_for_timestamp(timestamp)
        await log.aborted_between(0, end)

    async def check(self) -> None:
        """All that was appended, and not cut, is there; in the files as in the state."""
        log = self.log
        assert self.log_dir.is_online, self.log_dir.cause
        assert not self.failures
        assert log.is_settled
        await self.check_reading()
        assert log.written_end == log.end_offset
        loaded = DirectLog.load(PosixFileSystem(), log.files.directory, CONFIG)
        assert loaded.log_end_offset == log.end_offset
        assert loaded.segment_base_offsets == log.state.segments.base_offsets
        assert loaded.size_bytes == log.state.segments.size_bytes
        assert loaded.epochs.entries == log.epochs.entries
        entry, other = loaded.producers.entry(7), log.producers.entry(7)
        assert (entry and entry.last_sequence) == (other and other.last_sequence)
        assert loaded.read(log.start_offset, 1 << 20)
        loaded.abandon()
