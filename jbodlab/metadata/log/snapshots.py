"""Metadata snapshots, `<end offset>-<epoch>.checkpoint`, and `bootstrap.checkpoint`.

    control batch   SnapshotHeader: append time of the last record contained
    data batches    at most 1024 records and 8 MiB each
    control batch   SnapshotFooter; without it the file is incomplete

Offsets inside the file are its own and begin at 0; the leader epoch of every batch is the one in
the name. A snapshot contains the effect of all records below its end offset.

Source: `org.apache.kafka.snapshot.RecordsSnapshotWriter`, `Snapshots`, `BootstrapDirectory`.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from jbodlab.metadata.log.batches import (
    MAX_BATCH_BYTES,
    MetadataBatch,
    control_batch,
    decode_batch,
    read_batches,
)
from jbodlab.metadata.records import frame
from jbodlab.metadata.records.control_records import (
    ControlRecord,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
)
from jbodlab.metadata.records.frame import VersionedRecord
from jbodlab.record_batch.record_batch import (
    HEADER_SIZE,
    build_batch,
    crc_is_valid,
    iterate_headers,
    read_header,
)
from jbodlab.storage.directory.filesystem import FileSystem
from jbodlab.storage.directory.posix_filesystem import PosixFileSystem
from jbodlab.vocabulary.errors import CorruptRecordError, DecodeError

logger = logging.getLogger(__name__)

SUFFIX = ".checkpoint"
PART_SUFFIX = ".checkpoint.part"
DELETED_SUFFIX = ".checkpoint.deleted"
DAMAGED_SUFFIX = ".damaged"
HEADER_BATCH_BYTES_MAX = 4096
"""More than the control batch at the beginning of a snapshot ever has."""
MAX_RECORDS_PER_BATCH = 1024
_RECORD_OVERHEAD_BYTES = 32
"""More than the fields around a record's value ever need."""

_NAME = re.compile(r"(\d{20})-(\d{10})\.checkpoint")


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """Content of a snapshot file; the end offset is exclusive."""

    end_offset: int
    epoch: int
    timestamp_ms: int
    """Append time of the last record contained, ms since 1970."""
    records: tuple[VersionedRecord, ...]


def snapshot_name(end_offset: int, epoch: int) -> str:
    """Return the file name of a snapshot."""
    return f"{end_offset:020d}-{epoch:010d}{SUFFIX}"


def parse_name(name: str) -> tuple[int, int]:
    """Return end offset and epoch from a snapshot's file name.

    Raises:
        ValueError: it is not the name of a complete snapshot.
    """
    match = _NAME.fullmatch(name)
    if match is None:
        raise ValueError(f"file name {name!r} is not the one of a snapshot")
    return int(match[1]), int(match[2])


def read_snapshot(path: Path, *, fs: FileSystem | None = None) -> Snapshot:
    """Read a whole snapshot.

    Args:
        path: The file.
        fs: File system of the file; that of the machine by default, for tools.

    Raises:
        CorruptRecordError: the snapshot is damaged or incomplete.
        ValueError: the file name is not that of a snapshot.
    """
    end_offset, epoch = parse_name(path.name)
    header, records = _read(fs or PosixFileSystem(), path)
    return Snapshot(
        end_offset=end_offset,
        epoch=epoch,
        timestamp_ms=header.last_contained_log_timestamp,
        records=records,
    )


def snapshot_paths(directory: Path, *, fs: FileSystem | None = None) -> list[Path]:
    """Return the complete snapshots in a directory, newest first."""
    found = (fs or PosixFileSystem()).listdir(directory)
    return sorted((directory / name for name in found if _NAME.fullmatch(name)), reverse=True)


def latest_snapshot(directory: Path, *, fs: FileSystem | None = None) -> Path | None:
    """Return the newest snapshot in a directory, None if there is none."""
    return next(iter(snapshot_paths(directory, fs=fs)), None)


def read_latest(directory: Path, *, fs: FileSystem | None = None) -> Snapshot | None:
    """Read the newest snapshot that is not damaged, None if there is none."""
    for path in snapshot_paths(directory, fs=fs):
        try:
            return read_snapshot(path, fs=fs)
        except CorruptRecordError as error:
            logger.warning(
                "a metadata snapshot is damaged", extra={"path": str(path), "reason": str(error)}
            )
    return None


def take_latest(fs: FileSystem, directory: Path) -> Snapshot | None:
    """Read the newest snapshot that is not damaged, and rename damaged newer ones.

    Under its own name a damaged snapshot would count as the newest one: the log cleaning would
    remove older snapshots and the log before it, and followers would fetch the damaged snapshot.
    """
    found = read_latest(directory, fs=fs)
    for path in snapshot_paths(directory, fs=fs):
        if found is not None and parse_name(path.name) == (found.end_offset, found.epoch):
            break
        fs.rename(path, path.with_name(path.name + DAMAGED_SUFFIX), sync=False)
    return found


def is_complete(fs: FileSystem, path: Path) -> bool:
    """Return whether a snapshot is whole, as far as checksums and its frame tell."""
    data = fs.read_bytes(path)
    offset, end, last = 0, 0, None
    try:
        for position, header in iterate_headers(data):
            if header.base_offset != offset or not crc_is_valid(data, position, header):
                return False
            offset, end, last = header.next_offset, position + header.size, position
        if last is None or end != len(data):
            return False
        footer = decode_batch(data, last, read_header(data, last)).records[-1][1]
    except DecodeError:
        return False
    return isinstance(footer, SnapshotFooterRecord)


