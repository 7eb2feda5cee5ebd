"""Reports of a dump, as the lines of Kafka's dump tool or as one JSON object a line.

Both kinds of report gather lines and write them in large pieces. Both print damage on the standard
error output; the JSON report also has an object for it, at the place where it was found.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Protocol, TextIO

from jbodlab.metadata.records.json_text import JsonValue
from jbodlab.record_batch.compression import CODEC_NAMES
from jbodlab.record_batch.record_batch import (
    LOG_APPEND_TIME,
    MAX_SEQUENCE,
    BatchHeader,
    BatchRecord,
)
from jbodlab.vocabulary.errors import JbodlabError

DELETE_HORIZON = 0x40
_CHARACTERS_MAX = 1 << 16
"""Bytes that are gathered before they are written."""


Pair = tuple[str, int, int]
"""Two numbers, and a line with a place for each."""


class OutputError(JbodlabError):
    """The report cannot be written."""


class Report(Protocol):
    """The report of a dump on the files that it reads."""

    damaged: bool
    """Whether a part could not be read, and so is missing from the report."""

    def file(self, path: str, kind: str, line: str | None = None, **members: JsonValue) -> None:
        """A file begins; `line` is a second line that Kafka's tool has for some kinds."""

    def batch(self, position: int, header: BatchHeader, *, is_valid: bool) -> None:
        """A batch begins."""

    def record(
        self,
        header: BatchHeader,
        record: BatchRecord,
        content: str = "",
    ) -> None:
        """A record; `content` is the end of its line, or more members of its JSON object."""

    def entry(self, kind: str, line: str, **members: JsonValue) -> None:
        """One entry of a file that is not a log."""

    def remark(self, kind: str, line: str, **members: JsonValue) -> None:
        """A finding that Kafka's tool prints on its standard output; not damage."""

    def mismatches(self, kind: str, title: str, path: str, pairs: Sequence[Pair]) -> None:
        """Numbers that should agree and do not; not damage either."""

    def problem(self, path: str, message: str, **members: JsonValue) -> None:
        """A file, or a part of it, could not be read."""

    def unknown_file(self, path: str) -> None:
        """A file of a kind that is not printed."""

    def flush(self) -> None:
        """Write the gathered lines."""


class _Lines:
    """Gathers lines and writes them in large pieces."""

    __slots__ = ("_characters", "_err", "_lines", "_out", "damaged")

    def __init__(self, out: TextIO, err: TextIO) -> None:
        self._out = out
        self._err = err
        self._lines: list[str] = []
        self._characters = 0
        self.damaged = False

    def line(self, text: str) -> None:
        self._lines.append(text)
        self._characters += len(text)
        if self._characters >= _CHARACTERS_MAX:
            self.write()

    def write(self, *, flush: bool = False) -> None:
        try:
            if self._lines:
                self._lines.append("")
                self._out.write("\n".join(self._lines))
                self._lines.clear()
                self._characters = 0
            if flush:
                self._out.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            # The caller must not mistake this for an input file that cannot be read.
            raise OutputError(f"cannot write the output: {error.strerror}") from error

    def flush(self) -> None:
        self.write(flush=True)

    def unknown_file(self, path: str) -> None:
        """One line on the standard error output."""
        self.complain(f"Ignoring unknown file {path}")

    def complain(self, text: str) -> None:
        """Write to the standard error output, after all earlier lines."""
        self.flush()
        print(text, file=self._err)


class TextReport(_Lines):
    """The lines of Kafka's dump tool."""

    __slots__ = ("_skip_record_metadata",)

    def __init__(self, out: TextIO, err: TextIO, *, skip_record_metadata: bool = False) -> None:
        super().__init__(out, err)
        self._skip_record_metadata = skip_record_metadata

    def file(self, path: str, kind: str, line: str | None = None, **members: JsonValue) -> None:
        """Two lines at most."""
        self.line(f"Dumping {path}")
        if line is not None:
            self.line(line)

    def batch(self, position: int, header: BatchHeader, *, is_valid: bool) -> None:
        """One line with the fields of the header."""
        h = header
        self.line(
            f"baseOffset: {h.base_offset} lastOffset: {h.last_offset} count: {h.records_count} "
            f"baseSequence: {h.base_sequence} lastSequence: {last_sequence(h)} "
            f"producerId: {h.producer_id} producerEpoch: {h.producer_epoch} "
            f"partitionLeaderEpoch: {h.partition_leader_epoch} "
            f"isTransactional: {bool_text(h.is_transactional)} "
            f"isControl: {bool_text(h.is_control)} "
            f"deleteHorizonMs: {optional_long(_delete_horizon_ms(h))} "
            f"position: {position} {timestamp_type(h)}: {h.max_timestamp} size: {h.size} "
            f"magic: {h.magic} compresscodec: {codec_name(h.compression)} crc: {h.crc} "
            f"isvalid: {bool_text(is_valid)}"
        )

    def record(
        self,
        header: BatchHeader,
        record: BatchRecord,
        content: str = "",
    ) -> None:
        """One line."""
        if self._skip_record_metadata:
            self.line(content)
            return
        key, value = record.key, record.value
        self.line(
            f"| offset: {record.offset} {timestamp_type(header)}: {record.timestamp} "
            f"keySize: {-1 if key is None else len(key)} "
            f"valueSize: {-1 if value is None else len(value)} "
            f"sequence: {record_sequence(header, record)} "
            f"headerKeys: [{','.join([key for key, _ in record.headers])}]{content}"
        )

    def entry(self, kind: str, line: str, **members: JsonValue) -> None:
        """One line."""
        self.line(line)

    def remark(self, kind: str, line: str, **members: JsonValue) -> None:
        """One line."""
        self.line(line)

    def mismatches(self, kind: str, title: str, path: str, pairs: Sequence[Pair]) -> None:
        """A title and a line for each, on the standard error output."""
        self.complain(f"{title}{path}")
        self._err.writelines(f"{text.format(first, second)}\n" for text, first, second in pairs)

    def problem(self, path: str, message: str, **members: JsonValue) -> None:
        """One line on the standard error output."""
        self.damaged = True
        self.complain(f"{path}: {message}")


