"""The metadata as the controller's disk has them, read on from where the last look ended."""

from __future__ import annotations

import time
from pathlib import Path

from jbodlab.metadata.image.loader import MetadataLoader
from jbodlab.metadata.image.metadata_image import MetadataImage
from jbodlab.metadata.log.batches import decode_batch
from jbodlab.metadata.log.snapshots import read_latest
from jbodlab.record_batch.record_batch import iterate_headers
from jbodlab.vocabulary.errors import ReplayError

DEADLINE_S = 10.0
"""How long a log is tried again of which something is taken away in the middle of a look."""


class ControllersLog:
    """A reader of a log that somebody else writes.

    The log of a cluster that many scenes share has many thousand records, and waiting asks for the
    image ten times a second; so only what is new is replayed. A part that was read may be replaced
    all the same, by a snapshot or another disk, and is then read anew.

    Args:
        folder: The log's partition folder.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._loader = MetadataLoader()
        self._read: dict[tuple[str, int], int] = {}
        """Name and inode of each segment to the bytes of it that were replayed."""

    def image(self) -> MetadataImage:
        """Return the metadata of now, snapshots included.

        Raises:
            OSError: the log cannot be read.
            DecodeError: it is damaged.
            ReplayError: it contradicts itself.
        """
        end_s = time.monotonic() + DEADLINE_S
        while True:
            try:
                return self._look()
            except (FileNotFoundError, ReplayError):
                # A snapshot has taken the place of a segment in the middle of the look; a log with
                # tiny segments does that several times a second.
                self._read = {}
                if time.monotonic() > end_s:
                    raise

    def _look(self) -> MetadataImage:
        segments = {path: path.stat() for path in sorted(self._folder.glob("*.log"))}
        sizes = {(path.name, stat.st_ino): stat.st_size for path, stat in segments.items()}
        if not self._read or any(sizes.get(key, -1) < done for key, done in self._read.items()):
            self._begin()
        for path, stat in segments.items():
            self._read_on(path, (path.name, stat.st_ino))
        return self._loader.image

    def _begin(self) -> None:
        self._loader = MetadataLoader()
        self._read = {}
        snapshot = read_latest(self._folder)
        if snapshot is not None:
            self._loader.load_snapshot(
                snapshot.records, snapshot.end_offset, snapshot.epoch, snapshot.timestamp_ms
            )

    def _read_on(self, path: Path, key: tuple[str, int]) -> None:
        done = self._read.get(key, 0)
        with path.open("rb") as file:
            file.seek(done)
            data = file.read()
        for position, header in iterate_headers(data):
            self._loader.load(decode_batch(data, position, header))
            self._read[key] = done + position + header.size
        self._read.setdefault(key, done)
