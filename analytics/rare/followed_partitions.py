"""The rows of `partition_records.sql` in, `partition_steps` out: Arrow on both sides.

Sorted by partition and order of replay, a field's value in a row is the one of the last row at or
above it that has the field: a PartitionRecord has all, a PartitionChangeRecord those that it
changes. Counting rows gives the partition epoch, counting named leaders the leader epoch; that is
what `PartitionRegistration.from_record` and `merge` say. The content of snapshots is compared with
the state that is reached, and changes nothing.

SQL can say all this by a window for each field, which takes several times as long: lists are
compared and copied there, where here each distinct list is a number.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped] # it comes without types
import pyarrow.compute as pc  # type: ignore[import-untyped]

from analytics.read.arrays import Bools, Column, Longs
from analytics.read.lists import Codes, combinations
from analytics.tables.table import BOOLEAN, INT, LONG, STRING, TYPES
from jbodlab.vocabulary import directory_id, kafka_uuid

_MIGRATING = kafka_uuid.to_text(directory_id.MIGRATING)
_NONE = -1
"""The number of a row, or of a list, that is missing."""
_INTS, _STRINGS, _TIME = TYPES["int[]"], TYPES["string[]"], TYPES["timestamp"]

_TEXTS = ("cluster", "topic", "topic_id", "record_type")
_KEPT = (
    *("partition", "replay_position", "end", "is_compared", "valid_from_offset", "valid_from_time"),
    *("batch_base_offset", "batch_last_offset", "removed_offset", "removed_time"),
)
"""Columns that stay as they are, the texts besides."""

_NUMBERS = ("leader", "leader_epoch", "partition_epoch", "leader_recovery_state")
_LISTS: Mapping[str, pa.DataType] = {
    "replicas": _INTS,
    "isr": _INTS,
    "removing_replicas": _INTS,
    "adding_replicas": _INTS,
    "directories": _STRINGS,
    "eligible_leader_replicas": _INTS,
    "last_known_elr": _INTS,
}
_FORMER = {
    "isr": "former_isr",
    "replicas": "former_replicas",
    "directories": "former_directories",
    "eligible_leader_replicas": "former_elr",
    "adding_replicas": "former_adding",
    "removing_replicas": "former_removing",
}
_SINCE = {"directories": 1, "eligible_leader_replicas": 2, "last_known_elr": 2}
"""Version of the record from which on it has a field."""

SCHEMA = pa.schema(
    [
        *((name, STRING) for name in ("cluster", "topic", "topic_id")),
        ("partition", INT),
        *((name, LONG) for name in ("replay_position", "next_position", "end")),
        *((name, BOOLEAN) for name in ("is_compared", "is_odd")),
        ("seq", LONG),
        *((name, INT) for name in _NUMBERS),
        *_LISTS.items(),
        ("former_leader", INT),
        *((former, _LISTS[name]) for name, former in _FORMER.items()),
        *((name, _INTS) for name in ("isr_joined", "isr_left")),
        *((name, BOOLEAN) for name in ("is_isr_changed", "is_placement_changed")),
        ("valid_from_offset", LONG),
        ("valid_from_time", _TIME),
        ("record_type", STRING),
        *((name, LONG) for name in ("batch_base_offset", "batch_last_offset", "valid_to_offset")),
        ("valid_to_time", _TIME),
        ("removed_offset", LONG),
        ("removed_time", _TIME),
    ]
)
"""Columns of `partition_steps`: a record, the state that it leads to, and the one before it.

