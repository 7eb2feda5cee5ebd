"""Records of one type and version, decoded by columns from the declaration of the type.

    decode_columns(PartitionChangeRecord, 2, data, starts, ends).fields["leader"].values

The reader walks over the declared fields, as the generated decoder of
`jbodlab.kafka_wire.codec` does, but each step reads that field of all rows: rows differ only
in where they stand. Tagged fields are read slot by slot: the first tag of every row, the second of
every row that has one, and so on.

A row is left to the plain decoder (`plain`) if it is damaged, has a tag that the version does not
know, more tags than fields, or if its type has nested structs. Because positions only grow, a row
that reads too far can never end where it should: one comparison at the end finds all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast
from uuid import UUID

import numpy as np

from analytics.read.arrays import (
    Bools,
    Bytes,
    Column,
    Longs,
    fixed,
    offsets_of,
    padded,
    spread,
    unsigned_varints,
)
from jbodlab.kafka_wire.codec import STRING_BYTES_MAX
from jbodlab.kafka_wire.kinds import FieldSpec, Form, Kind
from jbodlab.kafka_wire.schema import field_specs
from jbodlab.metadata.records.schema import Record

UUID_BYTES = 16
_CODES = {"?": "u1", "b": "i1", "h": ">i2", "i": ">i4", "q": ">i8", "H": ">u2", "d": ">f8"}
"""NumPy's name of each fixed type of `jbodlab.kafka_wire.kinds`."""


@dataclass(frozen=True, slots=True)
class Values:
    """One value per row.

    Attributes:
        values: Shape (n,), or (n, 16) of uint8 for ids; the field's default where not present.
        present: False where a tagged field is absent or the version lacks the field.
    """

    values: Column
    present: Bools


@dataclass(frozen=True, slots=True)
class Lists:
    """A list per row: numbers, ids, or the bytes of a string.

    Attributes:
        offsets: Shape (n + 1,): the elements of row i are values[offsets[i] : offsets[i + 1]].
        values: All elements; shape (m,), or (m, 16) of uint8 for ids. Strings are UTF-8.
        present: False where the field is null or absent, or the version lacks it; the row has no
            elements then.
    """

    offsets: Longs
    values: Column
    present: Bools


@dataclass(frozen=True, slots=True)
class DecodedColumns:
    """The fields of n records by their names, in declaration order.

    Attributes:
        fields: Columns of n rows, not to be written to; without those of nested structs.
        plain: Rows that the plain decoder has to look at; in the columns they are not present.
    """

    fields: dict[str, Values | Lists]
    plain: Bools


def decode_columns(
    record_class: type[Record], version: int, data: Bytes, starts: Longs, ends: Longs
) -> DecodedColumns:
    """Decode the bodies of records of one type and version.

    Args:
        record_class: Type of all records.
        version: Schema version of all records; above the highest one, that is read.
        data: Bytes that hold the bodies, contiguous.
        starts: Position of each body, behind the three numbers of its frame.
        ends: Position behind it; ``starts <= ends <= len(data)``.
    """
    reader = _Reader(record_class, version, padded(data), starts, ends)
    return reader.read()


def reads(record_class: type[Record], version: int) -> bool:
    """Return whether records of a type and version are decoded by columns at all."""
    version = min(version, record_class.HIGHEST_VERSION)
    return all(_is_readable(s.kind) for s in field_specs(record_class) if s.since <= version)


@dataclass(slots=True)
class _Found:
    """Where a field stands in each row: a value, or a list's elements and their count.

    `values` are the elements, if they have been fetched already.
    """

    position: Longs
    count: Longs | None
    present: Bools
    values: Column | None = field(default=None)


