"""Opening the files of a partition directory, and making them whole again after a crash.

After a clean shutdown the files are trusted: indexes are read, and only the tail of each segment is
looked at. Otherwise every segment from the one with the recovery point on is read and checked; the
log ends before the first byte that is not right, whatever comes behind it is deleted, and indexes,
leader epochs and producer state are made anew from what was read. A process may die at any moment,
also in here; the next start then does the same again.

Source: `org.apache.kafka.storage.internals.log.LogLoader`, `ProducerStateManager`.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from jbodlab.log import names
from jbodlab.log.filesystem import FileSystem
from jbodlab.log.leader_epochs import LeaderEpochs, read_leader_epochs, write_leader_epochs
from jbodlab.log.log_config import LogConfig
from jbodlab.log.producer_snapshots import ProducerSnapshots
from jbodlab.log.producer_state import ProducerState
from jbodlab.log.segment import Segment
from jbodlab.protocol.record_batch import BatchHeader

logger = logging.getLogger(__name__)

_CHECKPOINT_DELETED_SUFFIX = ".checkpoint" + names.DELETED_SUFFIX
"""Metadata snapshots on their way out; not ours to remove."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedFiles:
    """The parts of an open log; there is at least one segment."""

    segments: list[Segment]
    log_start_offset: int
    recovery_point: int
    epochs: LeaderEpochs
    producers: ProducerState
    snapshots: ProducerSnapshots


def load_files(
    fs: FileSystem,
    directory: Path,
    config: LogConfig,
    *,
    clean: bool,
    recovery_point: int,
    log_start_offset: int,
) -> LoadedFiles:
    """Open the files of one partition directory.

    Args:
        fs: The disk.
        directory: The partition directory.
        config: Settings of the log.
        clean: Whether the log directory was shut down cleanly.
        recovery_point: Offset up to which data is known to be on the disk.
        log_start_offset: The checkpointed log start, 0 if none.

    Raises:
        OSError: a file cannot be read, written or removed.
        CorruptRecordError: a small file of the directory is malformed.
    """
    listed = _remove_leftovers(fs, directory)
    segments: list[Segment] = []
    try:
        for name in names.with_suffix(listed, names.LOG_SUFFIX):
            segments.append(Segment(fs, directory, names.parse_offset(name)))  # noqa: PERF401
        offsets = map(names.parse_offset, names.with_suffix(listed, names.SNAPSHOT_SUFFIX))
        return _load(
            segments,
            ProducerSnapshots(fs, directory, offsets),
            fs,
            directory,
            config,
            clean,
            recovery_point,
            log_start_offset,
        )
    except BaseException:
        for segment in segments:
            with contextlib.suppress(OSError):
                segment.close()
        raise


def _load(
    segments: list[Segment],
    snapshots: ProducerSnapshots,
    fs: FileSystem,
    directory: Path,
    config: LogConfig,
    clean: bool,
    recovery_point: int,
    log_start_offset: int,
) -> LoadedFiles:
    epochs_path = directory / names.LEADER_EPOCH_FILE
    epochs = read_leader_epochs(fs, epochs_path)
    epochs_before = epochs.entries
    first_unchecked = len(segments) if clean else max(0, _floor(segments, recovery_point))
    for segment in segments[:first_unchecked]:
        _trust(segment, config)
    producers: ProducerState | None = None
    if first_unchecked < len(segments):
        producers = _recover(fs, segments, first_unchecked, config, epochs, snapshots)

    if segments and segments[-1].next_offset < log_start_offset:
        delete_segments(fs, segments, snapshots, 0)
        epochs.clear()
        producers = None
    if not segments:
        snapshots.delete_above(-1)
        segments.append(Segment.create(fs, directory, log_start_offset))
    log_end_offset = segments[-1].next_offset
    log_start_offset = max(log_start_offset, segments[0].base_offset)
    epochs.truncate_to(log_end_offset)
    epochs.truncate_from(log_start_offset)
    if epochs.entries != epochs_before:
        write_leader_epochs(fs, epochs_path, epochs)
    if producers is None:
        producers = rebuild_producers(snapshots, segments)
    snapshots.delete_strays(segment.base_offset for segment in segments)
    return LoadedFiles(
        segments=segments,
        log_start_offset=log_start_offset,
        recovery_point=log_end_offset if clean else min(recovery_point, log_end_offset),
        epochs=epochs,
        producers=producers,
        snapshots=snapshots,
    )


def _trust(segment: Segment, config: LogConfig) -> None:
    """Take a segment as it is; its batches are read only if its indexes are not usable."""
    if not segment.load_indexes():
        segment.rebuild(
            check_crc=True,
            index_interval_bytes=config.index_interval_bytes,
            on_batch=_ignore,
        )
        segment.finish()
        segment.write_indexes(sync=False)


def rebuild_producers(snapshots: ProducerSnapshots, segments: Sequence[Segment]) -> ProducerState:
    """Return the producer state at the end of the segments: newest snapshot, then the batches.

    Snapshots above the end are deleted. Where there is none at all everything is read, also after a
    clean shutdown: Kafka assumes that no producer was idempotent then, and would let a repeated
    batch in if the file was lost.
    """
    snapshots.delete_above(segments[-1].next_offset)
    state, offset = snapshots.load_newest(segments[-1].next_offset)
    for segment in segments:
        if segment.next_offset <= offset:
            continue
        position = segment.position_of(offset) if offset > segment.base_offset else 0
        for _, header, _ in segment.scan(position):
            if header.next_offset > offset:
                state.update(header)
    return state


def delete_segments(
    fs: FileSystem, segments: list[Segment], snapshots: ProducerSnapshots, first: int
) -> None:
    """Delete the segments from index `first` on, the last one first.

    In this order a crash in between leaves a log without a gap.
    """
    while len(segments) > first:
        segment = segments.pop()
        segment.close()
        snapshots.delete(segment.base_offset)
        delete_segment_files(fs, segment)


