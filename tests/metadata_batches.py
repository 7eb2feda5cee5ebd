"""Batches of metadata records, as a controller writes them."""

from __future__ import annotations

from collections.abc import Sequence

from jbodlab.metadata.records import frame
from jbodlab.metadata.records.frame import VersionedRecord
from jbodlab.record_batch.record_batch import build_batch


def data_batch(
    records: Sequence[VersionedRecord], *, base_offset: int, epoch: int, timestamp_ms: int
) -> bytes:
    """Return one batch of data records."""
    return build_batch(
        [(None, frame.encode(record, version)) for record, version in records],
        base_offset=base_offset,
        leader_epoch=epoch,
        timestamp_ms=timestamp_ms,
    )