class _Reader:
    """One pass over the rows; `position` moves from field to field."""

    def __init__(
        self, record_class: type[Record], version: int, data: Bytes, starts: Longs, ends: Longs
    ) -> None:
        version = min(version, record_class.HIGHEST_VERSION)
        self.record_class = record_class
        self.version = version
        self.specs = field_specs(record_class)
        self.data = data
        self.size = len(starts)
        self.starts = starts
        self.ends = ends
        self.plain: Bools = np.zeros(self.size, dtype=np.bool_)
        self.found: dict[str, _Found] = {}

    def read(self) -> DecodedColumns:
        if not reads(self.record_class, self.version):
            self.plain[:] = True
        else:
            position = self._read_untagged(np.asarray(self.starts, dtype=np.int64))
            position = self._read_tagged(position)
            self.plain |= position != self.ends
            self._check_strings()
        return DecodedColumns(
            {spec.name: self._column(spec) for spec in self.specs if _is_readable(spec.kind)},
            self.plain,
        )

    def _read_untagged(self, position: Longs) -> Longs:
        everywhere = np.ones(self.size, dtype=np.bool_)
        for spec in self.specs:
            if spec.tag is not None or spec.since > self.version:
                continue
            start, count, null, position = self._read_field(spec.kind, position, self._mark)
            present = everywhere if null is None else ~null
            self.found[spec.name] = _Found(start, count, present)
        return position

    def _read_tagged(self, position: Longs) -> Longs:
        tagged = {s.tag: s for s in self.specs if s.tag is not None and s.since <= self.version}
        tags, position, bad = unsigned_varints(self.data, position)
        many = tags > len(tagged)
        if bad is not None or many.any():
            many = many if bad is None else many | bad
            self.plain |= many
            tags[many] = 0
        for slot in range(int(tags.max(initial=0))):
            rows = np.nonzero(tags > slot)[0]
            if len(rows) == self.size:
                position = self._read_slot(tagged, rows, position)
            else:
                position[rows] = self._read_slot(tagged, rows, position[rows])
        return position

    def _read_slot(self, tagged: dict[int, FieldSpec], rows: Longs, position: Longs) -> Longs:
        """Read one tagged field of each of some rows; return the positions behind them."""
        tag, position, bad = unsigned_varints(self.data, position)
        # The size is read, not used: the plain decoder does not compare it with what it reads.
        _, position, bad_size = unsigned_varints(self.data, position)
        for wrong in (bad, bad_size):
            if wrong is not None:
                self.plain[rows[wrong]] = True
                tag[wrong] = -1
        for number in np.nonzero(np.bincount(np.minimum(tag, 63) + 1, minlength=1))[0] - 1:
            spec = tagged.get(int(number))
            here = np.nonzero(tag == number)[0]
            if spec is None:
                beyond = np.nonzero(np.minimum(tag, 63) == number)[0]
                self.plain[rows[beyond]] = True
            elif len(here) == len(rows):
                position = self._read_tag(spec, rows, position)
            else:
                position[here] = self._read_tag(spec, rows[here], position[here])
        return position

    def _read_tag(self, spec: FieldSpec, rows: Longs, position: Longs) -> Longs:
        def mark(bad: Bools) -> None:
            self.plain[rows[bad]] = True

        start, count, null, position = self._read_field(spec.kind, position, mark)
        found = self.found.get(spec.name)
        if found is None:
            counts = None if count is None else np.zeros(self.size, dtype=np.int64)
            absent = np.zeros(self.size, dtype=np.bool_)
            found = self.found[spec.name] = _Found(
                np.zeros(self.size, dtype=np.int64), counts, absent
            )
        found.position[rows] = start
        found.present[rows] = True if null is None else ~null
        if count is not None and found.count is not None:
            found.count[rows] = count
        return position

    def _mark(self, bad: Bools) -> None:
        self.plain |= bad

    def _read_field(
        self, kind: Kind, position: Longs, mark: Callable[[Bools], None]
    ) -> tuple[Longs, Longs | None, Bools | None, Longs]:
        """Find a field: where it stands, its elements, which are null, and what follows it."""
        if kind.form in (Form.FIXED, Form.UUID):
            return position, None, None, position + _width(kind)
        count, start, bad = unsigned_varints(self.data, position)
        count -= 1
        null: Bools | None = None
        if len(count) and count.min() < 0:
            null = count < 0
            count[null] = 0
            if not kind.nullable:
                mark(null)
        if kind.form is Form.STRING and len(count) and count.max() > STRING_BYTES_MAX:
            mark(count > STRING_BYTES_MAX)
        if bad is not None:
            mark(bad)
        return start, count, null, start + count * _width(kind)

    def _check_strings(self) -> None:
        """Leave strings that are not UTF-8 to the plain decoder; nearly all are ASCII."""
        strings = [
            found
            for spec in self.specs
            if spec.kind.form is Form.STRING and (found := self.found.get(spec.name)) is not None
        ]
        before = np.count_nonzero(self.plain)
        for found in strings:
            assert found.count is not None
            counts = np.where(self.plain, 0, found.count) if before else found.count
            found.values = values = self.data[spread(found.position, counts)]
            if len(values) and values.max() >= 0x80:
                offsets = offsets_of(counts)
                high = np.searchsorted(offsets, np.nonzero(values >= 0x80)[0], side="right") - 1
                for row in np.unique(high).tolist():
                    try:
                        values[offsets[row] : offsets[row + 1]].tobytes().decode()
                    except UnicodeDecodeError:
                        self.plain[row] = True
        if np.count_nonzero(self.plain) > before:
            for found in strings:
                found.values = None  # they still hold those of rows that have no strings now

    def _column(self, spec: FieldSpec) -> Values | Lists:
        found = self.found.get(spec.name)
        is_list = spec.kind.form not in (Form.FIXED, Form.UUID)
        if found is None:
            # One value seen as many: nothing is allocated for fields that no row has.
            absent = np.broadcast_to(np.False_, self.size)
            if is_list:
                nothing = _values(spec.kind, self.data, np.zeros(0, dtype=np.int64))
                return Lists(np.broadcast_to(np.int64(0), self.size + 1), nothing, absent)
            default = _defaults(spec, 1)
            return Values(np.broadcast_to(default, (self.size, *default.shape[1:])), absent)
        present = found.present & ~self.plain if self.plain.any() else found.present
        if not is_list:
            values = _values(spec.kind, self.data, found.position)
            if not present.all():
                gone = ~present
                values[gone] = _defaults(spec, 1)
            return Values(values, present)
        assert found.count is not None
        counts = np.where(self.plain, 0, found.count) if self.plain.any() else found.count
        values_of = found.values
        if values_of is None:
            width = _width(spec.kind)
            values_of = _values(spec.kind, self.data, spread(found.position, counts, width))
        return Lists(offsets_of(counts), values_of, present)


