"""The payload of records by columns: the JSON text that Kafka's dump tool prints.

For each type and version the declaration of the record says how a text is put together; what
`frame.payload_text` returns for a record, these pieces give for all records of a type. A field
takes one piece where its value is a small number, as nearly all are; an element of a list takes
one, with the separators around it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped] # it comes without types
import pyarrow.compute as pc  # type: ignore[import-untyped]

from analytics.read.arrays import Bools, Column, Longs, offsets_of, spread
from analytics.read.record_columns import DecodedColumns, Lists, Values, reads
from analytics.read.texts import (
    SMALL_COUNT,
    SMALL_MAX,
    SMALL_MIN,
    Dictionary,
    Pieces,
    around,
    distinct_ids,
    distinct_numbers,
    strings,
)
from jbodlab.kafka_wire.kinds import FieldSpec, Form
from jbodlab.kafka_wire.schema import field_specs
from jbodlab.metadata.records.schema import Record
from jbodlab.metadata.records.secrets import SECRETS

Encoded = tuple[Pieces, pa.Array]


@dataclass(slots=True)
class _Part:
    """Some pieces of each row of a group.

    Attributes:
        counts: Pieces per row; a number if all rows have as many, or None for one each of `rows`.
        pieces: The pieces, row after row; one number if it is the same for all.
        rows: The rows that have one piece; None for all of them.
    """

    pieces: Pieces | int
    counts: Longs | None = None
    rows: Longs | None = None


@dataclass(slots=True)
class Payloads:
    """The payloads of rows, group after group."""

    size: int
    dictionary: Dictionary = field(default_factory=Dictionary)
    _counts: Longs = field(init=False)
    _groups: list[tuple[Longs, list[_Part]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._counts = np.zeros(self.size, dtype=np.int64)

    def add(self, rows: Longs, parts: list[_Part]) -> None:
        """Set the payloads of some rows."""
        counts = np.zeros(len(rows), dtype=np.int64)
        for part in parts:
            if part.counts is not None:
                counts += part.counts
            elif part.rows is None:
                counts += 1
            else:
                counts[part.rows] += 1
        self._counts[rows] = counts
        self._groups.append((rows, parts))

    def pieces(self, alone: Longs, texts: pa.Array) -> tuple[Pieces, Longs]:
        """Return all pieces in the order of rows, and where each row's begin.

        Args:
            alone: Rows whose payload is given instead, each as one piece.
            texts: Those payloads.
        """
        counts = self._counts.copy()
        counts[alone] = 1
        offsets = offsets_of(counts)
        total = int(offsets[-1])
        # Space of groups for rows that are given instead goes behind all others, and is cut off.
        unused = int(self._counts[alone].max(initial=0))
        begins = offsets[:-1].copy()
        begins[alone] = total
        pieces = np.empty(total + unused, dtype=np.int32)
        for rows, parts in self._groups:
            at = begins[rows]
            for part in parts:
                if part.counts is not None:
                    pieces[spread(at, part.counts)] = part.pieces
                    at += part.counts
                elif part.rows is None:
                    pieces[at] = part.pieces
                    at += 1
                else:
                    pieces[at[part.rows]] = part.pieces
                    at[part.rows] += 1
        pieces = pieces[:total]
        if len(alone):
            first = self.dictionary.add(texts)
            pieces[offsets[alone]] = np.arange(first, first + len(alone), dtype=np.int32)
        return pieces, offsets


class Columns:
    """The columns of records of one type, with what is worth computing once.

    Attributes:
        decoded: The columns.
        rows: Those that are not left to the plain decoder; None if that is all of them.
    """

    def __init__(self, decoded: DecodedColumns) -> None:
        self.decoded = decoded
        self._ids: dict[str, Encoded] = {}

    def ids(self, name: str) -> Encoded:
        """Return the ids of a field, or of all elements of a field, as distinct ones."""
        if name not in self._ids:
            self._ids[name] = distinct_ids(self.decoded.fields[name].values)
        return self._ids[name]


def has_payload(record_class: type[Record], version: int) -> bool:
    """Return whether payloads of a type and version are made by columns."""
    if record_class in SECRETS:
        return False
    version = min(version, record_class.HIGHEST_VERSION)
    specs = field_specs(record_class)
    # A tagged field in front would leave the next one with a comma too many.
    first_may_be_absent = bool(specs) and specs[0].tag is not None and len(specs) > 1
    return reads(record_class, version) and not first_may_be_absent and all(map(_is_simple, specs))


def payload_parts(
    record_class: type[Record], version: int, columns: Columns, dictionary: Dictionary
) -> tuple[list[_Part], Bools | None]:
    """Return the pieces of the payloads of records of one type and version.

    Rows that the plain decoder has to look at get pieces without meaning.

    Returns:
        The pieces, and the rows whose strings need escapes: their payload is wrong; None if there
        are no such rows.
    """
    made = _PayloadParts(columns, dictionary)
    made.before = f'{{"type":"{record_class.NAME}","version":{version},"data":{{'
    layout = min(version, record_class.HIGHEST_VERSION)
    for index, spec in enumerate(field_specs(record_class)):
        if spec.since <= layout:
            made.add_field(spec, "," if index else "")
    made.add_text("}}")
    return made.parts, made.escaped


class _PayloadParts:
    """Parts of a payload while they are collected, in order."""

    def __init__(self, columns: Columns, dictionary: Dictionary) -> None:
        self.columns = columns
        self.dictionary = dictionary
        self.parts: list[_Part] = []
        self.before = ""
        """Text that the next piece for all rows begins with."""
        self.escaped: Bools | None = None

    def add_field(self, spec: FieldSpec, comma: str) -> None:
        column = self.columns.decoded.fields[spec.name]
        name = f'{comma}"{spec.json_key}":'
        if spec.tag is None:
            name, self.before = self.before + name, ""
            rows = None
        else:
            shown = _shown(spec, column)
            if not shown.any():
                return
            rows = None if shown.all() else np.nonzero(shown)[0]
            if self.before:
                self.add_text("")
        if isinstance(column, Lists):
            if spec.kind.form is Form.STRING:
                self._add_strings(name, column, rows)
            else:
                self._add_list(spec, name, column, rows)
        elif spec.kind.code == "?":
            no, yes = self.dictionary.piece(name + "false"), self.dictionary.piece(name + "true")
            self._add(np.where(column.values, yes, no).astype(np.int32), rows)
        elif spec.kind.form is Form.UUID:
            self._add_ids(spec, name, rows)
        else:
            self._add_numbers(name, column.values, rows)

    def add_text(self, text: str) -> None:
        """Add one piece to all rows."""
        self.parts.append(_Part(self.dictionary.piece(self.before + text)))
        self.before = ""

    def _add(self, pieces: Pieces | int, rows: Longs | None) -> None:
        if rows is not None and not isinstance(pieces, int):
            pieces = pieces[rows]
        self.parts.append(_Part(pieces, rows=rows))

    def _add_numbers(self, name: str, values: Column, rows: Longs | None) -> None:
        if _are_small(values):
            place = self.dictionary.small_numbers(name)
            self._add(values.astype(np.int32) + np.int32(place), rows)
            return
        codes, texts = distinct_numbers(values)
        self._add(self.dictionary.piece(name), rows)
        self._add(np.int32(self.dictionary.add(texts)) + codes, rows)

    def _add_ids(self, spec: FieldSpec, name: str, rows: Longs | None) -> None:
        codes, texts = self.columns.ids(spec.name)
        quoted = _wrapped(texts, f'{name}"', '"')
        self._add(np.int32(self.dictionary.add(quoted)) + codes, rows)

    def _add_strings(self, name: str, column: Lists, rows: Longs | None) -> None:
        self._note_escapes(column)
        self._add(self.dictionary.piece(f'{name}"'), rows)
        first = self.dictionary.add(strings(column.offsets, column.values))
        self._add(np.arange(first, first + len(column.present), dtype=np.int32), rows)
        self._add(self.dictionary.piece('"'), rows)
        if rows is None and not column.present.all():
            null = np.nonzero(~column.present)[0]
            parts = self.parts[-3:]
            nothing = np.int32(self.dictionary.piece(""))
            for part, piece in zip(parts, (f"{name}null", "", ""), strict=True):
                pieces = np.full(len(column.present), part.pieces, dtype=np.int32)
                pieces[null] = self.dictionary.piece(piece) if piece else nothing
                part.pieces = pieces

    def _note_escapes(self, column: Lists) -> None:
        values = column.values
        escaped = np.nonzero((values < 0x20) | (values == 0x22) | (values == 0x5C))[0]
        if len(escaped):
            if self.escaped is None:
                self.escaped = np.zeros(len(column.present), dtype=np.bool_)
            self.escaped[np.searchsorted(column.offsets, escaped, side="right") - 1] = True

    def _add_list(self, spec: FieldSpec, name: str, column: Lists, rows: Longs | None) -> None:
        """Add a list: a piece per element, or one for a list without elements."""
        offsets = column.offsets
        sizes = np.diff(offsets)
        element = spec.kind.element
        assert element is not None
        if element.form is Form.UUID:
            codes, texts = self.columns.ids(spec.name)
            around_it = [(f'{before}"', f'"{after}') for before, after in around(name)]
            place, step = self._add_around(texts, around_it), len(texts)
        elif _are_small(column.values):
            codes = column.values.astype(np.int32)
            place, step = self.dictionary.small_numbers_in_list(name), SMALL_COUNT
        else:
            codes, texts = distinct_numbers(column.values)
            place, step = self._add_around(texts, around(name)), len(texts)
        pieces = codes + np.int32(place)
        some = sizes > 0
        has_empty = not some.all()
        pieces[offsets[:-1][some] if has_empty else offsets[:-1]] += step
        pieces[(offsets[1:][some] if has_empty else offsets[1:]) - 1] += 2 * step
        if not has_empty:
            self.parts.append(_Part(pieces, counts=sizes))
            return
        shown = np.ones(len(sizes), dtype=np.bool_)
        if rows is not None:
            shown[:] = False
            shown[rows] = True
        null = shown & ~column.present if spec.tag is None else None
        empty = np.nonzero(shown & ~some)[0]
        if len(empty):
            nothing = np.full(len(empty), self.dictionary.piece(f"{name}[]"), dtype=np.int32)
            if null is not None and null.any():
                nothing[null[empty]] = self.dictionary.piece(f"{name}null")
            pieces = np.insert(pieces, offsets[:-1][empty], nothing)
            sizes = sizes.copy()
            sizes[empty] = 1
        self.parts.append(_Part(pieces, counts=sizes))

    def _add_around(self, texts: pa.Array, around_it: Sequence[tuple[str, str]]) -> int:
        """Add the texts of elements with all that may stand around them."""
        return self.dictionary.add(*(_wrapped(texts, before, after) for before, after in around_it))


def _wrapped(texts: pa.Array, before: str, after: str) -> pa.Array:
    return pc.binary_join_element_wise(before, texts, after, "")


def _are_small(values: Column) -> bool:
    if not len(values):
        return True
    return bool(values.min() >= SMALL_MIN and values.max() <= SMALL_MAX)


def _shown(spec: FieldSpec, column: Values | Lists) -> Bools:
    """Return the rows in which a tagged field is shown: where it is not at its default."""
    if isinstance(column, Lists):
        return column.present if spec.default is None else np.diff(column.offsets) > 0
    differs: Bools = column.values != spec.default
    return differs


def _is_simple(spec: FieldSpec) -> bool:
    is_tagged_id = spec.tag is not None and spec.kind.form is Form.UUID
    return spec.kind.form is not Form.BYTES and spec.kind.code != "d" and not is_tagged_id
