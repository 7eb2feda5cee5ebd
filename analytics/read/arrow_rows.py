"""The rows of a split as Arrow batches.

Bytes go through in pieces of some thousand records, so that the arrays of one step stay in the
processor's cache. Batches that columns do not read (control batches, compressed ones, batches that
are not sound) and single records that they leave aside are decoded one by one and come as rows of
their own Arrow batch, with the problems.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped] # it comes without types

from analytics.read.arrays import Bools, Bytes, Longs, fixed, padded
from analytics.read.arrow_columns import slices
from analytics.read.batch_headers import Batches, crc_is_right
from analytics.read.batch_records import Records, find_records
from analytics.read.column_rows import Place, RowColumns
from analytics.read.layout import Layout, Split
from analytics.read.plain_rows import (
    SourceRow,
    crc_problem,
    decode_batch,
    decode_record,
    problem_row,
)
from analytics.read.typed_columns import PARTITION_CHANGE, STRUCTS, typed_value
from jbodlab.metadata.records.registry import RECORD_TYPES
from jbodlab.record_batch.record_batch import BatchRecord, read_header

PIECE_RECORDS = 1 << 17
"""Records whose boundaries are found together; a batch is never cut."""
DECODED_RECORDS = 1 << 16
"""Records that are decoded together."""
ROWS_PER_BATCH = 1 << 14
"""Rows of one Arrow batch."""

MIN_LONG, MAX_LONG = -(2**63), 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which records are wanted; others may be left out. Ends are exclusive.

    Attributes:
        replay_offset: Bounds of the offset that a replay sees the record at.
        replay_time_ms: Bounds of that moment, ms since 1970.
        offset: Bounds of the record's own offset.
        time_ms: Bounds of the record's own time.
        types: Names of record types; None for all.
        snapshot: Whether those of snapshots are, or the others; None for both.
    """

    replay_offset: tuple[int, int] = (MIN_LONG, MAX_LONG)
    replay_time_ms: tuple[int, int] = (MIN_LONG, MAX_LONG)
    offset: tuple[int, int] = (MIN_LONG, MAX_LONG)
    time_ms: tuple[int, int] = (MIN_LONG, MAX_LONG)
    types: frozenset[str] | None = None
    snapshot: bool | None = None

    def wants(self, row: SourceRow) -> bool:
        """Return whether a row is wanted; a problem always is."""
        if row.problem is not None or row.offset is None:
            return True
        time = None if row.timestamp is None else row.timestamp // 1000
        replay_time = None if row.replay_time is None else row.replay_time // 1000
        return (
            _inside(row.offset, self.offset)
            and _inside(time, self.time_ms)
            and _inside(row.replay_offset, self.replay_offset)
            and _inside(replay_time, self.replay_time_ms)
            and (self.types is None or row.type is None or row.type in self.types)
        )


ALL = Selection()


def _inside(value: int | None, bounds: tuple[int, int]) -> bool:
    if value is None:
        return bounds == (MIN_LONG, MAX_LONG)
    return bounds[0] <= value < bounds[1]