class JsonReport(_Lines):
    """One object a line; `kind` names its kind."""

    __slots__ = ()

    def file(self, path: str, kind: str, line: str | None = None, **members: JsonValue) -> None:
        """A file begins; the next objects are from it."""
        self._object("file", path=path, type=kind, **members)

    def batch(self, position: int, header: BatchHeader, *, is_valid: bool) -> None:
        """The fields of the header under the names that they have in the text."""
        h = header
        self._object(
            "batch",
            baseOffset=h.base_offset,
            lastOffset=h.last_offset,
            count=h.records_count,
            baseSequence=h.base_sequence,
            lastSequence=last_sequence(h),
            producerId=h.producer_id,
            producerEpoch=h.producer_epoch,
            partitionLeaderEpoch=h.partition_leader_epoch,
            isTransactional=h.is_transactional,
            isControl=h.is_control,
            deleteHorizonMs=_delete_horizon_ms(h),
            position=position,
            timestampType=timestamp_type(h),
            timestamp=h.max_timestamp,
            size=h.size,
            magic=h.magic,
            compresscodec=codec_name(h.compression),
            crc=h.crc,
            isvalid=is_valid,
        )

    def record(
        self,
        header: BatchHeader,
        record: BatchRecord,
        content: str = "",
    ) -> None:
        """A record with its decoded content."""
        key, value = record.key, record.value
        names = [key for key, _ in record.headers]
        self.line(
            f'{{"kind":"record","offset":{record.offset},'
            f'"timestampType":"{timestamp_type(header)}","timestamp":{record.timestamp},'
            f'"keySize":{-1 if key is None else len(key)},'
            f'"valueSize":{-1 if value is None else len(value)},'
            f'"sequence":{record_sequence(header, record)},'
            f'"headerKeys":{json_line(names) if names else "[]"}{content and ","}{content}}}'
        )

    def entry(self, kind: str, line: str, **members: JsonValue) -> None:
        """An object of the given kind."""
        self._object(kind, **members)

    def remark(self, kind: str, line: str, **members: JsonValue) -> None:
        """A problem that is not damage, or a result."""
        self._object(kind, **members, message=line)

    def mismatches(self, kind: str, title: str, path: str, pairs: Sequence[Pair]) -> None:
        """A problem for each."""
        for text, first, second in pairs:
            self._object(
                "problem",
                problem=kind,
                path=path,
                message=text.format(first, second).strip(),
                first=first,
                second=second,
            )

    def problem(self, path: str, message: str, **members: JsonValue) -> None:
        """A problem, and a line on the standard error output."""
        self.damaged = True
        self._object("problem", problem="unreadable", path=path, message=message, **members)
        self.complain(f"{path}: {message}")

    def _object(self, kind: str, /, **members: JsonValue) -> None:
        self.line(json.dumps({"kind": kind, **members}, ensure_ascii=False, separators=(",", ":")))


def json_line(value: object) -> str:
    """Return JSON without blanks and line ends."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def members_text(**members: JsonValue) -> str:
    """Return members of a JSON object without its braces."""
    return json_line(members)[1:-1]


def timestamp_type(header: BatchHeader) -> str:
    """Return the timestamp type of a batch."""
    return "LogAppendTime" if header.attributes & LOG_APPEND_TIME else "CreateTime"


def codec_name(codec: int) -> str:
    """Return the name of a codec, or the number of an unknown codec."""
    return CODEC_NAMES[codec] if codec < len(CODEC_NAMES) else str(codec)


def last_sequence(header: BatchHeader) -> int:
    """Return the producer's sequence of the last record; -1 without a sequence."""
    if header.base_sequence == -1:
        return -1
    return _sequence(header.base_sequence, header.last_offset_delta)


def record_sequence(header: BatchHeader, record: BatchRecord) -> int:
    """Return the producer's sequence of a record; -1 without a sequence."""
    if header.base_sequence < 0:
        return -1
    return _sequence(header.base_sequence, record.offset - header.base_offset)


def optional_long(number: int | None) -> str:
    """Return the text that Java prints for an optional number."""
    return "OptionalLong.empty" if number is None else f"OptionalLong[{number}]"


def bool_text(value: bool) -> str:
    """Return the text that Java prints for a boolean."""
    return "true" if value else "false"


def _sequence(base: int, delta: int) -> int:
    """Return a later sequence; 0 follows the largest."""
    total = base + delta
    return total & MAX_SEQUENCE if total > MAX_SEQUENCE else total


def _delete_horizon_ms(header: BatchHeader) -> int | None:
    return header.base_timestamp if header.attributes & DELETE_HORIZON else None