def delete_segment_files(fs: FileSystem, segment: Segment) -> None:
    """Remove the files of a segment; indexes without a log would be removed at the next start."""
    fs.unlink(segment.path, missing_ok=True)
    for suffix in names.INDEX_SUFFIXES:
        name = names.offset_text(segment.base_offset) + suffix
        fs.unlink(segment.directory / name, missing_ok=True)


def _recover(
    fs: FileSystem,
    segments: list[Segment],
    first: int,
    config: LogConfig,
    epochs: LeaderEpochs,
    snapshots: ProducerSnapshots,
) -> ProducerState:
    """Read and check the segments from index `first` on; returns the producer state at the end."""
    snapshots.delete_above(segments[first].base_offset)
    if first > 0:
        producers = rebuild_producers(snapshots, segments[:first])
    else:
        producers, offset = snapshots.load_newest(segments[0].base_offset)
        assert offset <= segments[0].base_offset
    epochs.truncate_to(segments[first].base_offset)
    on_batch = _replay(epochs, producers)
    number = first
    while number < len(segments):
        segment = segments[number]
        if number > first:
            # A file may have lost its end exactly between two batches; then nothing was cut, but
            # what follows does not join on.
            joins_on = segments[number - 1].next_offset == segment.base_offset
            if not joins_on and not config.compacts:
                break
            snapshots.take(segment.base_offset, producers, sync=False)
        cut = segment.rebuild(
            check_crc=True,
            index_interval_bytes=config.index_interval_bytes,
            on_batch=on_batch,
        )
        number += 1
        if cut:
            logger.warning(
                "segment was cut at its first invalid byte",
                extra={"path": str(segment.path), "size": segment.size},
            )
            break
        if number < len(segments):
            segment.finish()
            segment.write_indexes(sync=False)
    if number < len(segments):
        logger.warning(
            "segments behind the end of the recovered log are deleted",
            extra={"path": str(segments[number].path), "count": len(segments) - number},
        )
        delete_segments(fs, segments, snapshots, number)
    return producers


def _replay(epochs: LeaderEpochs, producers: ProducerState) -> Callable[[BatchHeader], None]:
    """Return a listener that makes epochs and producer state follow the batches."""

    def on_batch(header: BatchHeader) -> None:
        if header.partition_leader_epoch > epochs.latest_epoch:
            epochs.assign(header.partition_leader_epoch, header.base_offset)
        producers.update(header)

    return on_batch


def _remove_leftovers(fs: FileSystem, directory: Path) -> list[str]:
    """Finish or undo what was under way: deletions, compactions, splits.

    Returns:
        The names in the directory afterwards.
    """
    listed = fs.listdir(directory)
    cleaned = names.with_suffix(listed, names.CLEANED_SUFFIX)
    lowest_cleaned = min(map(names.parse_offset, cleaned), default=None)
    changed = bool(cleaned)
    for name in listed:
        if name.endswith(names.TMP_SUFFIX) or (
            name.endswith(names.DELETED_SUFFIX) and not name.endswith(_CHECKPOINT_DELETED_SUFFIX)
        ):
            fs.unlink(directory / name)
            changed = True
    swaps: list[str] = []
    for name in names.with_suffix(listed, names.SWAP_SUFFIX):
        # A swap that began while its clean copies were not complete is undone.
        if lowest_cleaned is not None and names.parse_offset(name) >= lowest_cleaned:
            fs.unlink(directory / name)
        else:
            swaps.append(name)
    for name in cleaned:
        fs.unlink(directory / name)
    if swaps:
        _complete_swaps(fs, directory, swaps)
    if swaps or changed:
        listed = fs.listdir(directory)
    orphans = _orphan_indexes(listed)
    for name in orphans:
        fs.unlink(directory / name)
    return [name for name in listed if name not in orphans] if orphans else listed


def _complete_swaps(fs: FileSystem, directory: Path, swaps: Sequence[str]) -> None:
    """Put the replacing files in the place of the segments that they replace."""
    low: int | None = None
    high = -1
    for name in swaps:
        if name.endswith(names.LOG_SUFFIX + names.SWAP_SUFFIX):
            base_offset = names.parse_offset(name)
            low = base_offset if low is None else min(low, base_offset)
            high = max(high, _swap_end(fs, directory, name))
    if low is not None:
        for name in names.with_suffix(
            fs.listdir(directory), (names.LOG_SUFFIX, *names.INDEX_SUFFIXES)
        ):
            if low <= names.parse_offset(name) < high:
                fs.unlink(directory / name)
    for name in swaps:
        fs.rename(directory / name, directory / name.removesuffix(names.SWAP_SUFFIX))


def _swap_end(fs: FileSystem, directory: Path, name: str) -> int:
    segment = Segment(fs, directory, names.parse_offset(name), file_name=name)
    try:
        for _, header, _ in segment.scan():
            segment.next_offset = header.next_offset
        return segment.next_offset
    finally:
        segment.close()


def _orphan_indexes(listed: Sequence[str]) -> set[str]:
    """Return the index files without a segment."""
    return {
        name
        for name in names.with_suffix(listed, names.INDEX_SUFFIXES)
        if names.log_file(names.parse_offset(name)) not in listed
    }


def _floor(segments: Sequence[Segment], offset: int) -> int:
    """Return the number of the segment that contains an offset, -1 if all begin behind it."""
    found = -1
    for number, segment in enumerate(segments):
        if segment.base_offset <= offset:
            found = number
    return found


def _ignore(_header: BatchHeader) -> None:
    """Take no notice of a batch."""
