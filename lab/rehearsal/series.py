"""Records of clients, message by message: fixed records in a file that is read as it grows.

Little-endian, without padding:

    sent      52   due 8 | sent 8 | done 8 | sequence 8 | offset 8 | partition 4 | key 4 | error 4
    received  32   at 8 | sequence 8 | offset 8 | partition 4 | key 4
    transaction
              42   begun 8 | asked 8 | done 8 | first 8 | messages 4 | outcome 1 | error 4 | fatal 1

Times are nanoseconds of the monotonic clock. A message is in the file twice: with a `done` of -1
when it is handed to the client library, and once more when it has an answer. One that the library
refuses is in it once. `error` is the client library's number, 0 for an acknowledgement. The
messages of a transaction have their answers with it. It is twice in a file of its own, first when
its commit is asked for; one without an answer has a `done` of -1 and the outcome 2.
"""

from __future__ import annotations

import struct
import sys
from bisect import bisect_left
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Generic, TypeVar

from lab.rehearsal.facts import NOT_ANSWERED, Received, Sent, Transaction

SENT = struct.Struct("<qqqqqiii")
RECEIVED = struct.Struct("<qqqii")
TRANSACTION = struct.Struct("<qqqqibi?")

LOOKED_BACK_MAX = 20_000
"""Messages among which the last one of each partition is looked for."""

R = TypeVar("R", bound=Sent | Received | Transaction)
M = TypeVar("M", bound=Sent | Received)


class GrowingRecords(Generic[R]):
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
        """In the order in which they were written; without what has no answer so far."""
        self._open: dict[Hashable, R] = {}
        """Records that have no answer so far."""
        self.last_due: dict[int, int] = {}
        """When the last message was due that was handed over, by partition."""
        self.errors: set[int] = set()
        """The errors that messages had."""

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
        for values in self._layout.iter_unpack(data[:whole]):
            one = self._record(*values)
            if not isinstance(one, Received) and one.done_ns == NOT_ANSWERED:
                if isinstance(one, Sent):
                    self.last_due[one.partition] = one.due_ns
                self._open[one.identity] = one
                continue
            self.all.append(one)
            if not isinstance(one, Received):
                self._open.pop(one.identity, None)
                if one.error:
                    self.errors.add(one.error)
        return self.all

    @property
    def unanswered(self) -> list[R]:
        """Records that had no answer when they were read last."""
        return list(self._open.values())

    def close(self) -> None:
        """Take in the rest of what was written, and what has no answer: its writer has ended."""
        self.read().extend(self._open.values())
        self._open.clear()


class GrowingSeries(GrowingRecords[M]):
    """A file of messages that somebody else writes; otherwise as `GrowingRecords`."""

    def __init__(self, path: Path, record: type[M], layout: struct.Struct) -> None:
        super().__init__(path, record, layout)
        self._begin_ns: int | None = None
        self._since: list[M] = []
        self._taken = 0
        self.earlier: list[M] = []
        """Of the messages that were due before the last `since`: those that came after it all the
        same, and before it the last one of each partition."""

    def since(self, begin_ns: int) -> list[M]:
        """Take in what was written; returns what belongs to the time from a moment on.

        A message belongs to the time when it was due, or else was received. Asked again for the
        same moment it looks at what is new only, and returns the same list, grown.
        """
        found = self.read()
        if begin_ns != self._begin_ns:
            self._begin_ns, self._since = begin_ns, []
            # An answer comes after its message was due.
            self._taken = bisect_left(found, begin_ns, key=_written_ns)
            self.earlier = self._last_ones(found, self._taken)
        new = found[self._taken :]
        self._since += [one for one in new if one[0] >= begin_ns]
        self.earlier += [one for one in new if one[0] < begin_ns]
        self._taken = len(found)
        return self._since

    def _last_ones(self, found: list[M], end: int) -> list[M]:
        """Return the last answer of each partition among the first so many."""
        last: dict[int, M] = {}
        for position in range(end - 1, max(-1, end - 1 - LOOKED_BACK_MAX), -1):
            last.setdefault(found[position].partition, found[position])
            if len(last) == len(self.last_due):
                break
        return list(last.values())


def _written_ns(one: Sent | Received) -> int:
    if isinstance(one, Received):
        return one.at_ns
    # Without an answer it stands at the end.
    return sys.maxsize if one.done_ns == NOT_ANSWERED else one.done_ns
