"""One walk over the batch headers of a file: which stretches hold batches, and what is wrong.

Only headers are read, so a walk costs little beside decoding. A stretch that a walk returns is a
chain of whole batches whose offsets follow each other; that the bytes inside a batch are sound is
for whoever decodes it to check, by the CRC.

Base offset, length, epoch and magic lie outside the CRC. They are held against the neighbours:

* a header that cannot be one ends the chain; the walk goes on at the next batch whose CRC is right;
* an offset ahead of the expected one is a gap if the next batch confirms it. If that continues
  where the expected one would, the offset itself is damaged; so it is if nothing follows and the
  batch before lies right in front, as a log has no gaps inside a file;
* an offset behind the expected one was there before;
* an epoch never falls, and rises only at a control batch: a leader writes one before all else.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from mmap import mmap

from analytics.read.transport import mangled
from jbodlab.record_batch.record_batch import HEADER_SIZE, BatchHeader, crc_is_valid, read_header
from jbodlab.vocabulary.errors import DecodeError

Buffer = bytes | mmap

_KNOWN_ATTRIBUTES = 0x7F
_MAGIC_POSITION = 16
_MAGIC = b"\x02"


@dataclass(frozen=True, slots=True)
class Problem:
    """One row of the table of problems; what is not known is None."""

    file: str | None
    offset: int | None
    kind: str
    message: str
    position: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """A chain of batches in a file, from byte `start` to `end`, exclusive."""

    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """Content of one file; `next_offset` is the one expected in the file that follows."""

    stretches: tuple[Stretch, ...]
    problems: tuple[Problem, ...]
    first_offset: int | None
    next_offset: int


def walk_batches(
    data: Buffer, *, file: str, expected: int, following: int | None, stretch_bytes: int
) -> Walk:
    """Walk over one file.

    Args:
        data: The whole file.
        file: Its name, for problems.
        expected: Offset at which its first batch should begin.
        following: Offset at which the file behind it begins; None for the last file.
        stretch_bytes: Size from which on a stretch is cut in two, at a batch boundary.
    """
    with memoryview(data) as view:
        return _Walker(data, view, file, expected, following, stretch_bytes).walk()


def header_at(data: memoryview, position: int) -> BatchHeader | None:
    """Return the header of the batch that begins at a position, None if no whole one can."""
    try:
        header = read_header(data, position)
    except DecodeError:
        return None
    plausible = (
        header.base_offset >= 0
        and header.last_offset_delta >= 0
        and header.records_count >= 0
        and position + header.size <= len(data)
    )
    return header if plausible else None


def epoch_problem(previous: int, epoch: int, *, may_begin: bool) -> str | None:
    """Return what is wrong with the epoch of a batch, None if nothing is."""
    if epoch < previous:
        return f"epoch {epoch} behind epoch {previous}"
    if epoch > previous and not may_begin:
        return f"epoch {epoch} behind epoch {previous} without a change of the leader"
    return None


class _Walker:
    """The state of one walk."""

    def __init__(
        self,
        data: Buffer,
        view: memoryview,
        file: str,
        expected: int,
        following: int | None,
        stretch_bytes: int,
    ) -> None:
        self.data = data
        self.view = view
        self.file = file
        self.expected = expected
        self.following = following
        self.stretch_bytes = stretch_bytes
        self.first_offset: int | None = None
        self.epoch = 0
        self.is_first = True
        self.stretches: list[Stretch] = []
        self.problems: list[Problem] = []
        self.start: int | None = None
        self.end = 0

    def walk(self) -> Walk:
        position = 0
        previous: tuple[int, BatchHeader] | None = None
        while position < len(self.data):
            header = header_at(self.view, position)
            if header is None:
                resume = self._resume(position, previous)
                if resume is None:
                    break
                position, previous = resume, None
                continue
            if self._is_in_order(
                position, header, is_adjacent=previous is not None or not position
            ):
                self._accept(position, header)
            else:
                self._close_stretch()
            previous = (position, header)
            position += header.size
        self._close_stretch()
        return Walk(
            stretches=tuple(self.stretches),
            problems=tuple(self.problems),
            first_offset=self.first_offset,
            next_offset=self.expected,
        )

    def _accept(self, position: int, header: BatchHeader) -> None:
        if self.first_offset is None:
            self.first_offset = header.base_offset
        # A gap in front of a batch may have begun its epoch.
        may_begin = header.is_control or header.base_offset != self.expected or self.is_first
        wrong = epoch_problem(self.epoch, header.partition_leader_epoch, may_begin=may_begin)
        if wrong is not None:
            self._problem(position, header.base_offset, "epoch", wrong)
        self.epoch = header.partition_leader_epoch
        self.is_first = False
        self.expected = header.next_offset
        if self.start is None:
            self.start = position
        self.end = position + header.size
        if self.end - self.start >= self.stretch_bytes:
            self._close_stretch()

    def _is_in_order(self, position: int, header: BatchHeader, *, is_adjacent: bool) -> bool:
        base_offset = header.base_offset
        if base_offset == self.expected:
            return True
        if base_offset < self.expected:
            text = f"batch at offset {base_offset} where offset {self.expected} should follow"
            self._problem(position, base_offset, "order", text)
            return False
        continuation = self._next_base_offset(position + header.size)
        behind = self.expected + header.last_offset_delta + 1
        if continuation == behind or (continuation is None and is_adjacent):
            text = f"batch at offset {self.expected} says that it begins at {base_offset}"
            self._problem(position, self.expected, "order", text)
            self.expected = behind
            return False
        text = f"offsets {self.expected} to {base_offset - 1} are missing"
        self._problem(position, self.expected, "gap", text)
        self._close_stretch()
        return True

    def _next_base_offset(self, position: int) -> int | None:
        if position == len(self.data):
            return self.following
        header = header_at(self.view, position)
        return None if header is None else header.base_offset

    def _resume(self, position: int, previous: tuple[int, BatchHeader] | None) -> int | None:
        """Find the next batch behind something that is none, None if there is none."""
        search_from = position + 1
        if previous is not None and not crc_is_valid(self.view, *previous):
            # The length of the batch before may be what is wrong: it is searched as well.
            self._take_back(*previous)
            position, search_from = previous[0], previous[0] + 1
        self._close_stretch()
        hint = mangled(self.data, position)
        cause = hint and f": {hint} ({self.file}, offset {self.expected})"
        resume = _find_batch(self.data, self.view, search_from)
        if resume is not None:
            text = f"{resume - position} bytes are no batch{cause}"
            self._problem(position, self.expected, "corrupt", text)
        else:
            text = f"{len(self.data) - position} bytes at the end are no whole batch{cause}"
            self._problem(position, self.expected, "torn_tail", text)
        return resume

    def _take_back(self, position: int, header: BatchHeader) -> None:
        text = f"CRC of the batch at offset {header.base_offset} is wrong"
        self._problem(position, header.base_offset, "crc", text)
        if self.start is not None:
            self.end = position
        elif self.stretches and self.stretches[-1].end == position + header.size:
            self.start, self.end = self.stretches.pop().start, position
        if self.expected == header.next_offset:
            self.expected = header.base_offset

    def _close_stretch(self) -> None:
        if self.start is not None and self.end > self.start:
            self.stretches.append(Stretch(start=self.start, end=self.end))
        self.start = None

    def _problem(self, position: int, offset: int, kind: str, message: str) -> None:
        self.problems.append(Problem(self.file, offset, kind, message, position))


def _find_batch(data: Buffer, view: memoryview, position: int) -> int | None:
    for candidate in _magic_positions(data, position):
        header = header_at(view, candidate)
        if (
            header is not None
            and not header.attributes & ~_KNOWN_ATTRIBUTES
            and crc_is_valid(view, candidate, header)
        ):
            return candidate
    return None


def _magic_positions(data: Buffer, position: int) -> Iterator[int]:
    """Yield where a batch would begin for each byte that could be its magic."""
    found = data.find(_MAGIC, position + _MAGIC_POSITION)
    while found >= 0 and found - _MAGIC_POSITION + HEADER_SIZE <= len(data):
        yield found - _MAGIC_POSITION
        found = data.find(_MAGIC, found + 1)
