"""Records as rows of the data source, by columns.

The records of one type and version are decoded together; what they say goes to their places in
columns of all rows. A row that the columns leave aside is decoded alone, by `read.plain_rows`,
which defines what a row is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa  # type: ignore[import-untyped] # it comes without types
import pyarrow.compute as pc  # type: ignore[import-untyped]

from analytics.read.arrays import Bools, Bytes, Column, Longs, fixed
from analytics.read.arrow_columns import constant, longs, nulls, times_of_ms
from analytics.read.batch_headers import Batches
from analytics.read.batch_records import Records
from analytics.read.payloads import Columns, Payloads, has_payload, payload_parts
from analytics.read.plain_rows import SourceRow
from analytics.read.record_columns import Lists, decode_columns, reads
from analytics.read.texts import joined, strings, taken
from analytics.read.typed_columns import (
    PARTITION_CHANGE,
    STRUCTS,
    TypedPart,
    partition_changes,
    typed_value,
    wanted_types,
)
from jbodlab.metadata.records.cluster_records import FenceBrokerRecord, UnfenceBrokerRecord
from jbodlab.metadata.records.config_records import TOPIC_RESOURCE, ConfigRecord
from jbodlab.metadata.records.frame import FRAME_VERSION
from jbodlab.metadata.records.registry import RECORD_TYPES
from jbodlab.metadata.records.schema import Record

_CHANGES = wanted_types(PARTITION_CHANGE)

ENVELOPE_BYTES = 3
"""Frame version, type and version, each below 128."""


@dataclass(frozen=True, slots=True)
class Place:
    """Fields that all rows of a split share; times are ms since 1970."""

    file: str
    source: str
    cluster: str | None
    start: int
    """Position of the data in the file."""
    replay_offset: int | None = None
    """End offset of the snapshot that the file is; None for a segment."""
    replay_time: int | None = None


class _Key(NamedTuple):
    """A key of all rows, and which of them have it."""

    values: npt.NDArray[np.int32]
    present: Bools

    def put(self, rows: Longs, values: Column) -> None:
        self.values[rows] = values
        self.present[rows] = True


class _Keys:
    """Keys of records: columns of all rows; topic ids by their places among the texts."""

    def __init__(self, size: int) -> None:
        self.numbers = {
            name: _Key(np.zeros(size, dtype=np.int32), np.zeros(size, dtype=np.bool_))
            for name in ("topic_id", "partition", "broker")
        }
        self.topics: list[tuple[Longs, pa.Array]] = []
        """Rows that name a topic, and the names."""


class RowColumns:
    """The columns of some records, made one after the other as they are asked for."""

    def __init__(
        self,
        raw: bytes,
        data: Bytes,
        batches: Batches,
        records: Records,
        place: Place,
        *,
        with_payload: bool,
        with_changes: bool = False,
    ) -> None:
        self.raw = raw
        self.data = data
        self.batches = batches
        self.records = records
        self.place = place
        self.size = len(records)
        self.with_payload = with_payload
        self.with_changes = with_changes
        self.found: list[SourceRow] = []
        """Rows that the plain decoder makes of those in `alone`; columns are made from them."""
        self.types: Longs = np.zeros(0, dtype=np.int64)
        self.alone: Longs = np.zeros(0, dtype=np.int64)
        """Rows that the plain decoder has to look at."""
        self.keys = _Keys(self.size)
        self.id_texts: list[pa.Array] = []
        self.id_count = 0
        self.payloads = Payloads(self.size)
        self.changes: list[TypedPart] = []
        self._decode()

    def _decode(self) -> None:
        """Decode group by group: the records of one type and version."""
        start, size = self.records.start, self.records.size
        envelope = fixed(self.data, start, ">u4")
        kind = (envelope >> 8 & 0xFFFF).astype(np.uint16)
        odd = (envelope >> 24 != FRAME_VERSION) | (kind & 0x8080 != 0) | (size < ENVELOPE_BYTES)
        self.types = kind.astype(np.int64)
        alone = odd.copy()
        order = np.argsort(kind, kind="stable")
        ordered = kind[order]
        cuts = np.nonzero(ordered[1:] != ordered[:-1])[0] + 1
        for rows in np.split(order, cuts):
            if not len(rows):
                continue
            type_number, version = divmod(int(kind[rows[0]]), 256)
            record_class = RECORD_TYPES.get(type_number)
            if record_class is None or not reads(record_class, version):
                alone[rows] = True
                continue
            if odd.any():
                rows = rows[~odd[rows]]
            self._decode_group(record_class, version, rows, alone)
        self.alone = np.nonzero(alone)[0]
        self.types[self.alone] = -1

    def _decode_group(
        self, record_class: type[Record], version: int, rows: Longs, alone: Bools
    ) -> None:
        whole = len(rows) == self.size
        start = self.records.start if whole else self.records.start[rows]
        size = self.records.size if whole else self.records.size[rows]
        decoded = decode_columns(
            record_class, version, self.data, start + ENVELOPE_BYTES, start + size
        )
        columns = Columns(decoded)
        left = decoded.plain
        if self.with_payload:
            if has_payload(record_class, version):
                parts, escaped = payload_parts(
                    record_class, version, columns, self.payloads.dictionary
                )
                self.payloads.add(rows, parts)
                if escaped is not None:
                    left = left | escaped
            else:
                left = np.ones_like(left)
        if left.any():
            alone[rows[left]] = True
        if self.with_changes and record_class.API_KEY in _CHANGES:
            self.changes.append(TypedPart(rows, partition_changes(record_class, decoded)))
        self._take_keys(record_class, rows, columns)

    def _take_keys(self, record_class: type[Record], rows: Longs, columns: Columns) -> None:
        """Take what `read.plain_rows.keys_of` takes from one record."""
        fields = columns.decoded.fields
        keys = self.keys.numbers
        if "topic_id" in fields:
            codes, texts = columns.ids("topic_id")
            keys["topic_id"].put(rows, codes + self.id_count)
            self.id_texts.append(texts)
            self.id_count += len(texts)
        if "partition_id" in fields:
            keys["partition"].put(rows, fields["partition_id"].values)
        is_fence = record_class in (FenceBrokerRecord, UnfenceBrokerRecord)
        broker = "id" if is_fence else "broker_id"
        if broker in fields:
            keys["broker"].put(rows, fields[broker].values)
        self._take_topics(record_class, rows, columns)

    def _take_topics(self, record_class: type[Record], rows: Longs, columns: Columns) -> None:
        fields = columns.decoded.fields
        if record_class is ConfigRecord:
            is_topic = fields["resource_type"].values == TOPIC_RESOURCE
            names = fields["resource_name"]
        elif record_class.NAME in ("TOPIC_RECORD", "CLEAR_ELR_RECORD"):
            names = fields["name" if "name" in fields else "topic_name"]
            is_topic = None
        else:
            return
        assert isinstance(names, Lists)
        texts = strings(names.offsets, names.values)
        if is_topic is not None:
            chosen = np.nonzero(is_topic)[0]
            rows, texts = rows[chosen], texts.take(pa.array(chosen))
        self.keys.topics.append((rows, texts))

    def column(self, name: str) -> pa.Array:
        """Return one column of the data source."""
        return self._typed(name) if name in STRUCTS else _COLUMNS[name](self)

    def _of_batch(self, values: Column) -> pa.Array:
        """Return what each record's batch has."""
        return pa.array(values[self.records.batch])

    def _replayed(self, times: int, more: int) -> Longs:
        """Return a multiple of the offset of the replay, and something more for the log."""
        if self.place.replay_offset is None:
            return times * self.records.offset + more
        return np.full(self.size, times * self.place.replay_offset, dtype=np.int64)

    def _replay_times(self) -> pa.Array:
        """Return the time of each record, or that of the snapshot."""
        time = self.place.replay_time
        own = self.records.timestamp
        return times_of_ms(own if time is None else np.full(self.size, time, dtype=np.int64))

    def _typed(self, name: str) -> pa.Array:
        """Return what the records of some types say; few but those about partitions are many."""
        kind = STRUCTS[name]
        parts = list(self.changes) if name == PARTITION_CHANGE else []
        if not parts:
            wanted = np.isin(self.types >> 8, wanted_types(name)) & (self.types >= 0)
            rows = np.nonzero(wanted)[0]
            parts = [TypedPart(rows, self._decoded(name, rows))]
        own = [None if row.problem else typed_value(name, row.value) for row in self.found]
        parts.append(TypedPart(self.alone, pa.array(own, type=kind)))
        parts = [part for part in parts if len(part.rows)]
        if not parts:
            return nulls(self.size, kind)
        if len(parts) == 1 and len(parts[0].rows) == self.size:
            return parts[0].structs
        places = np.full(self.size, -1, dtype=np.int32)
        count = 0
        for part in parts:
            places[part.rows] = np.arange(count, count + len(part.rows), dtype=np.int32)
            count += len(part.rows)
        found = pa.concat_arrays([part.structs for part in parts])
        return pc.take(found, pa.array(places, mask=places < 0))

    def _decoded(self, name: str, rows: Longs) -> pa.Array:
        starts, sizes = self.records.start[rows].tolist(), self.records.size[rows].tolist()
        values = [self.raw[at : at + size] for at, size in zip(starts, sizes, strict=True)]
        return pa.array([typed_value(name, value) for value in values], type=STRUCTS[name])

    def _key(self, name: str) -> pa.Array:
        key = self.keys.numbers[name]
        return self._numbers(key.values, key.present, [getattr(row, name) for row in self.found])

    def _types(self) -> pa.Array:
        numbers = self.types >> 8
        names, places = _type_names()
        codes = places[numbers]  # -1 finds the last one, which is the one for no type
        if not len(self.alone):
            return taken(names, pa.array(codes))
        own = [row.type for row in self.found]
        return self._with_alone(names, codes, own)

    def _versions(self) -> pa.Array:
        values = (self.types & 0xFF).astype(np.int32)
        return self._numbers(values, None, [row.version for row in self.found])

    def _topics(self) -> pa.Array:
        if not self.keys.topics and not any(row.topic is not None for row in self.found):
            return nulls(self.size, pa.string())
        codes = np.full(self.size, -1, dtype=np.int32)
        count = 0
        texts = [pa.array([], type=pa.string())]
        for rows, names in self.keys.topics:
            codes[rows] = np.arange(count, count + len(rows), dtype=np.int32)
            count += len(rows)
            texts.append(names)
        return self._with_alone(pa.concat_arrays(texts), codes, [row.topic for row in self.found])

    def _topic_ids(self) -> pa.Array:
        texts = pa.concat_arrays([pa.array([], type=pa.string()), *self.id_texts])
        codes, present = self.keys.numbers["topic_id"]
        if present.all() and not len(self.alone):
            return taken(texts, pa.array(codes))
        codes = np.where(present, codes, np.int32(-1))
        return self._with_alone(texts, codes, [row.topic_id for row in self.found])

    def _payloads(self) -> pa.Array:
        if not self.with_payload:
            return nulls(self.size, pa.string())
        own = [row.payload for row in self.found]
        given = pa.array([text or "" for text in own], pa.string())
        pieces, offsets = self.payloads.pieces(self.alone, given)
        missing = None
        if None in own:
            missing = np.zeros(self.size, dtype=np.bool_)
            missing[self.alone] = [text is None for text in own]
        return joined(self.payloads.dictionary.take(pieces), offsets, missing)

    def _values(self) -> pa.Array:
        """Return the values: every second slice of the data, the others lie between them."""
        bounds = np.empty(2 * self.size, dtype=np.int32)
        bounds[0::2] = self.records.start
        bounds[1::2] = self.records.start + np.maximum(self.records.size, 0)
        slices = pa.BinaryArray.from_buffers(
            pa.binary(), 2 * self.size - 1, [None, pa.py_buffer(bounds), pa.py_buffer(self.raw)]
        )
        chosen = np.arange(0, 2 * self.size, 2, dtype=np.int32)
        null = self.records.size < 0
        if null.any():
            return taken(slices, pa.array(chosen, mask=null))
        return taken(slices, pa.array(chosen))

    # How columns become Arrow arrays.

    def _numbers(
        self, values: npt.NDArray[np.int32], present: Bools | None, own: list[int | None]
    ) -> pa.Array:
        if not len(self.alone):
            return longs(values, None if present is None else ~present)
        present = np.ones(self.size, dtype=np.bool_) if present is None else present.copy()
        values = values.copy()
        values[self.alone] = [number or 0 for number in own]
        present[self.alone] = [number is not None for number in own]
        return pa.array(values, mask=~present)

    def _with_alone(
        self, texts: pa.Array, codes: npt.NDArray[np.int32], own: list[str | None]
    ) -> pa.Array:
        """Take texts by codes, -1 being null, and those of the rows decoded alone."""
        if len(self.alone):
            codes = codes.copy()
            codes[self.alone] = np.arange(len(texts), len(texts) + len(own), dtype=np.int32)
            texts = pa.concat_arrays([texts, pa.array(own, type=pa.string())])
        missing = codes < 0
        if not missing.any():
            return taken(texts, pa.array(codes))
        return taken(texts, pa.array(codes, mask=missing))


