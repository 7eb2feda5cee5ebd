"""Dump of `.log` and `.checkpoint` files: batches and, if asked for, their records.

A record or batch that cannot be read is reported as a problem. The dump continues with the next
record or batch, unless its position is unknown.
"""

from __future__ import annotations

import re
from array import array
from dataclasses import dataclass
from pathlib import Path

from jbodlab.record_batch.crc32c import crc32c
from jbodlab.record_batch.record_batch import (
    CRC_START,
    HEADER,
    BatchHeader,
    BatchRecord,
    header_of,
    iterate_records,
)
from jbodlab.storage.directory import names
from jbodlab.vocabulary.errors import DecodeError
from storage_tool.dump.contents import Contents, MetadataContents
from storage_tool.dump.control import control_members, control_text
from storage_tool.dump.header_checks import HeaderChecks
from storage_tool.dump.paths import absolute
from storage_tool.dump.reader import BatchFile, RawBatch
from storage_tool.dump.report import Report

CHECKPOINT_SUFFIX = ".checkpoint"
NON_CONSECUTIVE = "  {} is followed by {}"

_SNAPSHOT_NAME = re.compile(r"([0-9]{20})-([0-9]{10})\.checkpoint")
_NUMBER = re.compile(r"-?[0-9]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    """How logs are dumped."""

    deep: bool
    """Records, too, and not only batches."""
    contents: Contents | None
    """How payloads are read; without, they are not shown."""
    skip_record_metadata: bool
    as_json: bool
    bytes_max: int | None
    """Bytes read of each file; `None` is all."""


class LogDump:
    """Dumps one log after the other."""

    def __init__(self, report: Report, options: LogOptions) -> None:
        self._report = report
        self._options = options

    def dump(self, shown: str, path: Path) -> None:
        """Dump one file.

        Args:
            shown: The path as it was given.
            path: The same, to be opened.

        Raises:
            OSError: the file cannot be read.
        """
        self._title(shown, path)
        with BatchFile(path, self._options.bytes_max) as file:
            self._batches(shown, path, file)

    def _batches(self, shown: str, path: Path, file: BatchFile) -> None:
        gaps = _Gaps()
        checks = self._checks(path)
        undecoded = 0
        try:
            for batch in file.batches():
                undecoded += self._batch(shown, batch, gaps, checks)
        except DecodeError as error:
            self._report.problem(
                shown,
                f"{error} at position {file.position}; "
                f"cannot read the last {file.end - file.position} bytes",
                position=file.position,
            )
        else:
            rest = file.size - file.position
            if rest and self._options.bytes_max is None:
                self._report.remark(
                    "problem",
                    f"Found {rest} invalid bytes at the end of {path.name}",
                    problem="invalidBytesAtEnd",
                    path=shown,
                    position=file.position,
                    bytes=rest,
                )
        if undecoded:
            self._report.problem(shown, f"cannot decode {undecoded} records")
        if gaps.pairs:
            self._report.mismatches(
                "nonConsecutiveOffsets",
                "Non-consecutive offsets in ",
                absolute(shown),
                [(NON_CONSECUTIVE, first, second) for first, second in gaps.all()],
            )

    def _title(self, shown: str, path: Path) -> None:
        """Report the beginning of a file, with the offsets in its name."""
        report, name = self._report, path.name
        if name.endswith(names.LOG_SUFFIX):
            stem = name.split(".")[0]
            if _NUMBER.fullmatch(stem):
                offset = int(stem)
                line = f"Log starting offset: {offset}"
                report.file(shown, "log", line, startOffset=offset)
            else:
                report.file(shown, "log")
                _require_exists(path)
                report.problem(shown, "the name does not begin with an offset")
        elif name == names.BOOTSTRAP_CHECKPOINT_FILE:
            report.file(shown, "bootstrapSnapshot", "KRaft bootstrap snapshot")
        elif match := _SNAPSHOT_NAME.fullmatch(name):
            end_offset, epoch = int(match[1]), int(match[2])
            line = f"Snapshot end offset: {end_offset}, epoch: {epoch}"
            report.file(shown, "snapshot", line, endOffset=end_offset, epoch=epoch)
        else:
            report.file(shown, "snapshot")
            _require_exists(path)
            report.problem(shown, "the name has no end offset and epoch")

    def _checks(self, path: Path) -> HeaderChecks | None:
        if not self._options.as_json:
            return None
        snapshot = _SNAPSHOT_NAME.fullmatch(path.name)
        return HeaderChecks(
            is_metadata=isinstance(self._options.contents, MetadataContents),
            epoch=None if snapshot is None else int(snapshot[2]),
        )

    def _batch(self, shown: str, batch: RawBatch, gaps: _Gaps, checks: HeaderChecks | None) -> int:
        """Dump one batch; returns how many of its records could not be decoded."""
        report, data = self._report, batch.data
        try:
            batch.check()
        except DecodeError as error:
            report.problem(shown, str(error), position=batch.position)
            return 0
        header = header_of(HEADER.unpack_from(data))
        is_valid = crc32c(data[CRC_START:]) == header.crc
        report.batch(batch.position, header, is_valid=is_valid)
        for complaint in [] if checks is None else checks.complaints(header):
            report.remark(
                "problem",
                complaint,
                problem="header",
                path=shown,
                position=batch.position,
                offset=header.base_offset,
            )
        if not self._options.deep:
            return 0
        undecoded = 0
        try:
            show = self._control_record if header.is_control else self._data_record
            for record in iterate_records(data, 0, header):
                gaps.add(record.offset)
                undecoded += show(shown, header, record)
        except DecodeError as error:
            report.problem(
                shown,
                f"batch at position {batch.position}, offset {header.base_offset}: {error}",
                position=batch.position,
                offset=header.base_offset,
            )
        return undecoded

    def _data_record(self, shown: str, header: BatchHeader, record: BatchRecord) -> int:
        contents = self._options.contents
        if contents is None:
            self._report.record(header, record)
            return 0
        if self._options.as_json:
            members, complaint = contents.members(record)
            self._report.record(header, record, members)
            if complaint is not None:
                self._report.remark(
                    "problem",
                    complaint,
                    problem="undecodedRecord",
                    path=shown,
                    offset=record.offset,
                )
        else:
            key, payload, complaint = contents.text(record)
            self._report.record(header, record, self._line_end(key, payload))
        return complaint is not None

    def _line_end(self, key: str | None, payload: str | None) -> str:
        begin = "| " if self._options.skip_record_metadata else " "
        if key is not None:
            return f"{begin}key: {key}" + ("" if payload is None else f" payload: {payload}")
        return "" if payload is None else f"{begin}payload: {payload}"

    def _control_record(self, shown: str, header: BatchHeader, record: BatchRecord) -> int:
        content, complaint = "", None
        if self._options.as_json or not self._options.skip_record_metadata:
            try:
                render = control_members if self._options.as_json else control_text
                content = render(record)
            except DecodeError as error:
                complaint = str(error)
        self._report.record(header, record, content)
        if complaint is not None:
            self._report.problem(
                shown,
                f"control record at offset {record.offset}: {complaint}",
                offset=record.offset,
            )
        return 0


def _int64(number: int) -> int:
    """Return a sum of damaged numbers as 64 bits hold it."""
    return (number + 2**63) % 2**64 - 2**63


def _require_exists(path: Path) -> None:
    """Make a missing file the only complaint about it."""
    path.stat()


class _Gaps:
    """Offsets that are not followed by the next one."""

    __slots__ = ("_previous", "pairs")

    def __init__(self) -> None:
        self._previous: int | None = None
        self.pairs = array("q")
        """First and second offset of each; a compacted log has many."""

    def add(self, offset: int) -> None:
        previous, self._previous = self._previous, offset
        if previous is not None and offset != previous + 1:
            self.pairs.append(_int64(previous))
            self.pairs.append(_int64(offset))

    def all(self) -> list[tuple[int, int]]:
        return list(zip(self.pairs[0::2], self.pairs[1::2], strict=True))