def read_timestamp_ms(fs: FileSystem, path: Path) -> int | None:
    """Return the append time of the last record in a snapshot; None if its header is damaged."""
    file = fs.open_source(path)
    try:
        start = file.pread(HEADER_BATCH_BYTES_MAX, 0)
    finally:
        file.close()
    try:
        header = decode_batch(start, 0, read_header(start)).records[0][1]
    except DecodeError:
        return None
    return header.last_contained_log_timestamp if isinstance(header, SnapshotHeaderRecord) else None


def remove_leftovers(fs: FileSystem, directory: Path) -> None:
    """Remove the files of an interrupted write or removal; no writer may be active."""
    for name in fs.listdir(directory):
        if name.endswith((PART_SUFFIX, DELETED_SUFFIX)):
            fs.unlink(directory / name)


def delete_snapshot(fs: FileSystem, path: Path) -> None:
    """Remove a snapshot; a kill leaves the snapshot, or a `.deleted` file that no reader uses."""
    doomed = path.with_name(path.name + ".deleted")
    fs.rename(path, doomed, sync=False)
    fs.unlink(doomed)


def prune(fs: FileSystem, directory: Path, *, keep: int = 1) -> list[Path]:
    """Remove all but the newest snapshots, and the files of an interrupted write or removal."""
    removed = snapshot_paths(directory, fs=fs)[keep:]
    for path in removed:
        delete_snapshot(fs, path)
    remove_leftovers(fs, directory)
    return removed


def write_bootstrap(
    path: Path,
    records: Sequence[VersionedRecord],
    *,
    created_ms: int,
    fs: FileSystem | None = None,
) -> None:
    """Write `bootstrap.checkpoint` durably.

    Args:
        path: The file itself, in the root of a log directory.
        records: Level of metadata.version first, then other features by name, then others.
        created_ms: Time of the batches in the file.
        fs: Where to write.
    """
    data = snapshot_bytes(records, epoch=0, timestamp_ms=0, created_ms=created_ms)
    (fs or PosixFileSystem()).write_atomically(path, data)


def read_bootstrap(path: Path, *, fs: FileSystem | None = None) -> list[VersionedRecord]:
    """Read `bootstrap.checkpoint`.

    Raises:
        CorruptRecordError: it is damaged or incomplete.
    """
    return list(_read(fs or PosixFileSystem(), path)[1])


def snapshot_bytes(
    records: Iterable[VersionedRecord],
    *,
    epoch: int,
    timestamp_ms: int,
    created_ms: int,
    quorum: Sequence[ControlRecord] = (),
) -> bytes:
    """Return the content of a snapshot file.

    Args:
        records: The data.
        epoch: Of the last record that the snapshot stands for.
        timestamp_ms: Of that record, ms since 1970.
        created_ms: Of the batches in the file.
        quorum: See `quorum_records`.
    """
    header = SnapshotHeaderRecord(last_contained_log_timestamp=timestamp_ms)
    parts = [control_batch(header, *quorum, base_offset=0, epoch=epoch, timestamp_ms=created_ms)]
    offset = 1 + len(quorum)
    for values in batches_of_values(records):
        parts.append(
            build_batch(
                [(None, value) for value in values],
                base_offset=offset,
                leader_epoch=epoch,
                timestamp_ms=created_ms,
            )
        )
        offset += len(values)
    footer = SnapshotFooterRecord()
    parts.append(control_batch(footer, base_offset=offset, epoch=epoch, timestamp_ms=created_ms))
    return b"".join(parts)


def decode_snapshot(data: bytes) -> tuple[SnapshotHeaderRecord, tuple[VersionedRecord, ...]]:
    """Return header and data records of a snapshot file's content.

    Raises:
        DecodeError: it is damaged or incomplete.
    """
    batches = list(read_batches(data))
    _check_frame(batches, len(data))
    header = batches[0].records[0][1]
    if not isinstance(header, SnapshotHeaderRecord):
        raise DecodeError(f"expected a snapshot header, got {header}")
    if not isinstance(batches[-1].records[-1][1], SnapshotFooterRecord):
        raise DecodeError("snapshot has no footer")
    return header, tuple(record for batch in batches for _, record in batch.data_records)


def _check_frame(batches: Sequence[MetadataBatch], size: int) -> None:
    if not batches:
        raise DecodeError("snapshot is empty")
    offset = 0
    for batch in batches:
        if batch.base_offset != offset:
            raise DecodeError(f"expected a batch at offset {offset}, got {batch.base_offset}")
        offset = batch.last_offset + 1
    if sum(batch.size for batch in batches) != size:
        raise DecodeError("last batch is incomplete")


def _read(fs: FileSystem, path: Path) -> tuple[SnapshotHeaderRecord, tuple[VersionedRecord, ...]]:
    try:
        return decode_snapshot(fs.read_bytes(path))
    except DecodeError as error:
        raise CorruptRecordError(path, 0, str(error)) from error


def batches_of_values(records: Iterable[VersionedRecord]) -> Iterator[list[bytes]]:
    """Encode records, and gather as many as one batch of a snapshot may hold."""
    values: list[bytes] = []
    size = HEADER_SIZE
    for record, version in records:
        value = frame.encode(record, version)
        record_size = len(value) + _RECORD_OVERHEAD_BYTES
        if values and (
            len(values) == MAX_RECORDS_PER_BATCH or size + record_size > MAX_BATCH_BYTES
        ):
            yield values
            values, size = [], HEADER_SIZE
        values.append(value)
        size += record_size
    if values:
        yield values