def decode_batches(
    raw: bytes,
    batches: Batches,
    split: Split,
    schema: pa.Schema,
    *,
    with_payload: bool = True,
    selection: Selection = ALL,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of batches.

    Args:
        raw: The bytes of the split, its positions counting from `split.start`.
        batches: Whole batches in it; their CRCs are checked here.
        split: Where they lie.
        schema: The columns that are wanted, among those of the data source.
        with_payload: Whether the JSON text of records is wanted; without, it is null.
        selection: Which records are wanted.
    """
    decoder = _Decoder(raw, split, schema, with_payload, selection)
    right = crc_is_right(raw, batches)
    for index in np.nonzero(~right)[0].tolist():
        position, base_offset = int(batches.position[index]), int(batches.base_offset[index])
        decoder.rows.append(crc_problem(split, position, base_offset))
    if decoder.rows:
        batches = batches.select(right)
    ends = np.cumsum(batches.records_count)
    start = 0
    while start < len(batches):
        before = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + PIECE_RECORDS, side="right")))
        yield from decoder.decode(batches.select(slice(start, stop)))
        start = stop
    yield from decoder.flush()


class _Decoder:
    """Decodes pieces of a split; `rows` are those that are not decoded by columns."""

    def __init__(
        self, raw: bytes, split: Split, schema: pa.Schema, with_payload: bool, selection: Selection
    ) -> None:
        self.raw = raw
        self.data: Bytes = padded(np.frombuffer(raw, dtype=np.uint8))
        self.split = split
        self.schema = schema
        self.with_payload = with_payload and "payload" in schema.names
        self.with_changes = PARTITION_CHANGE in schema.names
        self.selection = selection
        self.rows: list[SourceRow] = []
        snapshot = split.snapshot
        self.place = Place(
            split.file,
            split.source,
            split.cluster,
            split.start,
            None if snapshot is None else snapshot.end_offset,
            None if snapshot is None else snapshot.timestamp_ms,
        )

    def decode(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Yield the rows of some batches."""
        records, odd = find_records(self.raw, self.data, batches)
        for index in np.nonzero(odd)[0].tolist():
            self._decode_plain(int(batches.position[index]))
        records = self._select(records)
        for part in slices(len(records), DECODED_RECORDS):
            decoded = self._arrow(batches, records.select(part))
            for rows in slices(len(decoded), ROWS_PER_BATCH):
                yield decoded[rows]
        if len(self.rows) >= ROWS_PER_BATCH:
            yield from self.flush()

    def flush(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows that were decoded one by one."""
        wanted = [row for row in self.rows if self.selection.wants(row)]
        self.rows = []
        for part in slices(len(wanted), ROWS_PER_BATCH):
            yield arrow_rows(wanted[part], self.schema, with_payload=self.with_payload)

    def _arrow(self, batches: Batches, records: Records) -> pa.RecordBatch:
        made = RowColumns(
            self.raw,
            self.data,
            batches,
            records,
            self.place,
            with_payload=self.with_payload,
            with_changes=self.with_changes,
        )
        found = []
        for index in made.alone.tolist():
            row, *problems = self._decode_alone(batches, records, index)
            found.append(row)
            self.rows += problems
        made.found = found
        return pa.RecordBatch.from_arrays(
            [made.column(name) for name in self.schema.names], schema=self.schema
        )

    def _decode_alone(self, batches: Batches, records: Records, index: int) -> list[SourceRow]:
        start, size = int(records.start[index]), int(records.size[index])
        position = int(batches.position[records.batch[index]])
        record = BatchRecord(
            offset=int(records.offset[index]),
            timestamp=int(records.timestamp[index]),
            key=None,
            value=None if size < 0 else self.raw[start : start + size],
        )
        return list(decode_record(record, position, read_header(self.raw, position), self.split))

    def _decode_plain(self, position: int) -> None:
        header = read_header(self.raw, position)
        self.rows += decode_batch(self.raw, position, header, self.split)

    def _select(self, records: Records) -> Records:
        chosen = self.selection
        if chosen is ALL:
            return records
        snapshot = self.split.snapshot
        wanted: Bools = np.ones(len(records), dtype=np.bool_)
        own = [(records.offset, chosen.offset), (records.timestamp, chosen.time_ms)]
        if snapshot is None:
            own += [
                (records.offset, chosen.replay_offset),
                (records.timestamp, chosen.replay_time_ms),
            ]
        elif not (
            _inside(snapshot.end_offset, chosen.replay_offset)
            and _inside(snapshot.timestamp_ms, chosen.replay_time_ms)
        ):
            wanted[:] = False
        for values, bounds in own:
            wanted &= _between(values, bounds)
        if chosen.types is not None:
            number = fixed(self.data, records.start + 1, "u1")
            names = np.ones(256, dtype=np.bool_)  # what is not known is not judged here
            for key, record_class in RECORD_TYPES.items():
                names[key] = record_class.NAME in chosen.types
            wanted &= names[number]
        return records if wanted.all() else records.select(np.nonzero(wanted)[0])


def _between(values: Longs, bounds: tuple[int, int]) -> Bools:
    inside: Bools = (values >= bounds[0]) & (values < bounds[1])
    return inside


def arrow_rows(
    rows: Sequence[SourceRow], schema: pa.Schema, *, with_payload: bool = True
) -> pa.RecordBatch:
    """Return rows as one Arrow batch."""
    columns = []
    for column in schema:
        value: Callable[[SourceRow], object] = _getter(column.name)
        if column.name == "payload" and not with_payload:
            columns.append(pa.nulls(len(rows), column.type))
        else:
            columns.append(pa.array([value(row) for row in rows], type=column.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def problem_rows(layout: Layout, cluster: str | None, schema: pa.Schema) -> pa.RecordBatch:
    """Return the problems of a log's files, which its splits do not have, as one Arrow batch."""
    rows = [problem_row(problem, layout.source, cluster) for problem in layout.problems]
    return arrow_rows(rows, schema)


def _getter(name: str) -> Callable[[SourceRow], object]:
    if name in STRUCTS:
        return lambda row: None if row.problem or row.control else typed_value(name, row.value)
    return attrgetter(name)
