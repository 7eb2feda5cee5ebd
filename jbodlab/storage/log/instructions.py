"""Instructions of `LogState` for the files of its log: plain values, carried out in their order.

An instruction names segments by base offset and files by file name; positions and sizes are in
bytes. `carry_out` executes instructions and decides nothing. No instruction makes a file durable: a
`SyncRequest` names the files to sync, and may be carried out beside all others.
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
    """Truncate a segment to this size; known positions in it become invalid."""

    base_offset: int
    size: int


class CloseSegment(NamedTuple):
    """Write the index files of a segment that takes no more appends."""

    base_offset: int
    offset_index: OffsetIndex
    time_index: TimeIndex


class SetAside(NamedTuple):
    """Rename the files of a segment to `.deleted`; open files can still be read."""

    base_offset: int


class ReplaceSegments(NamedTuple):
    """Replace former segments by cleaned ones, whose files end with `.swap`.

    Attributes:
        aborted_counts: Offset of the snapshot behind each cleaned segment, and the number of
            transactions in the segment's index of aborted ones.
    """

    former: tuple[int, ...]
    cleaned: tuple[int, ...]
    aborted_counts: tuple[tuple[int, int], ...]


class WriteSnapshot(NamedTuple):
    """Write the producer state as of an offset.

    Attributes:
        aborted_count: Number of transactions that were aborted in the segment that ends here.
    """

    offset: int
    producers: ProducerState
    aborted_count: int


class RemoveSnapshots(NamedTuple):
    """Remove the snapshots of these offsets."""

    offsets: tuple[int, ...]


class WriteEpochs(NamedTuple):
    """Replace the leader epochs: epoch and start offset of each entry."""

    entries: tuple[tuple[int, int], ...]


class WriteAborted(NamedTuple):
    """Replace a segment's index of aborted transactions; without entries the file is removed."""

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
        indexed: Base offsets of the segments whose index files have to be synced as well: closed
            ones, and the active one if transactions were aborted in it.
        snapshots: Offsets of producer snapshots.
        epochs: Whether the file with the leader epochs has to be synced.
        names: Whether the names in the partition directory, and its own, have to be synced.
        metadata: Whether `partition.metadata` has to be synced; only together with the names.
        cut_count: How often the log had been cut when the request was made.
    """

    segments: tuple[tuple[int, int], ...]
    indexed: tuple[int, ...]
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