A step is odd if it cannot be: a change of something unknown, a second whole state, directories that
are fewer than replicas, or a snapshot that tells another state than the one that is reached.
"""


def partition_steps(records: pa.Table) -> pa.Table:
    """Return a step for each record, by topic, partition and order of replay.

    Args:
        records: All rows of `partition_records` of some topics, in any order.

    Returns:
        Rows of SCHEMA; texts and lists that repeat are dictionaries.
    """
    if not len(records):
        return SCHEMA.empty_table()
    given = records.combine_chunks()
    texts = {name: _coded(_whole(given, name)) for name in _TEXTS}
    keys = _partition_keys(texts, given)
    order = _order(keys, given)
    places = _Places(keys[order])
    rows = given.select(_KEPT).take(pa.array(order))
    compared = _bools(rows.column("is_compared"))
    numbers = {name: _number(_whole(given, name), order) for name in _NUMBERS}
    lists = {name: _interned(_whole(given, name), order) for name in _LISTS}
    fields = numbers | {name: found.field for name, found in lists.items()}

    own = {
        name: field._replace(present=field.present & ~compared) for name, field in fields.items()
    }
    seq = places.counted(~compared)
    states = _states(own, seq, places)
    odd = _bools(_whole(given, "is_odd"))[order] | _cannot_be(own, states, lists, places)
    _place_everywhere(states, lists)
    version = _numbers(_whole(given, "version"))[order]
    odd |= compared & (_differs(fields, states, version) | _is_twice(rows, compared, places))

    columns = {name: text.take(pa.array(order)) for name, text in texts.items()}
    columns |= {name: rows.column(name) for name in _KEPT}
    columns |= {"seq": pa.array(seq.astype(np.int64)), "is_odd": pa.array(odd)}
    columns |= _of_states(states, lists, places)
    columns |= _of_ends(rows, compared, places)
    return pa.table({name: columns[name] for name in SCHEMA.names})


class _Field(NamedTuple):
    """A field of each row in order: its value, or the number of its list; and who has one."""

    values: Column
    present: Bools


class _Interned(NamedTuple):
    """A field of lists, the distinct ones, and how long these are."""

    field: _Field
    distinct: pa.Array
    lengths: Longs


class _Places:
    """Where the rows of each partition begin and end."""

    def __init__(self, keys: Longs) -> None:
        size = len(keys)
        self.place = np.arange(size, dtype=np.int32)
        self.is_first: Bools = np.ones(size, dtype=np.bool_)
        self.is_first[1:] = keys[1:] != keys[:-1]
        starts = np.nonzero(self.is_first)[0].astype(np.int32)
        behind = np.append(starts[1:], np.int32(size))
        self.start = np.repeat(starts, behind - starts)
        self.behind = np.repeat(behind, behind - starts)

    def last(self, present: Bools) -> Column:
        """Return for each row the last one of its partition, up to it, that is present; or NONE."""
        last: Column = np.maximum.accumulate(np.where(present, self.place, np.int32(_NONE)))
        last[last < self.start] = _NONE
        return last

    def next(self, present: Bools) -> Column:
        """Return for each row the next one of its partition that is present; or NONE."""
        size = np.int32(len(self.place))
        at = np.append(np.where(present, self.place, size), size)
        found: Column = np.minimum.accumulate(at[::-1])[::-1][1:]
        return np.where(found < self.behind, found, np.int32(_NONE))

    def counted(self, present: Bools) -> Column:
        """Return for each row how many of its partition, up to it, are present."""
        total = np.zeros(len(present) + 1, dtype=np.int32)
        np.cumsum(present, out=total[1:])
        counted: Column = total[1:] - total[self.start]
        return counted

    def before(self, field: _Field) -> _Field:
        """Return what the row above of the same partition has."""
        values, present = np.empty_like(field.values), np.empty_like(field.present)
        values[1:], present[1:] = field.values[:-1], field.present[:-1]
        values[:1] = 0
        present[self.is_first] = False
        return _Field(values, present)


def _states(own: Mapping[str, _Field], seq: Column, places: _Places) -> dict[str, _Field]:
    """Return the fields of the states that records lead to."""
    states = {}
    for name, field in own.items():
        last = places.last(field.present)
        states[name] = _Field(field.values[last], last != _NONE)
    named = places.counted(own["leader"].present)
    for name, count in (("leader_epoch", named), ("partition_epoch", seq)):
        states[name] = states[name]._replace(values=states[name].values + count - 1)
    return states


def _cannot_be(
    own: Mapping[str, _Field],
    states: Mapping[str, _Field],
    lists: Mapping[str, _Interned],
    places: _Places,
) -> Bools:
    """Return the rows that are not behind one whole state, or name too few directories."""
    named, replicas = (_lengths(states, lists, name) for name in ("directories", "replicas"))
    is_placed = own["replicas"].present | own["directories"].present
    # Only whole states have a partition epoch.
    odd: Bools = places.counted(own["partition_epoch"].present) != 1
    odd |= is_placed & (named != 0) & (named != replicas)
    return odd


def _place_everywhere(states: dict[str, _Field], lists: dict[str, _Interned]) -> None:
    """Give each replica of states without directories the id MIGRATING: its place is unknown."""
    found = lists["directories"]
    named, replicas = (_lengths(states, lists, name) for name in ("directories", "replicas"))
    directories, missing = states["directories"], (named == 0) & (replicas > 0)
    if not missing.any():
        return
    counts = range(int(replicas.max()) + 1)
    everywhere = pa.array([[_MIGRATING] * count for count in counts], _STRINGS)
    distinct, codes, lengths = _distinct(pa.concat_arrays([found.distinct, everywhere]))
    known = codes[: len(found.distinct)]
    values = np.where(missing, codes[len(found.distinct) :][replicas], known[directories.values])
    states["directories"] = directories._replace(values=values)
    field = found.field._replace(values=known[found.field.values])
    lists["directories"] = _Interned(field, distinct, lengths)


def _lengths(states: Mapping[str, _Field], lists: Mapping[str, _Interned], name: str) -> Column:
    values, present = states[name]
    return lists[name].lengths[values] * present


def _differs(fields: Mapping[str, _Field], states: Mapping[str, _Field], version: Column) -> Bools:
    """Return which records say another state, as far as their version can tell."""
    differs = np.zeros(len(version), dtype=np.bool_)
    for name, field in fields.items():
        state = states[name]
        other = (field.present != state.present) | field.present & (field.values != state.values)
        differs |= other & (version >= _SINCE.get(name, 0))
    return differs


def _is_twice(rows: pa.Table, compared: Bools, places: _Places) -> Bools:
    """Return the rows of partitions that a snapshot has listed before."""
    position = np.asarray(rows.column("replay_position"))
    twice = ~places.is_first
    twice[1:] &= compared[:-1] & (position[1:] == position[:-1])
    return twice


def _of_states(
    states: Mapping[str, _Field], lists: Mapping[str, _Interned], places: _Places
) -> dict[str, pa.Array]:
    """Return the columns of states, and of those before them."""
    before = {name: places.before(states[name]) for name in ("leader", *_FORMER)}
    columns = {name: _ints(states[name]) for name in _NUMBERS}
    columns["former_leader"] = _ints(before["leader"])
    columns |= {name: _listed(states[name], lists[name].distinct) for name in _LISTS}
    columns |= {
        former: _listed(before[name], lists[name].distinct) for name, former in _FORMER.items()
    }
    columns["isr_joined"], columns["isr_left"] = _joined_and_left(
        states["isr"], before["isr"], lists["isr"].distinct
    )
    changed = {
        name: before[name].present & (before[name].values != states[name].values)
        for name in ("isr", "replicas", "directories")
    }
    columns["is_isr_changed"] = pa.array(changed["isr"])
    columns["is_placement_changed"] = pa.array(changed["replicas"] | changed["directories"])
    return columns


def _of_ends(rows: pa.Table, compared: Bools, places: _Places) -> dict[str, pa.Array]:
    """Return the columns of the record that follows, or of the end of the topic."""
    following = places.next(~compared)
    is_last = following == _NONE
    chosen = pa.array(np.where(is_last, 0, following), mask=is_last)
    columns = {"next_position": rows.column("replay_position").take(chosen)}
    for name in ("offset", "time"):
        found = rows.column(f"valid_from_{name}").take(chosen)
        removed = rows.column(f"removed_{name}")
        columns[f"valid_to_{name}"] = pc.if_else(pa.array(is_last), removed, found)
    return columns


def _joined_and_left(own: _Field, former: _Field, distinct: pa.Array) -> list[pa.Array]:
    """Return the elements that only a list has, and those that only the former one had.

    Where there are not two lists, both are null.
    """
    found = combinations(own.values, former.values)
    lists = (distinct.take(pa.array(each.values[found.rows])) for each in (own, former))
    pairs = list(zip(*(each.to_pylist() for each in lists), strict=True))
    joined = [[each for each in own if each not in former] for own, former in pairs]
    left = [[each for each in former if each not in own] for own, former in pairs]
    codes = pa.array(found.codes, mask=~(own.present & former.present))
    return [
        pa.DictionaryArray.from_arrays(codes, pa.array(each, distinct.type))
        for each in (joined, left)
    ]


def _whole(given: pa.Table, name: str) -> pa.Array:
    """Return a column, which has one chunk."""
    return given.column(name).chunk(0)


def _coded(column: pa.Array) -> pa.DictionaryArray:
    """Return texts as a dictionary, as which DuckDB's numbered ones come."""
    if not pa.types.is_dictionary(column.type):
        return column.dictionary_encode()
    return pa.DictionaryArray.from_arrays(column.indices.cast(pa.int32()), column.dictionary)


