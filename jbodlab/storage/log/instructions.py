"""Instructions of `LogState` for the files of its log: plain values, carried out in their order.

They name segments by base offset, files by name, positions and sizes in bytes. Nobody decides
anything while carrying them out; see `carry_out`. None of them makes anything durable: what is to
be synced is told by a `SyncRequest`, which may be carried out beside all others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from jbodlab.storage.log.offset_index import OffsetIndex
from jbodlab.storage.log.producer_state import ProducerState
from jbodlab.storage.log.time_index import TimeIndex
from jbodlab.storage.log.transactions import AbortedTransaction

if TYPE_CHECKING:
    from jbodlab.storage.directory.filesystem import Buffer


class CreateSegment(NamedTuple):
    """Make the files of an empty segment; leftovers under its name are emptied."""

    base_offset: int


class WriteAt(NamedTuple):
    """Write at the end of a segment, which is at this position."""

    base_offset: int
    position: int
    buffers: Sequence[Buffer]


class CutSegment(NamedTuple):
    """Let a segment end at this size; what is known of positions in it is void."""

    base_offset: int
    size: int


class CloseSegment(NamedTuple):
    """Nothing is appended any more: write the index files."""

    base_offset: int
    offset_index: OffsetIndex
    time_index: TimeIndex


class SetAside(NamedTuple):
    """Rename the files of a segment to `.deleted`; open ones go on being read."""

    base_offset: int


class ReplaceSegments(NamedTuple):
    """Put cleaned segments, which are there as `.swap`, in the place of former ones."""

    former: tuple[int, ...]
    cleaned: tuple[int, ...]


class WriteSnapshot(NamedTuple):
    """Write the producer state as of an offset."""

    offset: int
    producers: ProducerState


class RemoveSnapshots(NamedTuple):
    """Remove the snapshots of these offsets."""

    offsets: tuple[int, ...]


class WriteEpochs(NamedTuple):
    """Replace the leader epochs: epoch and start offset of each entry."""

    entries: tuple[tuple[int, int], ...]


class WriteAborted(NamedTuple):
    """Replace a segment's index of aborted transactions; without entries there is none."""

    base_offset: int
    entries: tuple[AbortedTransaction, ...]


Instruction = (
    CreateSegment
    | WriteAt
    | CutSegment
    | CloseSegment
    | SetAside
    | ReplaceSegments
    | WriteSnapshot
    | RemoveSnapshots
    | WriteEpochs
    | WriteAborted
)
Instructions = tuple[Instruction, ...]


class SyncRequest(NamedTuple):
    """The files to sync before the recovery point may be `end_offset`.

    Attributes:
        segments: Base offset and size of each, ascending.
        closed: Base offsets of those whose index files count as well.
        snapshots: Offsets of producer snapshots.
        epochs: Whether the file with the leader epochs has to be synced.
        names: Whether the names in the partition directory, and its own, have to be.
        metadata: Whether `partition.metadata` has to be; not without the names.
        cut_count: How often the log had been cut when this was asked for.
    """

    segments: tuple[tuple[int, int], ...]
    closed: tuple[int, ...]
    snapshots: tuple[int, ...]
    epochs: bool
    names: bool
    metadata: bool
    end_offset: int
    cut_count: int

    @property
    def is_empty(self) -> bool:
        """Whether all of it is on the disk already."""
        return not (self.segments or self.snapshots or self.epochs or self.names)
