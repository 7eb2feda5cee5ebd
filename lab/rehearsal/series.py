"""What clients write down, message by message: fixed records in a file that is read as it grows.

Little-endian, without padding:

    sent      52   due 8 | sent 8 | done 8 | sequence 8 | offset 8 | partition 4 | key 4 | error 4
    received  32   at 8 | sequence 8 | offset 8 | partition 4 | key 4

Times are nanoseconds of the monotonic clock; `done` is -1 for a message without any answer. `error`
is the client library's number, 0 for an acknowledgement.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from lab.rehearsal.facts import Sent

SENT = struct.Struct("<qqqqqiii")
RECEIVED = struct.Struct("<qqqii")


class Received(NamedTuple):
    """A message that a consumer was given; the key tells the producer as well."""

    at_ns: int
    sequence: int
    offset: int
    partition: int
    key: int


R = TypeVar("R", Sent, Received)


class GrowingSeries(Generic[R]):
    """A file of records that somebody else writes.

    Args:
        path: The file, which need not be there yet.
        record: Its records.
        layout: Their bytes.
    """

    def __init__(self, path: Path, record: type[R], layout: struct.Struct) -> None:
        self._path = path
        self._record: Callable[..., R] = record
        self._layout = layout
        self._position = 0
        self.all: list[R] = []

    def read(self) -> list[R]:
        """Take in what was written since the last call; returns all."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._position)
                data = file.read()
        except FileNotFoundError:
            return self.all
        whole = len(data) // self._layout.size * self._layout.size
        self._position += whole
        self.all += [self._record(*each) for each in self._layout.iter_unpack(data[:whole])]
        return self.all