def _partition_keys(texts: Mapping[str, pa.DictionaryArray], given: pa.Table) -> Longs:
    """Return a number for each row that is the same for those of a partition, in their order."""
    names = ("cluster", "topic", "topic_id")
    found = combinations(*(np.asarray(texts[name].indices) for name in names))
    one_of_each = pa.array(found.rows)
    topics = list(zip(*(texts[name].take(one_of_each).to_pylist() for name in names), strict=True))
    ranks = np.empty(len(topics), dtype=np.int64)
    ranks[sorted(range(len(topics)), key=topics.__getitem__)] = np.arange(len(topics))
    partition = _numbers(_whole(given, "partition")).astype(np.int64)
    keys: Longs = (ranks[found.codes] << 32) | (partition & 0xFFFFFFFF)
    return keys


def _order(keys: Longs, given: pa.Table) -> Longs:
    position, offset = (_numbers(_whole(given, name)) for name in ("replay_position", "offset"))
    step = np.diff(position)
    if ((step > 0) | (step == 0) & (np.diff(offset) >= 0)).all():
        return np.argsort(keys, kind="stable")
    return np.lexsort((offset, position, keys))


def _bools(column: pa.Array | pa.ChunkedArray) -> Bools:
    return np.asarray(column).astype(np.bool_)


