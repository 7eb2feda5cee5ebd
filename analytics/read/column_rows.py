"""Records as rows of the data source, by columns.

The records of one type and version are decoded together; what they say goes to their places in
columns of all rows. A row that the columns leave aside is decoded alone, by `read.plain_rows`,
which defines what a row is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

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


@dataclass(slots=True)
class _Keys:
    """Keys of records: columns of all rows."""

    size: int
    topic_ids: Column = field(init=False)
    has_topic_id: Bools = field(init=False)
    partition: npt.NDArray[np.int32] = field(init=False)
    has_partition: Bools = field(init=False)
    broker: npt.NDArray[np.int32] = field(init=False)
    has_broker: Bools = field(init=False)
    topics: list[tuple[Longs, pa.Array]] = field(default_factory=list)
    """Rows that name a topic, and the names."""

    def __post_init__(self) -> None:
        self.topic_ids = np.zeros(self.size, dtype=np.int32)
        self.partition = np.zeros(self.size, dtype=np.int32)
        self.broker = np.zeros(self.size, dtype=np.int32)
        self.has_topic_id = np.zeros(self.size, dtype=np.bool_)
        self.has_partition = np.zeros(self.size, dtype=np.bool_)
        self.has_broker = np.zeros(self.size, dtype=np.bool_)


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
        keys = self.keys
        if "topic_id" in fields:
            codes, texts = columns.ids("topic_id")
            keys.topic_ids[rows] = codes + self.id_count
            keys.has_topic_id[rows] = True
            self.id_texts.append(texts)
            self.id_count += len(texts)
        if "partition_id" in fields:
            keys.partition[rows] = fields["partition_id"].values
            keys.has_partition[rows] = True
        is_fence = record_class in (FenceBrokerRecord, UnfenceBrokerRecord)
        broker = "id" if is_fence else "broker_id"
        if broker in fields:
            keys.broker[rows] = fields[broker].values
            keys.has_broker[rows] = True
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
        made: pa.Array = self._typed(name) if name in STRUCTS else getattr(self, f"_{name}")()
        return made

    # Fields that all records of a batch share

    def _file(self) -> pa.Array:
        return constant(self.place.file, self.size)

    def _source(self) -> pa.Array:
        return constant(self.place.source, self.size)

    def _cluster(self) -> pa.Array:
        if self.place.cluster is None:
            return nulls(self.size, pa.string())
        return constant(self.place.cluster, self.size)

    def _position(self) -> pa.Array:
        return longs((self.batches.position + self.place.start)[self.records.batch])

    def _epoch(self) -> pa.Array:
        return pa.array(self.batches.epoch.astype(np.int32)[self.records.batch])

    def _batch_base_offset(self) -> pa.Array:
        return longs(self.batches.base_offset[self.records.batch])

    def _batch_last_offset(self) -> pa.Array:
        return longs(self.batches.last_offset[self.records.batch])

    def _snapshot(self) -> pa.Array:
        return constant(self.place.replay_offset is not None, self.size)

    def _control(self) -> pa.Array:
        return constant(False, self.size)

    # Fields of each record

    def _offset(self) -> pa.Array:
        return longs(self.records.offset)

    def _timestamp(self) -> pa.Array:
        return times_of_ms(self.records.timestamp)

    def _replay_offset(self) -> pa.Array:
        if self.place.replay_offset is None:
            return self._offset()
        return longs(np.full(self.size, self.place.replay_offset, dtype=np.int64))

    def _replay_time(self) -> pa.Array:
        if self.place.replay_time is None:
            return self._timestamp()
        return times_of_ms(np.full(self.size, self.place.replay_time, dtype=np.int64))

    def _replay_position(self) -> pa.Array:
        if self.place.replay_offset is None:
            return longs(2 * self.records.offset + 1)
        return longs(np.full(self.size, 2 * self.place.replay_offset, dtype=np.int64))

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

    def _type(self) -> pa.Array:
        numbers = self.types >> 8
        names, places = _type_names()
        codes = places[numbers]  # -1 finds the last one, which is the one for no type
        if not len(self.alone):
            return taken(names, pa.array(codes))
        own = [row.type for row in self.found]
        return self._with_alone(names, codes, own)

    def _version(self) -> pa.Array:
        values = (self.types & 0xFF).astype(np.int32)
        return self._numbers(values, None, [row.version for row in self.found])

    def _topic(self) -> pa.Array:
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

    def _topic_id(self) -> pa.Array:
        if not self.id_texts:
            own = [row.topic_id for row in self.found]
            return self._with_alone(
                pa.array([], type=pa.string()), np.full(self.size, -1, dtype=np.int32), own
            )
        texts = pa.concat_arrays(self.id_texts)
        codes = self.keys.topic_ids
        if self.keys.has_topic_id.all() and not len(self.alone):
            return taken(texts, pa.array(codes))
        codes = np.where(self.keys.has_topic_id, codes, np.int32(-1))
        return self._with_alone(texts, codes, [row.topic_id for row in self.found])

    def _partition(self) -> pa.Array:
        own = [row.partition for row in self.found]
        return self._numbers(self.keys.partition, self.keys.has_partition, own)

    def _broker(self) -> pa.Array:
        own = [row.broker for row in self.found]
        return self._numbers(self.keys.broker, self.keys.has_broker, own)

    def _payload(self) -> pa.Array:
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

    def _value(self) -> pa.Array:
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

    def _problem(self) -> pa.Array:
        return nulls(self.size, pa.string())

    def _message(self) -> pa.Array:
        return nulls(self.size, pa.string())

    # How columns become Arrow arrays.

    def _numbers(
        self, values: npt.NDArray[np.int32], present: Bools | None, own: list[int | None]
    ) -> pa.Array:
        if not len(self.alone):
            if present is None or present.all():
                return pa.array(values)
            return pa.array(values, mask=~present)
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


@lru_cache(maxsize=1)
def _type_names() -> tuple[pa.Array, npt.NDArray[np.int32]]:
    """Return the names of all types, and for each number which name it has; -1 for none."""
    names = [record_class.NAME for record_class in RECORD_TYPES.values()]
    places = np.full(max(RECORD_TYPES) + 2, -1, dtype=np.int32)
    for place, number in enumerate(RECORD_TYPES):
        places[number] = place
    return pa.array(names), places
