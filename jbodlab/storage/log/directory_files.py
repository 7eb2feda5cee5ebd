"""Shared by the logs of one directory on its thread: open files, and indexes that were read.

Both are limited; the least recently used entries are dropped first. An open `.log` file costs a
descriptor, and a process has a limited number of them. The indexes of a closed segment cost two
entries for each `index.interval.bytes`, so a disk full of closed segments may need more memory than
the process has.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import NamedTuple

from jbodlab.storage.directory.filesystem import AppendFile
from jbodlab.storage.log.offset_index import ENTRY_SIZE as OFFSET_ENTRY_SIZE
from jbodlab.storage.log.offset_index import OffsetIndex
from jbodlab.storage.log.time_index import ENTRY_SIZE as TIME_ENTRY_SIZE
from jbodlab.storage.log.time_index import TimeIndex
from jbodlab.vocabulary.limits import INDEX_BYTES_MAX, OPEN_FILES_MAX

Key = tuple[Hashable, int]
"""Whose file it is, and the base offset of the segment."""


class SegmentIndexes(NamedTuple):
    """Both indexes of a closed segment; they are never changed."""

    offset_index: OffsetIndex
    time_index: TimeIndex

    @property
    def size_bytes(self) -> int:
        """Bytes that they have in memory."""
        return len(self.offset_index) * OFFSET_ENTRY_SIZE + len(self.time_index) * TIME_ENTRY_SIZE


class DirectoryFiles:
    """The caches of one directory; on its thread only.

    Args:
        open_files_max: Most `.log` files to keep open.
        index_bytes_max: Most bytes of indexes to keep; one segment's may be more.
    """

    def __init__(
        self, open_files_max: int = OPEN_FILES_MAX, index_bytes_max: int = INDEX_BYTES_MAX
    ) -> None:
        self._open_files_max = open_files_max
        self._index_bytes_max = index_bytes_max
        self._files: OrderedDict[Key, AppendFile] = OrderedDict()
        self._indexes: OrderedDict[Key, SegmentIndexes] = OrderedDict()
        self._known: dict[Hashable, set[int]] = {}
        """The segments of each log that have, or had, an open file or indexes here."""
        self.index_bytes = 0

    def file(self, key: Key, open_file: Callable[[], AppendFile]) -> AppendFile:
        """Return the open file of a segment; opened if it is not."""
        files = self._files
        found = files.get(key)
        if found is not None:
            files.move_to_end(key)
            return found
        found = files[key] = open_file()
        self._known.setdefault(key[0], set()).add(key[1])
        while len(files) > self._open_files_max:
            _, idle = files.popitem(last=False)
            idle.close()
        return found

    def close_idle(self) -> bool:
        """Close all open files but the most recently used; returns whether it closed any.

        The most recently used file may still be in use while another file is opened.
        """
        closed = False
        while len(self._files) > 1:
            _, idle = self._files.popitem(last=False)
            with contextlib.suppress(OSError):
                idle.close()
            closed = True
        return closed

    def indexes(self, key: Key, load: Callable[[], SegmentIndexes]) -> SegmentIndexes:
        """Return the indexes of a closed segment; read if they are not known."""
        found = self._indexes.get(key)
        if found is not None:
            self._indexes.move_to_end(key)
            return found
        found = load()
        self.put_indexes(key, found)
        return found

    def put_indexes(self, key: Key, indexes: SegmentIndexes) -> None:
        """Keep the indexes of a segment that was just closed, or read."""
        self.forget_indexes(key)
        self._indexes[key] = indexes
        self._known.setdefault(key[0], set()).add(key[1])
        self.index_bytes += indexes.size_bytes
        while self.index_bytes > self._index_bytes_max and len(self._indexes) > 1:
            _, idle = self._indexes.popitem(last=False)
            self.index_bytes -= idle.size_bytes

    def forget_indexes(self, key: Key) -> None:
        """Forget the indexes of a segment, because the segment has changed."""
        known = self._indexes.pop(key, None)
        if known is not None:
            self.index_bytes -= known.size_bytes

    def close_file(self, key: Key) -> None:
        """Close the file of a segment if it is open; an error of the close is ignored."""
        found = self._files.pop(key, None)
        if found is not None:
            # All written bytes are in the page cache; an error of close says nothing about them.
            with contextlib.suppress(OSError):
                found.close()

    def forget(self, key: Key) -> None:
        """Close the file of a segment and forget its indexes."""
        self.close_file(key)
        self.forget_indexes(key)

    def forget_all(self, owner: Hashable) -> None:
        """Close and forget all segments of a log."""
        for base_offset in self._known.pop(owner, ()):
            self.forget((owner, base_offset))
