"""Checks that the records of a batch match its header; it reads every record.

Each record begins where the one before it ends, the last one ends where the batch ends, there are
as many as the header counts, their offset deltas are 0, 1, 2 ..., and the fields of each, headers
included, fill it exactly. So a record that would stop every client never gets an offset. The check
also finds the range of the timestamps, and whether every record has a key. It does not read the
attributes of a record, which have no meaning, nor the contents of keys, values and headers.

A step of the interpreter for each byte would cost more than all the rest of a produce request, so
there are four methods, each as strict as the others:

* `_step` checks one record of any kind.
* `_stride` assumes that the next records have the size and shape of the checked one, and compares
  them column by column: a slice with that size as its stride holds the same byte of each record.
  Columns of sizes must be those of the checked record, columns of offset deltas those of the next
  numbers, columns of timestamp deltas numbers of the same width. A dozen slices are enough for any
  number of records.
* `_hurry` checks records of varying size, without headers, with one call for all small fields.
* `_alone` checks the only record of a batch, without headers, as producers without linger send it.

`_step` checks the records that the latter three do not recognise, and names the error.

Source: `org.apache.kafka.common.record.DefaultRecord.readFrom`,
`org.apache.kafka.storage.internals.log.LogValidator`.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from jbodlab.record_batch.varint import read_bits
from jbodlab.vocabulary.errors import DecodeError

RECORD_BYTES_MIN = 7
"""Size, attributes, two deltas, key and value without bytes, no headers."""

STRIDES_FROM = 16
"""Fewer records in a row than this are not compared by columns."""

SHAPE_BYTES_MAX = 100
"""Records with more bytes of sizes, as only many headers make, are not compared by columns."""

_NULL = 1
"""Size -1: a key or value that is null."""

_BLOCK = 1 << 13
"""Offset deltas repeat their first two bytes, the bit for more bytes aside, every so often."""

_WIDE_FROM = 1 << 6
"""The first offset delta of two bytes."""

_NARROW_DELTAS = bytes(range(0, 128, 2))
"""Offset deltas of one byte, by number."""
_LOW = bytes(n << 1 & 0x7F | 0x80 for n in range(_WIDE_FROM)) * (_BLOCK // _WIDE_FROM)
"""First bytes of wider ones, by number within a block."""
_HIGH = b"".join(bytes([high]) * _WIDE_FROM for high in range(_BLOCK // _WIDE_FROM))
"""Second bytes of those of two bytes, by number."""
_HIGH_OF_MORE = bytes(byte | 0x80 for byte in _HIGH)
"""Second bytes of those of more, by number within a block."""
_CONTINUED = bytes(range(0x80, 0x100))
"""Bytes of a varint behind which there is another one."""

_OFFSET_DELTAS: tuple[tuple[int, ...], ...] = (
    (),
    tuple(_NARROW_DELTAS),
    tuple(low | high << 8 for low, high in zip(_LOW, _HIGH, strict=True)),
    tuple(low | high << 8 for low, high in zip(_LOW, _HIGH_OF_MORE, strict=True)),
)
"""Up to two bytes of offset deltas, by their width, then by number within a block."""
_HURRY_MAX = 1 << 20
"""The first number whose offset delta has four bytes."""
_FIELDS = {
    (size, delta, offset_delta): Struct(
        f"<{'BH'[size - 1]}B{'BH'[delta - 1]}{'BHH'[offset_delta - 1]}{offset_delta // 3}sBBB"
    )
    for size in (1, 2)
    for delta in (1, 2)
    for offset_delta in (1, 2, 3)
}
"""By widths in bytes: size, attributes, timestamp delta, offset delta and the third byte of that,
size of the key, two bytes behind that.
"""
_ENDS = ((0, 0), (0x80, 0), (0x8080, 0x80))
"""Mask and required bits of a varint of one or two bytes, as `_FIELDS` reads it."""


class WalkedRecords(NamedTuple):
    """The range of the timestamp deltas in ms, and whether all records have a key."""

    delta_min: int
    delta_max: int
    all_have_keys: bool


def check_records(data: bytes | memoryview, start: int, count: int) -> WalkedRecords:
    """Check the uncompressed records of a batch.

    Args:
        data: The records, with any bytes in front of them; the records must end where it ends.
        start: Position of the first record.
        count: How many records the header counts, at least one.

    Raises:
        DecodeError: the number of records differs, they do not fill the batch, or a record is
            malformed.
    """
    size = len(data) - start
    if count * RECORD_BYTES_MIN > size:
        raise DecodeError(f"{count} records in {size} bytes")
    if count == 1 and (found := _alone(data, start)) is not None:
        return found
    walk = _Walk(data if isinstance(data, bytes) else bytes(data), start, count)
    try:
        walk.to_the_end()
    except IndexError:
        raise DecodeError(f"{count} records reach beyond {size} bytes") from None
    if walk.position != len(data):
        raise DecodeError(f"{count} records do not fill {size} bytes")
    deltas = [(delta >> 1) ^ -(delta & 1) for delta in walk.deltas]
    return WalkedRecords(min(deltas), max(deltas), walk.all_have_keys)


def _alone(body: bytes | memoryview, start: int) -> WalkedRecords | None:
    """Check the one record of a batch; None if it has headers, large fields, or is not right."""
    try:
        size, position = body[start], start + 1
        if size >= 0x80:
            more, position = body[position], position + 1
            if more >= 0x80:
                return None
            size = size & 0x7F | more << 7
        delta, key = body[position + 1], body[position + 3]
        if size & 1 or position + (size >> 1) != len(body) or delta >= 0x80 or body[position + 2]:
            return None
        position += 4
        if key != _NULL:
            if key & 0x81:
                return None
            position += key >> 1
        value, position = body[position], position + 1
        if value >= 0x80:
            more, position = body[position], position + 1
            if more >= 0x80:
                return None
            value = value & 0x7F | more << 7
        if value != _NULL:
            if value & 1:
                return None
            position += value >> 1
        if body[position] or position + 1 != len(body):
            return None
    except IndexError:
        return None
    delta = (delta >> 1) ^ -(delta & 1)
    return WalkedRecords(delta, delta, key != _NULL)


class _Walk:
    """A cursor over the records of a batch; its position is the beginning of a record."""

    def __init__(self, body: bytes, start: int, count: int) -> None:
        self._body = body
        self._count = count
        self._number = 0
        self._before = start
        """Where the record before begins, which `_step` has checked."""
        self.position = start
        self.deltas: set[int] = set()
        """Timestamp deltas that occur, zig-zag."""
        self.all_have_keys = True

    def to_the_end(self) -> None:
        """Check as many records as are counted."""
        patience = STRIDES_FROM
        while self._number < self._count:
            self._step()
            if self._number == self._count:
                break
            if self._stride():
                patience = STRIDES_FROM
                continue
            # If sizes vary, columns are compared ever less often.
            until = min(self._count, self._number + patience)
            patience *= 2
            while self._number < until:
                number = self._number
                self._hurry(until)
                if self._number == number:
                    self._step()

    def _step(self) -> None:
        """Check one record."""
        body, number = self._body, self._number
        self._before = self.position
        size, position = _size(body, self.position)
        end = position + size
        delta, position = read_bits(body, position + 1, 10)
        offset_delta, position = read_bits(body, position)
        if offset_delta != number << 1:
            raise DecodeError(f"record {number} has another offset delta")
        self.deltas.add(delta)
        if body[position] == _NULL:
            self.all_have_keys = False
        position = _skip_bytes(body, _skip_bytes(body, position))
        headers, position = _size(body, position)
        if headers > end - position:
            raise DecodeError(f"record {number} of {size} bytes with {headers} headers")
        for _ in range(headers):
            if body[position] == _NULL:
                raise DecodeError(f"record {number} has a header without a key")
            position = _skip_bytes(body, _skip_bytes(body, position))
        if position != end:
            raise DecodeError(f"record {number} of {size} bytes has fields of another size")
        self.position = end
        self._number += 1

    def _stride(self) -> bool:
        """Check records of the shape of the one before; returns whether there were some."""
        body, behind, number = self._body, self.position, self._number
        first = self._before
        size = behind - first
        # No further than offset deltas of one width, and of one block.
        block_end = _WIDE_FROM if number < _WIDE_FROM else _BLOCK - number % _BLOCK + number
        most = min(self._count - number, (len(body) - behind) // size, block_end - number)
        # A comparison of a few records makes most comparisons of all records unnecessary.
        few = body[behind : behind + STRIDES_FROM * size : size]
        if most < STRIDES_FROM or few.count(body[first]) < STRIDES_FROM:
            return False
        deltas, offset_deltas, sizes = _shape(body, first)
        if len(sizes) > SHAPE_BYTES_MAX:
            return False
        for at in sizes:
            column = body[at + size : behind + most * size : size]
            if column.count(body[at]) < most:
                most -= len(column.lstrip(body[at : at + 1]))
                if most < STRIDES_FROM:
                    return False
        stop = behind + most * size
        wanted = _offset_columns(number, most)
        if wanted != [body[at + size : stop : size] for at in offset_deltas]:
            return False
        found = _numbers([body[at + size : stop : size] for at in deltas])
        if found is None:
            return False
        self.deltas |= found
        self._number += most
        self.position = stop
        return True

    def _hurry(self, until: int) -> None:
        """Check records without headers, up to a number or to one that is not like the first.

        Their sizes may differ, but the widths of their sizes and deltas are the same.
        """
        body, position, number = self._body, self.position, self._number
        widths = _widths(body, position)
        fields = _FIELDS.get(widths)
        if fields is None or number >= _HURRY_MAX:
            return
        size_width, delta_width, offset_width = widths
        size_mask, size_end = _ENDS[size_width]
        delta_mask, delta_end = _ENDS[delta_width]
        block, number = divmod(number, _BLOCK)
        wanted, third = _OFFSET_DELTAS[offset_width], bytes((block,)) if block else b""
        until = min(until - block * _BLOCK, len(wanted))
        unpack, key_end, last = fields.unpack_from, fields.size - 2, len(body) - fields.size
        deltas: set[int] = set()
        all_have_keys = True
        while number < until and position <= last:
            size, _, delta, offset_delta, rest, key, value, more = unpack(body, position)
            if (
                offset_delta != wanted[number]
                or rest != third
                or size & size_mask != size_end
                or delta & delta_mask != delta_end
            ):
                break
            at = position + key_end
            if key == _NULL:
                all_have_keys = False
            elif key & 0x81:
                break
            else:
                at += key >> 1
                value, more = body[at], body[at + 1]
            if value >= 0x80:
                if more >= 0x80 or value & 1:
                    break
                at += 1
                value = value & 0x7F | more << 7
            elif value & 1 and value != _NULL:
                break
            at += 1 + (value >> 1)
            end = position + size_width + ((size & 0x7F | size >> 8 << 7) >> 1)
            if body[at] or at + 1 != end or size & 1:
                break
            deltas.add(delta)
            position = end
            number += 1
        self.position, self._number = position, block * _BLOCK + number
        self.all_have_keys = self.all_have_keys and all_have_keys
        self.deltas.update(delta & 0x7F | delta >> 8 << 7 for delta in deltas)


def _shape(body: bytes, first: int) -> tuple[range, range, list[int]]:
    """Return the positions in a checked record of both deltas, and of the bytes of its sizes."""
    position = _end(body, first)
    sizes = [*range(first, position)]
    timestamp_delta = range(position + 1, _end(body, position + 1))
    offset_delta = range(timestamp_delta.stop, _end(body, timestamp_delta.stop))
    position = offset_delta.stop

    def note_bytes(position: int) -> int:
        sizes.extend(range(position, _end(body, position)))
        return _skip_bytes(body, position)

    position = note_bytes(note_bytes(position))
    headers, end = _size(body, position)
    sizes.extend(range(position, end))
    position = end
    for _ in range(2 * headers):
        if len(sizes) > SHAPE_BYTES_MAX:
            break
        position = note_bytes(position)
    return timestamp_delta, offset_delta, sizes


def _widths(body: bytes, first: int) -> tuple[int, int, int]:
    """Return how many bytes the size and the deltas of a record have."""
    size_end = _end(body, first)
    delta_end = _end(body, size_end + 1)
    return size_end - first, delta_end - size_end - 1, _end(body, delta_end) - delta_end


def _offset_columns(number: int, count: int) -> list[bytes]:
    """Return the first bytes of the offset deltas from a number on, their second bytes, and so on.

    They are of one block, and of one width.
    """
    if number < _WIDE_FROM:
        return [_NARROW_DELTAS[number : number + count]]
    block, within = divmod(number, _BLOCK)
    low = _LOW[within : within + count]
    if not block:
        return [low, _HIGH[within : within + count]]
    columns = [low, _HIGH_OF_MORE[within : within + count]]
    while block:
        more = block >> 7
        columns.append(bytes((block & 0x7F | (0x80 if more else 0),)) * count)
        block = more
    return columns


def _numbers(columns: list[bytes]) -> set[int] | None:
    """Return the varints of which these are the first bytes, the second ones and so on.

    None if they are not all of that width.
    """
    *continued, last = columns
    if not last.isascii() or any(column.translate(None, _CONTINUED) for column in continued):
        return None
    if not continued:
        return set(last)
    return {
        sum((byte & 0x7F) << 7 * at for at, byte in enumerate(number))
        for number in set(zip(*columns, strict=True))
    }


def _end(body: bytes, position: int) -> int:
    """Return the end position of a varint of any length."""
    while body[position] >= 0x80:
        position += 1
    return position + 1


def _size(body: bytes, position: int) -> tuple[int, int]:
    """Read a varint that must not be negative."""
    byte = body[position]
    if not byte & 0x81:
        return byte >> 1, position + 1
    size, position = read_bits(body, position)
    if size & 1:
        raise DecodeError("negative record size")
    return size >> 1, position


def _skip_bytes(body: bytes, position: int) -> int:
    """Return the end position of a key or value, from its size."""
    if body[position] == _NULL:
        return position + 1
    size, position = _size(body, position)
    return position + size
