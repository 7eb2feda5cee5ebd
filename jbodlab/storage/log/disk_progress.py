"""The part of a log that is known to be on the disk, and the syncs that extend it."""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence

from jbodlab.storage.log.instructions import (
    Instructions,
    RemoveSnapshots,
    SyncRequest,
    WriteSnapshot,
)
from jbodlab.storage.log.producer_state import ProducerState
from jbodlab.storage.log.segment_list import SegmentList


class DiskProgress:
    """The recovery point, the snapshots, and the files written since the last sync.

    Args:
        recovery_point: All records below this offset are known to be on the disk.
        snapshots: Offsets of the producer snapshots.
        names_unsynced: Whether names in the partition directory may not be on the disk.
    """

    __slots__ = (
        "_cuts_ahead",
        "_unsynced_snapshots",
        "cleaned_to",
        "cut_count",
        "epochs_unsynced",
        "metadata_unsynced",
        "names_unsynced",
        "recovery_point",
        "snapshots",
    )

    def __init__(
        self, recovery_point: int, snapshots: Sequence[int] = (), *, names_unsynced: bool = True
    ) -> None:
        self.recovery_point = recovery_point
        self.snapshots = sorted(snapshots)
        self.cut_count = 0
        """How often a truncation or a compaction has changed the bytes at a known position."""
        self.cleaned_to: int | None = None
        """Below it the log was compacted. None: it never was, and no offsets are missing in it."""
        self.epochs_unsynced = False
        self.names_unsynced = names_unsynced
        self.metadata_unsynced = names_unsynced
        """Whether `partition.metadata`, which is written once, may not be on the disk."""
        self._cuts_ahead: list[int] = []
        """Offsets of pending cuts; several if the role changes in the middle of a cut."""
        self._unsynced_snapshots: set[int] = set()

    def snapshot(self, offset: int, producers: ProducerState, aborted_count: int) -> Instructions:
        """Return the write of a snapshot at an offset; empty if it or a later one exists."""
        if self.snapshots and offset <= self.snapshots[-1]:
            return ()
        insort(self.snapshots, offset)
        self._unsynced_snapshots.add(offset)
        return (WriteSnapshot(offset, producers.copy(), aborted_count),)

    def remove_snapshots(self, offsets: Sequence[int]) -> Instructions:
        """Return the removal of the snapshots at some offsets, as far as they exist."""
        removed = tuple(offset for offset in self.snapshots if offset in set(offsets))
        if not removed:
            return ()
        self.snapshots = [offset for offset in self.snapshots if offset not in set(removed)]
        self._unsynced_snapshots.difference_update(removed)
        return (RemoveSnapshots(removed),)

    def snapshots_above(self, offset: int) -> list[int]:
        """Return the offsets of later snapshots."""
        return [each for each in self.snapshots if each > offset]

    def will_be_cut(self, offset: int) -> None:
        """Keep checkpoints from naming an offset above this one, until `cut_is_over`."""
        self._cuts_ahead.append(offset)

    def cut_is_over(self, offset: int) -> None:
        """Record that a cut was made or cancelled."""
        self._cuts_ahead.remove(offset)

    def below_cut(self, offset: int) -> int:
        """Return the offset that a checkpoint may name instead of the given one."""
        return min(offset, *self._cuts_ahead) if self._cuts_ahead else offset

    def was_cut(self, end_offset: int) -> None:
        """Record that the log was truncated to an offset."""
        self.cut_count += 1
        self.recovery_point = min(self.recovery_point, end_offset)
        if self.cleaned_to is not None:
            self.cleaned_to = min(self.cleaned_to, end_offset)
        self.names_unsynced = True

    def was_replaced(self) -> None:
        """Record that compaction has replaced some segments."""
        self.cut_count += 1
        self.names_unsynced = True

    def may_have_gaps(self, start_offset: int) -> None:
        """Record that the log, which begins at an offset, lacks offsets."""
        if self.cleaned_to is None:
            self.cleaned_to = start_offset

    def request(self, segments: SegmentList, *, with_active: bool) -> SyncRequest:
        """Return the files to sync; see `LogState.sync_request`."""
        active = segments.active
        unsynced, indexed = [], []
        if self.recovery_point < active.base_offset:
            for each in segments.from_offset(self.recovery_point):
                unsynced.append((each.base_offset, each.size))
                indexed.append(each.base_offset)
        if with_active and self.recovery_point < active.next_offset:
            unsynced.append((active.base_offset, active.size))
            if active.aborted:
                indexed.append(active.base_offset)
        request = SyncRequest(
            segments=tuple(unsynced),
            indexed=tuple(indexed),
            snapshots=tuple(sorted(self._unsynced_snapshots)) if self._unsynced_snapshots else (),
            epochs=self.epochs_unsynced,
            names=self.names_unsynced,
            metadata=self.metadata_unsynced,
            end_offset=active.next_offset if with_active else active.base_offset,
            cut_count=self.cut_count,
        )
        # The next request covers all changes from here on.
        self._unsynced_snapshots = set()
        self.epochs_unsynced = self.names_unsynced = self.metadata_unsynced = False
        return request

    def synced(self, request: SyncRequest, end_offset: int) -> None:
        """Record that a request was carried out; the log now ends at an offset."""
        if request.cut_count == self.cut_count:
            self.recovery_point = max(self.recovery_point, min(request.end_offset, end_offset))
        else:
            # A cut may have replaced the synced bytes; the next request names these files again.
            self.not_synced(request)

    def not_synced(self, request: SyncRequest) -> None:
        """Record that a request was cancelled."""
        self._unsynced_snapshots |= set(request.snapshots) & set(self.snapshots)
        self.epochs_unsynced |= request.epochs
        self.names_unsynced |= request.names
        self.metadata_unsynced |= request.metadata

    def copy_is_on_disk(self, copied_to: int, end_offset: int) -> None:
        """Record that all copied records below an offset are on the disk, file names included."""
        self._unsynced_snapshots = {each for each in self._unsynced_snapshots if each >= copied_to}
        self.recovery_point = max(self.recovery_point, min(copied_to, end_offset))

    def moved_to(self, copy: DiskProgress) -> None:
        """Record that the log has switched to the files of a copy, which knows its own syncs."""
        self.recovery_point = min(self.recovery_point, copy.recovery_point)
        self.snapshots = list(copy.snapshots)
        self._unsynced_snapshots = set(copy.snapshots)
        self.epochs_unsynced = self.names_unsynced = self.metadata_unsynced = True