def _numbers(column: pa.Array) -> Column:
    return np.asarray(column.fill_null(0) if column.null_count else column)


def _number(column: pa.Array, order: Longs) -> _Field:
    return _Field(_numbers(column)[order], _bools(column.is_valid())[order])


def _interned(column: pa.Array, order: Longs) -> _Interned:
    distinct, found, lengths = _distinct(column.drop_null())
    present = _bools(column.is_valid())
    codes = np.zeros(len(column), dtype=np.int32)
    codes[present] = found
    return _Interned(_Field(codes[order], present[order]), distinct, lengths)


def _distinct(lists: pa.Array) -> tuple[pa.Array, Codes, Longs]:
    """Return the distinct lists, which of them each is, and how long they are; never none."""
    if not len(lists):
        lists = pa.array([[]], lists.type)
    encoded = _as_bytes(lists).dictionary_encode()
    codes = np.asarray(encoded.indices).astype(np.int32, copy=False)
    one_of_each = np.zeros(len(encoded.dictionary), dtype=np.int64)
    one_of_each[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)
    distinct = lists.take(pa.array(one_of_each))
    lengths = np.asarray(pc.list_value_length(distinct)).astype(np.int64)
    return distinct, codes, lengths


def _as_bytes(lists: pa.Array) -> pa.Array:
    """Return the bytes of the elements of each list.

    Texts are ids, all of one length: lists of the same bytes are the same.
    """
    offsets = np.asarray(lists.offsets).astype(np.int64)
    if pa.types.is_string(lists.type.value_type):
        texts = lists.values
        _, bounds, data = texts.buffers()
        offsets = np.frombuffer(bounds, dtype=np.int32)[texts.offset + offsets].astype(np.int64)
    else:
        offsets, data = offsets * 4, pa.py_buffer(np.ascontiguousarray(lists.values))
    return pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(lists), [None, pa.py_buffer(offsets), data]
    )


def _ints(field: _Field) -> pa.Array:
    return pa.array(field.values.astype(np.int32, copy=False), mask=~field.present)


def _listed(field: _Field, distinct: pa.Array) -> pa.Array:
    codes = field.values.astype(np.int32, copy=False)
    return pa.DictionaryArray.from_arrays(pa.array(codes, mask=~field.present), distinct)