def _is_readable(kind: Kind) -> bool:
    if kind.form is Form.STRUCT:
        return False
    element = kind.element
    return element is None or element.form in (Form.FIXED, Form.UUID)


def _width(kind: Kind) -> int:
    """Return the bytes of a value, or of one element of a list."""
    kind = kind.element or kind
    if kind.form is Form.UUID:
        return UUID_BYTES
    return np.dtype(_CODES[kind.code]).itemsize if kind.form is Form.FIXED else 1


def _values(kind: Kind, data: Bytes, position: Longs) -> Column:
    """Return the value, or element, of a kind that stands at each position."""
    kind = kind.element or kind
    if kind.form is Form.UUID:
        return fixed(data, position, "V16").view(np.uint8).reshape(-1, UUID_BYTES)
    if kind.form is Form.FIXED:
        values = fixed(data, position, _CODES[kind.code])
        return values != 0 if kind.code == "?" else values
    return data[position]


def _defaults(spec: FieldSpec, size: int) -> Column:
    if spec.kind.form is Form.UUID:
        raw = np.frombuffer(cast("UUID", spec.default).bytes, dtype=np.uint8)
        return np.tile(raw, (size, 1))
    dtype = "?" if spec.kind.code == "?" else np.dtype(_CODES[spec.kind.code]).newbyteorder("=")
    return np.full(size, spec.default, dtype=dtype)
