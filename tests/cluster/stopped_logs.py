"""Records of brokers that died later, appended to the logs of stopped ones."""

from __future__ import annotations

import time
from pathlib import Path

from jbodlab.record_batch.record_batch import build_batch, iterate_headers
from jbodlab.storage.directory.names import CLEAN_SHUTDOWN_FILE


def log_of(root: Path, topic: str, partition: int = 0) -> Path:
    """Return the one segment of the one replica of a partition."""
    (found,) = root.glob(f"broker-*/disk-*/data/{topic}-{partition}/*.log")
    return found


def append(
    root: Path,
    topic: str,
    record: tuple[bytes | None, bytes | None],
    *,
    partition: int = 0,
    timestamp_ms: int | None = None,
    **fields: int,
) -> int:
    """Append a batch with one record, as the last leader; its broker did not stop in order.

    Args:
        root: The folder of the cluster.
        topic: Of the partition, whose log is not empty.
        record: Key and value.
        partition: Its number.
        timestamp_ms: Of the batch; None for now.
        fields: Further ones, as `build_batch` takes them.

    Returns:
        The offset of the record.
    """
    log = log_of(root, topic, partition)
    *_, (_, last) = iterate_headers(log.read_bytes())
    batch = build_batch(
        [record],
        base_offset=last.next_offset,
        leader_epoch=last.partition_leader_epoch,
        timestamp_ms=int(time.time() * 1000) if timestamp_ms is None else timestamp_ms,
        **fields,
    )
    with log.open("ab") as file:
        file.write(batch)
    (log.parents[1] / CLEAN_SHUTDOWN_FILE).unlink(missing_ok=True)
    return last.next_offset
