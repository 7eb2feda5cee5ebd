"""Dump of `.index`, `.timeindex` and `.txnindex` files, compared with the log beside them.

    .index      int32 offset relative to the base, int32 position
    .timeindex  int64 timestamp, int32 relative offset
    .txnindex   int16 version, int64 producer id, first, last and last stable offset

An index of an active segment ends with zeros, which are not entries.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from jbodlab.record_batch.record_batch import HEADER, header_of, iterate_records
from jbodlab.storage.directory import names
from jbodlab.vocabulary.errors import DecodeError
from storage_tool.dump.paths import absolute
from storage_tool.dump.reader import BatchFile, RawBatch, last_offset
from storage_tool.dump.report import Pair, Report

NO_TIMESTAMP = -1

_OFFSET_ENTRY = struct.Struct(">ii")
_TIME_ENTRY = struct.Struct(">qi")
_ABORTED = struct.Struct(">hqqqq")

_INDEX_LINE = "  Index offset: {}, log offset: {}"
_TIMESTAMP_LINE = "  Index timestamp: {}, log timestamp: {}"
_ORDER_LINE = "  Index timestamp: {}, Previously indexed timestamp: {}"
_NOT_FOUND_LINE = "Indexed offset: {}, found log offset: {}"


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexOptions:
    """The checks of indexes to make."""

    sanity_check: bool = False
    """Make only the checks of a starting broker."""
    verify_only: bool = False
    """Compare with the log and show no entries."""


class IndexDump:
    """Dumps one index after the other; reports the mismatches at the end."""

    def __init__(self, report: Report, options: IndexOptions) -> None:
        self._report = report
        self._options = options

    def dump_offsets(self, shown: str, path: Path) -> None:
        """Dump an offset index.

        Raises:
            OSError: the index cannot be read.
        """
        report, options = self._report, self._options
        report.file(shown, "index")
        base, data = _base_offset(path), path.read_bytes()
        entries = list(_offset_entries(base, data))
        if not entries:
            report.remark("result", f"{shown} is empty.", path=shown, empty=True)
            return
        if options.sanity_check:
            last = base + _OFFSET_ENTRY.unpack_from(data, _whole(data, _OFFSET_ENTRY) - 8)[0]
            self._sanity(shown, len(data), _OFFSET_ENTRY.size, last < base)
            return
        mismatches: list[Pair] = []
        with _LogBeside(report, shown, path) as log:
            for offset, position in entries:
                try:
                    found = log.last_offset_at(position)
                except DecodeError as error:
                    report.problem(shown, f"entry of offset {offset}: {error}", offset=offset)
                    found = None
                if found is not None and found != offset:
                    mismatches.append((_INDEX_LINE, offset, found))
                if not options.verify_only:
                    line = f"offset: {offset} position: {position}"
                    report.entry("indexEntry", line, offset=offset, position=position)
        if mismatches:
            report.mismatches(
                "indexMismatch",
                "Mismatches in :",
                absolute(shown),
                sorted(mismatches, reverse=True),
            )

    def dump_times(self, shown: str, path: Path) -> None:
        """Dump a time index.

        Raises:
            OSError: the index cannot be read.
        """
        report, options = self._report, self._options
        report.file(shown, "timeindex")
        base, data = _base_offset(path), path.read_bytes()
        if options.sanity_check:
            last = first = 0
            if whole := _whole(data, _TIME_ENTRY):
                first, last = _TIME_ENTRY.unpack_from(data)[0], _last_time(data, whole)
            self._sanity(shown, len(data), _TIME_ENTRY.size, last < first)
            return
        index = path.with_name(f"{path.name.split('.')[0]}{names.INDEX_SUFFIX}")
        positions = list(_offset_entries(base, index.read_bytes())) if index.exists() else []
        found = _TimeFindings()
        previous = NO_TIMESTAMP
        with _LogBeside(report, shown, path) as log:
            for timestamp, offset in _time_entries(base, data):
                at = bisect_right(positions, offset, key=lambda entry: entry[0]) - 1
                try:
                    log.compare(
                        found, timestamp, offset, previous, positions[at][1] if at >= 0 else 0
                    )
                except DecodeError as error:
                    report.problem(shown, f"entry of offset {offset}: {error}", offset=offset)
                if not options.verify_only:
                    line = f"timestamp: {timestamp} offset: {offset}"
                    report.entry("timeIndexEntry", line, timestamp=timestamp, offset=offset)
                previous = timestamp
        found.tell(report, absolute(shown))

    def dump_aborted(self, shown: str, path: Path) -> None:
        """Dump an index of aborted transactions.

        Raises:
            OSError: the index cannot be read.
        """
        report = self._report
        report.file(shown, "txnindex")
        data = path.read_bytes()
        whole = _whole(data, _ABORTED)
        for version, producer_id, first, last, stable in _ABORTED.iter_unpack(data[:whole]):
            report.entry(
                "abortedTransaction",
                f"version: {version} producerId: {producer_id} firstOffset: {first} "
                f"lastOffset: {last} lastStableOffset: {stable}",
                version=version,
                producerId=producer_id,
                firstOffset=first,
                lastOffset=last,
                lastStableOffset=stable,
            )
        if whole != len(data):
            report.problem(shown, f"the last entry is incomplete: it has {len(data) - whole} bytes")

    def _sanity(self, shown: str, size: int, entry_size: int, descending: bool) -> None:
        if descending:
            self._report.problem(shown, "the last entry is less than the first")
        elif size % entry_size:
            self._report.problem(shown, f"expected a multiple of {entry_size} bytes, got {size}")
        else:
            self._report.remark(
                "result", f"{shown} passed sanity check.", path=shown, passedSanityCheck=True
            )


class _TimeFindings:
    """The mismatches in one time index."""

    def __init__(self) -> None:
        self.timestamps: list[Pair] = []
        self.order: list[Pair] = []
        self.not_found: list[Pair] = []

    def tell(self, report: Report, path: str) -> None:
        for kind, title, lines in (
            ("timestampMismatch", "Found timestamp mismatch in :", self.timestamps),
            ("timestampOutOfOrder", "Found out of order timestamp in :", self.order),
            (
                "indexedOffsetNotFound",
                "The following indexed offsets are not found in :",
                self.not_found,
            ),
        ):
            if lines:
                report.mismatches(kind, title, path, lines)


class _LogBeside:
    """The log file of an index; without it, the entries are not compared."""

    def __init__(self, report: Report, shown: str, index: Path) -> None:
        self._file: BatchFile | None = None
        path = index.with_name(f"{index.name.split('.')[0]}{names.LOG_SUFFIX}")
        try:
            self._file = BatchFile(path)
        except OSError as error:
            report.problem(
                shown, f"cannot compare with the log: cannot read {path.name}: {error.strerror}"
            )

    def __enter__(self) -> _LogBeside:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._file is not None:
            self._file.__exit__(None, None, None)

    def last_offset_at(self, position: int) -> int | None:
        return None if self._file is None else self._file.last_offset_at(position)

    def compare(
        self, found: _TimeFindings, timestamp: int, offset: int, previous: int, position: int
    ) -> None:
        """Find the batch that an entry of a time index names, and compare.

        Raises:
            DecodeError: the log is damaged there.
        """
        if self._file is None:
            return
        if not 0 <= position <= self._file.size:
            raise DecodeError(f"position {position} is outside the log")
        for batch in self._file.batches(position):
            last = last_offset(batch)
            if last < offset:
                continue
            if last != offset:
                break
            largest = _largest_timestamp(batch)
            if largest != timestamp:
                found.timestamps.append((_TIMESTAMP_LINE, timestamp, largest))
            if previous >= timestamp:
                found.order.append((_ORDER_LINE, timestamp, previous))
            return
        else:
            last = -1
        found.not_found.append((_NOT_FOUND_LINE, offset, last))


def _largest_timestamp(batch: RawBatch) -> int:
    header = header_of(HEADER.unpack_from(batch.data))
    return max(
        (record.timestamp for record in iterate_records(batch.data, 0, header)),
        default=NO_TIMESTAMP,
    )


def _base_offset(path: Path) -> int:
    """Return the offset that a file is named after.

    Raises:
        DecodeError: the name does not begin with a number.
    """
    stem = path.name.split(".")[0]
    try:
        return int(stem)
    except ValueError:
        raise DecodeError("the name does not begin with an offset") from None


def _offset_entries(base: int, data: bytes) -> Iterator[tuple[int, int]]:
    for number, (relative, position) in enumerate(
        _OFFSET_ENTRY.iter_unpack(data[: _whole(data, _OFFSET_ENTRY)])
    ):
        if relative == 0 and number:
            return
        yield base + relative, position


def _time_entries(base: int, data: bytes) -> Iterator[tuple[int, int]]:
    for number, (timestamp, relative) in enumerate(
        _TIME_ENTRY.iter_unpack(data[: _whole(data, _TIME_ENTRY)])
    ):
        if relative == 0 and number:
            return
        yield timestamp, base + relative


def _last_time(data: bytes, whole: int) -> int:
    return int(_TIME_ENTRY.unpack_from(data, whole - _TIME_ENTRY.size)[0])


def _whole(data: bytes, entry: struct.Struct) -> int:
    """Return how many bytes are whole entries."""
    return len(data) - len(data) % entry.size
