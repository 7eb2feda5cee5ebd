"""A log without a broker: what its state asks for is done to its files at once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from uuid import UUID

from jbodlab.record_batch.record_batch import BatchHeader
from jbodlab.storage.directory import names
from jbodlab.storage.directory.filesystem import Buffer, FileSystem
from jbodlab.storage.log.directory_files import DirectoryFiles
from jbodlab.storage.log.instructions import Instructions
from jbodlab.storage.log.loaded_log import LoadedLog, create_log
from jbodlab.storage.log.log_config import LogConfig
from jbodlab.storage.log.log_loader import load_log
from jbodlab.storage.log.log_search import cut_point, first_record_at, newest_record
from jbodlab.storage.log.producer_replay import ProducerReplay
from jbodlab.storage.log.segment_ranges import CutPoint
from jbodlab.storage.log.transactions import Marker
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.ids import TopicPartition

UID = "0123456789abcdef0123456789abcdef"


class DirectLog:
    """One log; owner of its state as a broker's event loop is, on one thread with its files."""

    def __init__(self, loaded: LoadedLog) -> None:
        self.state, self.files = loaded.state, loaded.files

    @classmethod
    def create(
        cls,
        fs: FileSystem,
        log_dir: Path,
        topic_partition: TopicPartition,
        topic_id: UUID,
        config: LogConfig,
        **options: object,
    ) -> DirectLog:
        loaded = create_log(
            fs,
            log_dir,
            topic_partition,
            topic_id,
            config,
            DirectoryFiles(),
            **options,  # type: ignore[arg-type]
        )
        return cls(loaded)

    @classmethod
    def load(
        cls,
        fs: FileSystem,
        directory: Path,
        config: LogConfig,
        *,
        clean: bool = False,
        recovery_point: int = 0,
        log_start_offset: int | None = 0,
        shared: DirectoryFiles | None = None,
        cleaned_to: int | None = None,
    ) -> DirectLog:
        """Load a log as after a kill of which nothing is known, unless something is given."""
        loaded = load_log(
            fs,
            directory,
            names.parse_partition_dir(directory.name).topic_partition,
            config,
            shared or DirectoryFiles(),
            clean=clean,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
            cleaned_to=cleaned_to,
        )
        return cls(loaded)

    @property
    def directory(self) -> Path:
        return self.files.directory

    @property
    def topic_id(self) -> UUID | None:
        return self.files.topic_id

    @property
    def topic_partition(self) -> TopicPartition:
        return self.files.topic_partition

    @property
    def is_future(self) -> bool:
        return self.files.is_future

    @property
    def log_start_offset(self) -> int:
        return self.state.start_offset

    @property
    def log_end_offset(self) -> int:
        return self.state.end_offset

    @property
    def segment_count(self) -> int:
        return len(self.state.segments.all)

    @property
    def segment_base_offsets(self) -> tuple[int, ...]:
        return self.state.segments.base_offsets

    @property
    def size_bytes(self) -> int:
        return self.state.segments.size_bytes

    @property
    def largest_timestamp(self) -> int:
        return max(segment.max_timestamp for segment in self.state.segments.all)

    def __getattr__(self, name: str) -> object:
        return getattr(self.state, name)

    def append(
        self,
        buffers: Sequence[Buffer],
        headers: Sequence[BatchHeader],
        markers: dict[int, Marker] | None = None,
    ) -> None:
        self._do(self.state.append(buffers, headers, markers or {}))
        if self.state.end_offset - self.state.recovery_point >= self.state.config.flush_messages:
            self.flush()

    def assign_epoch(self, epoch: int, start_offset: int | None = None) -> None:
        assert start_offset in (None, self.log_end_offset)
        self._do(self.state.assign_epoch(epoch))

    def read(
        self, offset: int, max_bytes: int, max_offset: int | None = None, at_least_one: bool = True
    ) -> bytes:
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
        if offset == self.log_end_offset or (max_offset is not None and offset >= max_offset):
            return b""
        return self.files.read(
            self.state.segments.ranges(offset),
            offset,
            max_bytes,
            max_offset,
            at_least_one=at_least_one,
            read_ahead=self.state.config.index_interval_bytes,
        )

    def offset_for_timestamp(self, timestamp: int) -> tuple[int, int] | None:
        ranges = self.state.segments.ranges_by_time(timestamp)
        return first_record_at(self.files, ranges, timestamp, self.log_start_offset)

    def offset_of_largest_timestamp(self, end: int | None = None) -> tuple[int, int] | None:
        start, end = self.log_start_offset, self.log_end_offset if end is None else end
        ranges = self.state.segments.ranges_by_newest(start, end)
        return newest_record(self.files, ranges, start, end)

    def truncate_to(self, offset: int) -> bool:
        if offset < self.state.segments.base_offsets[0] and offset < self.log_end_offset:
            self._do(self.state.restart_at(offset))
            return True
        request = self.state.cut_request(offset)
        if request is None:
            self._do(self.state.truncate_epochs(offset))
            return False
        active = cut_point(self.files, request)
        producers = None
        if request.snapshots is not None:
            replay = ProducerReplay(
                self.files, request.snapshots, request.segments, active.next_offset
            )
            while not replay.step(1):
                pass
            producers = replay.state
        self._do(self.state.truncate(CutPoint(request, active, producers)))
        self._remove_expired(0)
        return True

    def truncate_fully_to(self, offset: int) -> None:
        self._do(self.state.restart_at(offset))
        self._remove_expired(0)

    def advance_start_to(self, offset: int) -> bool:
        before = self.log_start_offset
        self._do(self.state.advance_start(offset))
        return self.log_start_offset != before

    def retention(self, now_ms: int, high_watermark: int) -> bool:
        before = self.state.segments.base_offsets
        self._do(self.state.retain(now_ms, high_watermark))
        self._do(self.state.drop_below(high_watermark, now_ms))
        return self.state.segments.base_offsets != before

    def delete_expired(self, now_ms: int) -> int:
        return self._remove_expired(now_ms)

    def roll(self) -> None:
        self._do(self.state.roll())

    @property
    def needs_flush(self) -> bool:
        return self.state.needs_sync

    def flush(self, *, with_active: bool = True) -> int:
        request = self.state.sync_request(with_active=with_active)
        self.files.sync(self.files.fs, request)
        self.state.synced(request)
        return self.state.recovery_point

    def rename_to_delete(self, unique_id: str = UID) -> None:
        self.files.rename_to(names.delete_dir(self.topic_partition, unique_id))

    def rename_to_current(self) -> None:
        self.files.rename_to(names.partition_dir(self.topic_partition))

    def close(self, clean: bool) -> None:
        if clean:
            self._do(self.state.close())
            self.flush()
        self.files.abandon()

    def abandon(self) -> None:
        self.files.abandon()

    def _do(self, instructions: Instructions) -> None:
        self.files.carry_out(instructions)

    def _remove_expired(self, now_ms: int) -> int:
        expired = self.state.segments.expired(now_ms)
        self.files.remove_set_aside(self.files.fs, expired)
        return len(expired)
