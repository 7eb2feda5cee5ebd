"""How jbod-console-consumer prints a record: the properties of Kafka's `DefaultMessageFormatter`.

CreateTime:1700000000000<TAB>Partition:0<TAB>Offset:7<TAB>Epoch:3<TAB>h:v,i:w<TAB>key<TAB>value
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from admin_tool.console.client import is_true, unescaped
from admin_tool.errors import AdminError, UsageError

NO_TIMESTAMP, CREATE_TIME, LOG_APPEND_TIME = 0, 1, 2
"""Kinds of timestamps, as librdkafka numbers them."""
_TIME_NAMES = {CREATE_TIME: "CreateTime", LOG_APPEND_TIME: "LogAppendTime"}

_FLAGS = {
    "print.timestamp": False,
    "print.partition": False,
    "print.offset": False,
    "print.epoch": False,
    "print.headers": False,
    "print.key": False,
    "print.value": True,
}
_TEXTS = {
    "key.separator": "\t",
    "line.separator": "\n",
    "headers.separator": ",",
    "null.literal": "null",
}
_DESERIALIZERS = ("key.deserializer", "value.deserializer", "headers.deserializer")

_NUMBERS = {
    "ShortDeserializer": ">h",
    "IntegerDeserializer": ">i",
    "LongDeserializer": ">q",
    "FloatDeserializer": ">f",
    "DoubleDeserializer": ">d",
}
_AS_THEY_ARE = ("StringDeserializer", "ByteArrayDeserializer", "BytesDeserializer")

Deserialize = Callable[[bytes], bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownRecord:
    """A record; `epoch` is None where the client does not know it."""

    partition: int
    offset: int
    epoch: int | None
    timestamp_type: int
    timestamp: int
    headers: Sequence[tuple[str, bytes | None]]
    key: bytes | None
    value: bytes | None


class Formatter:
    """Prints records as its properties say."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        """Read the properties.

        Raises:
            UsageError: one is not known.
        """
        for name in properties:
            if name not in _FLAGS and name not in _TEXTS and name not in _DESERIALIZERS:
                known = ", ".join([*_FLAGS, *_TEXTS, *_DESERIALIZERS])
                raise UsageError(f"{name} is no property of the formatter: {known}")
        self._shown = {
            name for name, on in _FLAGS.items() if is_true(properties.get(name, str(on)))
        }
        texts = {
            name: unescaped(properties.get(name, default)).encode()
            for name, default in _TEXTS.items()
        }
        self._separator = texts["key.separator"]
        self._line_end = texts["line.separator"]
        self._between_headers = texts["headers.separator"]
        self._null = texts["null.literal"]
        self._key, self._value, self._header = (
            deserializer(properties.get(name, "StringDeserializer")) for name in _DESERIALIZERS
        )

    def line(self, record: ShownRecord) -> bytes:
        """Return what is printed of a record.

        Raises:
            AdminError: the deserializer does not fit its bytes.
        """
        parts = [self._part(name, record) for name in _FLAGS if name in self._shown]
        return self._separator.join(parts) + self._line_end

    def _part(self, name: str, record: ShownRecord) -> bytes:
        match name:
            case "print.timestamp":
                kind = _TIME_NAMES.get(record.timestamp_type)
                return f"{kind}:{record.timestamp}".encode() if kind else b"NO_TIMESTAMP"
            case "print.partition":
                return f"Partition:{record.partition}".encode()
            case "print.offset":
                return f"Offset:{record.offset}".encode()
            case "print.epoch":
                return f"Epoch:{'NOT_PRESENT' if record.epoch is None else record.epoch}".encode()
            case "print.headers":
                headers = [
                    key.encode() + b":" + self._read(self._header, value)
                    for key, value in record.headers
                ]
                return self._between_headers.join(headers) or b"NO_HEADERS"
            case "print.key":
                return self._read(self._key, record.key)
            case _:
                return self._read(self._value, record.value)

    def _read(self, deserialize: Deserialize, data: bytes | None) -> bytes:
        return self._null if data is None else deserialize(data)


def deserializer(class_name: str) -> Deserialize:
    """Return what a deserializer class of Kafka does, and the text of its result.

    Raises:
        UsageError: a class that is not built in; Java classes cannot be run here.
    """
    name = class_name.rpartition(".")[2]
    if name in _AS_THEY_ARE:
        return bytes
    if name not in _NUMBERS:
        known = ", ".join([*_AS_THEY_ARE, *_NUMBERS])
        raise UsageError(f"deserializer {class_name} is not available, only {known} are")
    packed = struct.Struct(_NUMBERS[name])

    def read(data: bytes) -> bytes:
        if len(data) != packed.size:
            raise AdminError(f"{name}: {len(data)} bytes are no number of {packed.size}")
        return str(packed.unpack(data)[0]).encode()

    return read
