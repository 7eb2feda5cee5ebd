"""Leader epochs of one log: the start offset of each epoch.

Entries are (epoch, start offset), both strictly increasing. From them a follower learns where its
log diverges from its leader's, after KIP-101 and KIP-279. The file `leader-epoch-checkpoint` has
the frame of `checkpoints` with lines `epoch startOffset`.

A stale file after a crash does no harm: the load cuts the entries to the offsets of the log.

Source: `org.apache.kafka.storage.internals.epoch.LeaderEpochFileCache`.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import zip_longest
from pathlib import Path

from jbodlab.storage.directory.checkpoints import parse_numbers
from jbodlab.storage.directory.filesystem import FileSystem

UNDEFINED = (-1, -1)
"""Epoch and end offset of an unknown epoch."""


class LeaderEpochs:
    """The entries in memory; writing them is the owner's business."""

    __slots__ = ("_entries",)

    def __init__(self, entries: Iterable[tuple[int, int]] = ()) -> None:
        self._entries: list[tuple[int, int]] = []
        for epoch, start_offset in entries:
            self.assign(epoch, start_offset)

    @property
    def entries(self) -> tuple[tuple[int, int], ...]:
        """Epoch and start offset of each entry, ascending."""
        return tuple(self._entries)

    @property
    def latest_epoch(self) -> int:
        """The newest epoch, -1 without entries."""
        return self._entries[-1][0] if self._entries else -1

    @property
    def last_start(self) -> int:
        """Where the newest epoch begins, -1 without entries."""
        return self._entries[-1][1] if self._entries else -1

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Begin an epoch at an offset; later entries that contradict it are removed.

        Returns:
            Whether any entry changed; an epoch that is already the newest keeps its start.
        """
        assert epoch >= 0
        assert start_offset >= 0
        entries = self._entries
        if entries and entries[-1][0] == epoch and entries[-1][1] <= start_offset:
            return False
        while entries and (entries[-1][0] >= epoch or entries[-1][1] >= start_offset):
            entries.pop()
        entries.append((epoch, start_offset))
        return True

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """Return the end offset of an epoch in this log (OffsetForLeaderEpoch).

        Returns:
            The largest known epoch not above the requested one, and the offset behind its last
            record. If only larger epochs are known: the requested epoch and the start offset of
            the first larger one. (-1, -1) if no larger epoch is known and the requested one is not
            the newest.
        """
        if not self._entries or epoch < 0:
            return UNDEFINED
        if epoch == self._entries[-1][0]:
            return epoch, log_end_offset
        floor = -1
        for known, start_offset in self._entries:
            if known > epoch:
                return (epoch if floor < 0 else floor), start_offset
            floor = known
        return UNDEFINED

    def epoch_for(self, offset: int) -> int:
        """Return the epoch in which an offset was written, -1 if unknown."""
        for epoch, start_offset in reversed(self._entries):
            if start_offset <= offset:
                return epoch
        return -1

    def truncate_to(self, end_offset: int) -> bool:
        """Drop the entries that begin at or behind a new log end; returns whether any changed."""
        before = len(self._entries)
        while self._entries and self._entries[-1][1] >= end_offset:
            self._entries.pop()
        return len(self._entries) != before

    def truncate_from(self, start_offset: int) -> bool:
        """Drop the entries that end at or before a new log start; returns whether any changed.

        The epoch that contains the new log start is kept, with the log start as its start offset.
        """
        keep = [entry for entry in self._entries if entry[1] > start_offset]
        if len(keep) < len(self._entries):
            keep.insert(0, (self._entries[len(self._entries) - len(keep) - 1][0], start_offset))
        changed = keep != self._entries
        self._entries = keep
        return changed

    def common_end(self, other: LeaderEpochs, limit: int) -> int:
        """Return up to where two logs hold the same batches, by their epochs.

        Args:
            other: The entries of the other log, which like this one begins at the larger of both
                log starts; see `truncate_from`.
            limit: End of the shorter log.
        """
        for mine, theirs in zip_longest(self._entries, other._entries):
            if mine != theirs:
                return min(limit, *(entry[1] for entry in (mine, theirs) if entry is not None))
        return limit

    def clear(self) -> bool:
        """Drop all entries; returns whether there were any."""
        changed = bool(self._entries)
        self._entries = []
        return changed

    def copy(self) -> LeaderEpochs:
        """Return an independent copy."""
        return LeaderEpochs(self._entries)


def read_leader_epochs(fs: FileSystem, path: Path) -> LeaderEpochs:
    """Read a `leader-epoch-checkpoint`; a missing file has no entries.

    Raises:
        CorruptRecordError: malformed; to be treated as an I/O error of the directory.
    """
    try:
        data = fs.read_bytes(path)
    except FileNotFoundError:
        return LeaderEpochs()
    return LeaderEpochs((e, s) for e, s in parse_numbers(path, data) if e >= 0 and s >= 0)
