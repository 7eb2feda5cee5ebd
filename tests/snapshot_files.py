"""Snapshot files for tests, made in one piece; the product writes them piece by piece."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from jbodlab.metadata.image.image_writer import each_record
from jbodlab.metadata.image.metadata_image import MetadataImage
from jbodlab.metadata.log.snapshots import snapshot_bytes, snapshot_name
from jbodlab.metadata.records.frame import VersionedRecord


def image_records(image: MetadataImage) -> list[VersionedRecord]:
    """Return the records that make up an image."""
    return list(each_record(image))


def write_snapshot(
    directory: Path,
    records: Iterable[VersionedRecord],
    end_offset: int,
    epoch: int,
    timestamp_ms: int,
    *,
    created_ms: int = 1_000,
) -> Path:
    """Write the snapshot of a state that ends before `end_offset`."""
    path = directory / snapshot_name(end_offset, epoch)
    path.write_bytes(
        snapshot_bytes(records, epoch=epoch, timestamp_ms=timestamp_ms, created_ms=created_ms)
    )
    return path
