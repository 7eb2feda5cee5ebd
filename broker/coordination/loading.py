"""Reads the log of a coordinator into its state.

The log is read and reduced (`log_reduction`) on its directory's thread, in pieces, so that other
calls to that disk run in between. The remaining records are put in order and applied to the state
on the event loop, a limited number at a time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from functools import partial
from typing import Generic

from broker.bounds.limits import LOADED_AT_ONCE, LOADED_BYTES_AT_ONCE
from broker.coordination.core import Core, Record, RecordCodec
from broker.coordination.log_reduction import EncodedRecord, LogReduction
from broker.replica.log import PartitionLog, Slice
from broker.replica.partition import Partition
from jbodlab.vocabulary.errors import DecodeError, UnknownRecordTypeError

ROOM_LOOK_S = 0.1
"""Between two looks at whether a full disk has taken the end of the log."""

logger = logging.getLogger(__name__)


async def load(partition: Partition, core: Core[Record], codec: RecordCodec[Record]) -> int:
    """Fill the state of a shard with what is in its log by now; its replica leads.

    Returns:
        How many records were read.

    Raises:
        LogDirError: the directory failed.
        CorruptRecordError, DecodeError: the log cannot be understood.
    """
    log = partition.log
    assert log is not None
    high_watermark, end_offset = partition.high_watermark, log.end_offset
    reduction = await _read(log, LogReduction(high_watermark))
    while reduction.arrange():  # noqa: ASYNC110 - gives others a turn
        await asyncio.sleep(0)
    decoding = _Decoding(partition, codec)
    remaining = _in_order(reduction, high_watermark, end_offset)
    core.committed_up_to(high_watermark)
    for number, (raw, batch_end, producer_id) in enumerate(remaining, 1):
        is_plain = producer_id is None and batch_end <= high_watermark
        if not (is_plain and core.replay_bytes(raw.key, raw.value)):
            record = decoding.record(raw)
            if record is not None:
                core.replay(record, raw.offset, batch_end, producer_id)
        if number % LOADED_AT_ONCE == 0:
            # At the end of a long log all of it at once would block the event loop.
            core.committed_up_to(high_watermark)
            await asyncio.sleep(0)
    return reduction.record_count


def _in_order(
    reduction: LogReduction, high_watermark: int, end_offset: int
) -> Iterator[tuple[EncodedRecord, int, int | None]]:
    """Yield the remaining records of a log, with the ends of their batches and open producers."""
    for raw in reduction.records():
        yield raw, high_watermark, None
    for batch_end, batch in reduction.above:
        for raw in batch:
            yield raw, batch_end, None
    for producer_id, raw in reduction.open_records():
        yield raw, end_offset, producer_id


async def _read(log: PartitionLog, reduction: LogReduction) -> LogReduction:
    end_offset = log.end_offset
    offset = log.start_offset
    await log.written()
    while offset < end_offset:
        while log.written_end <= offset:  # noqa: ASYNC110 - once in the life of a full disk
            await asyncio.sleep(ROOM_LOOK_S)
        found = log.read(offset, LOADED_BYTES_AT_ONCE, log.written_end, at_least_one=True)
        data = b"".join(found.buffers) if isinstance(found, Slice) else await found
        next_offset = await log.log_dir.run(partial(reduction.take, data, offset))
        if next_offset == offset:
            raise DecodeError(
                f"cannot read the log at offset {offset}; it ends at offset {end_offset}"
            )
        offset = next_offset
    return reduction


class _Decoding(Generic[Record]):
    """Bytes to records; types that are not kept here are left out, and named once."""

    def __init__(self, partition: Partition, codec: RecordCodec[Record]) -> None:
        self._codec = codec
        self._topic_partition = partition.topic_partition
        self._left_out: set[int] = set()

    def record(self, raw: EncodedRecord) -> Record | None:
        """Return a record; None for one to be left out."""
        try:
            return self._codec.decode(raw.key, raw.value)
        except UnknownRecordTypeError as error:
            if error.record_type not in self._left_out:
                self._left_out.add(error.record_type)
                logger.warning(
                    "%s: ignoring records of unknown type %d",
                    self._topic_partition,
                    error.record_type,
                    extra=self._topic_partition._asdict(),
                )
            return None
        except DecodeError as error:
            raise DecodeError(f"record at offset {raw.offset}: {error}") from error