_COLUMNS: Mapping[str, Callable[[RowColumns], pa.Array]] = {
    "file": lambda rows: constant(rows.place.file, rows.size),
    "source": lambda rows: constant(rows.place.source, rows.size),
    "cluster": lambda rows: constant(pa.scalar(rows.place.cluster, pa.string()), rows.size),
    "position": lambda rows: rows._of_batch(rows.batches.position + rows.place.start),
    "epoch": lambda rows: rows._of_batch(rows.batches.epoch.astype(np.int32)),
    "batch_base_offset": lambda rows: rows._of_batch(rows.batches.base_offset),
    "batch_last_offset": lambda rows: rows._of_batch(rows.batches.last_offset),
    "snapshot": lambda rows: constant(rows.place.replay_offset is not None, rows.size),
    "control": lambda rows: constant(False, rows.size),
    "problem": lambda rows: nulls(rows.size, pa.string()),
    "message": lambda rows: nulls(rows.size, pa.string()),
    "offset": lambda rows: longs(rows.records.offset),
    "timestamp": lambda rows: times_of_ms(rows.records.timestamp),
    "replay_offset": lambda rows: longs(rows._replayed(1, 0)),
    "replay_position": lambda rows: longs(rows._replayed(2, 1)),
    "replay_time": RowColumns._replay_times,
    "type": RowColumns._types,
    "version": RowColumns._versions,
    "topic": RowColumns._topics,
    "topic_id": RowColumns._topic_ids,
    "partition": lambda rows: rows._key("partition"),
    "broker": lambda rows: rows._key("broker"),
    "payload": RowColumns._payloads,
    "value": RowColumns._values,
}
"""Columns of the data source, but for structs."""


@lru_cache(maxsize=1)
def _type_names() -> tuple[pa.Array, npt.NDArray[np.int32]]:
    """Return the names of all types, and for each number which name it has; -1 for none."""
    names = [record_class.NAME for record_class in RECORD_TYPES.values()]
    places = np.full(max(RECORD_TYPES) + 2, -1, dtype=np.int32)
    for place, number in enumerate(RECORD_TYPES):
        places[number] = place
    return pa.array(names), places
