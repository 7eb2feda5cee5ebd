"""Logs of keys and values, compacted without a broker."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from uuid import UUID

from msgspec.structs import replace

from jbodlab.record_batch.record_batch import (
    CONTROL,
    TRANSACTIONAL,
    BatchHeader,
    BatchRecord,
    build_batch,
    iterate_headers,
    iterate_records,
    read_header,
)
from jbodlab.storage.compaction.compaction import dirty_range
from jbodlab.storage.compaction.compaction_plan import Mapped, RoundPlan
from jbodlab.storage.compaction.compaction_round import CompactionRound
from jbodlab.storage.directory.filesystem import FileSystem
from jbodlab.storage.directory.posix_filesystem import PosixFileSystem
from jbodlab.storage.log import checkpointed
from jbodlab.storage.log.log_config import LogConfig
from jbodlab.storage.log.segment_swap import prepare_swap
from jbodlab.storage.log.transactions import ABORT, COMMIT, Marker
from jbodlab.vocabulary.ids import TopicPartition
from tests.jbodlab.storage.log.direct_log import DirectLog

TOPIC_ID = UUID("00000000-0000-4000-8000-00000000002a")
HORIZON_MS = 1_000
MAP_BYTES = 1 << 20
Pairs = Sequence[tuple[bytes | None, bytes | None]]


class CompactedLog:
    """One log, what was put into it, and a model of what it must tell."""

    def __init__(self, log_dir: Path, fs: FileSystem | None = None, **config: object) -> None:
        self.fs = fs or PosixFileSystem()
        self.config = LogConfig(
            cleanup_policy="compact",
            delete_retention_ms=HORIZON_MS,
            min_cleanable_dirty_ratio=0,
            **config,  # type: ignore[arg-type]
        )
        self.directory = log_dir / "orders-3"
        self.log = DirectLog.create(
            self.fs, log_dir, TopicPartition("orders", 3), TOPIC_ID, self.config
        )
        self.sequences: dict[int, int] = {}

    @property
    def end(self) -> int:
        return self.log.log_end_offset

    def append(
        self,
        *pairs: tuple[bytes | None, bytes | None],
        producer: int = -1,
        epoch: int = 0,
        transactional: bool = False,
        timestamp: int = 5_000,
    ) -> int:
        """Append one batch; returns its base offset."""
        offset = self.end
        sequence = self.sequences.get(producer, 0)
        batch = build_batch(
            pairs,
            base_offset=offset,
            leader_epoch=0,
            timestamp_ms=timestamp,
            attributes=TRANSACTIONAL if transactional else 0,
            producer_id=producer,
            producer_epoch=-1 if producer < 0 else epoch,
            base_sequence=-1 if producer < 0 else sequence,
        )
        self.sequences[producer] = sequence + len(pairs)
        self.log.append([batch], [read_header(batch)])
        return offset

    def mark(self, producer: int, kind: int, epoch: int = 0) -> int:
        """End a transaction."""
        offset = self.end
        key, value = b"\0\0" + kind.to_bytes(2, "big"), b"\0\0\0\0\0\x07"
        batch = build_batch(
            [(key, value)],
            base_offset=offset,
            leader_epoch=0,
            timestamp_ms=5_000,
            attributes=TRANSACTIONAL | CONTROL,
            producer_id=producer,
            producer_epoch=epoch,
        )
        self.log.append([batch], [read_header(batch)], {offset: Marker(kind, 7)})
        return offset

    def commit(self, producer: int) -> int:
        return self.mark(producer, COMMIT)

    def abort(self, producer: int) -> int:
        return self.mark(producer, ABORT)

    def roll(self) -> None:
        self.log.roll()

    def clean(self, now_ms: int = 10_000, map_bytes: int = MAP_BYTES) -> Mapped:
        """Do one whole round."""
        log = self.log
        state = log.state
        dirty = dirty_range(state, state.last_stable_offset(self.end), now_ms)
        plan = RoundPlan.of(state, log.directory, dirty, now_ms=now_ms, map_bytes=map_bytes)
        cleaning = CompactionRound(log.files.fs, plan, lambda _size: None)
        mapped = cleaning.begin()
        for number in range(mapped.groups):
            group = cleaning.clean(number)
            bases = [each.bounds.base_offset for each in group.cleaned]
            prepare_swap(log.files.fs, log.directory, bases)
            log.files.fs.fsync_dir(log.directory)
            log.files.carry_out(state.replace(group.former, group.cleaned, now_ms))
            log.files.fs.fsync_dir(log.directory)
        state.disk.cleaned_to = mapped.end
        return mapped

    def reopen(self, *, clean: bool = True, config: LogConfig | None = None) -> None:
        """Open the files as the next process does."""
        if clean:
            self.log.close(clean=True)
        else:
            self.log.abandon()
        self.log = DirectLog.load(
            PosixFileSystem(),
            self.directory,
            config or self.config,
            clean=clean,
            recovery_point=checkpointed.recovery_point(self.log.state),
            cleaned_to=checkpointed.cleaned_to(self.log.state),
        )

    # The view of readers

    def batches(self) -> Iterator[tuple[BatchHeader, list[BatchRecord]]]:
        """Read all as a consumer does, from the offset behind the last batch on."""
        offset = self.log.log_start_offset
        while data := self.log.read(offset, 1 << 20):
            for position, header in iterate_headers(data):
                yield header, list(iterate_records(data, position, header))
                offset = header.next_offset

    def headers(self) -> list[BatchHeader]:
        return [header for header, _ in self.batches()]

    def records(self) -> list[tuple[int, bytes | None, bytes | None]]:
        """Return offset, key and value of all records that are no markers."""
        return [
            (record.offset, record.key, record.value)
            for header, records in self.batches()
            if not header.is_control
            for record in records
        ]

    def committed(self) -> list[tuple[int, bytes | None, bytes | None]]:
        """Return what a reader of committed records sees below the last stable offset."""
        stable = self.log.state.last_stable_offset(self.end)
        aborted = self.aborted()
        found = []
        for header, records in self.batches():
            if header.is_control or header.base_offset >= stable:
                continue
            if header.is_transactional and any(
                entry.producer_id == header.producer_id
                and entry.first_offset <= header.base_offset < entry.last_offset
                for entry in aborted
            ):
                continue
            found += [(record.offset, record.key, record.value) for record in records]
        return found

    def aborted(self) -> list:
        """Return all that the indexes say of aborted transactions."""
        state = self.log.state
        found = []
        for base, count in state.segments.aborted_counts.items():
            found += self.log.files.read_aborted(base, count)
        return [*found, *state.active.aborted]

    def table(self) -> dict[bytes | None, bytes | None]:
        """Return the last value of each key, as who replays the committed records has it."""
        found: dict[bytes | None, bytes | None] = {}
        for _, key, value in self.committed():
            found[key] = value
            if value is None:
                del found[key]
        return found

    def use(self, **config: object) -> None:
        """Change settings."""
        self.config = replace(self.config, **config)  # type: ignore[arg-type]
        self.log.state.config = self.config

    def names(self, suffix: str = "") -> list[str]:
        return sorted(p.name for p in self.directory.iterdir() if p.name.endswith(suffix))
