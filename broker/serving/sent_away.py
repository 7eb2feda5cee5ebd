"""Who was told that another broker leads a partition, and comes back nevertheless.

Most clients ask for the metadata when they are sent away, and turn to the new leader. Some send the
same batch to the same broker again and again, until a timer of their own has them look at the
metadata: nothing of theirs is written for seconds. A batch that comes back shows that its client
has been told, and does not listen. From then on, for a limited time, what it sends for the
partition over this connection is better passed on than refused. A client with several connections
may come back over another one than that over which it was told.

Nothing that was under way when the first batch of a connection was refused is passed on: it would
overtake that one. So it is the first refused batch that has to come back. It is known by what it
says of its producer and by its records, as a client may build it anew, with another time, for each
attempt. Of a producer without an id, equal batches cannot be told apart: where one is under way
behind another that is refused, it is taken for that one, and what was sent between both comes
behind it.

A client is known by its address and its id. Several producers behind one address that call
themselves the same are one client here: a batch of one may be taken for an equal one of another.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from jbodlab.ids import TopicPartition
from jbodlab.protocol.crc32c import crc32c

REMEMBERED_S = 10.0
"""How long a client is taken for told; longer than any of them keeps metadata that are wrong."""

REMEMBERED_MAX = 10_000
"""Partitions of clients; the oldest are forgotten, and told again."""

PRODUCER_OFFSET = 43
"""Where a batch begins to be the same in each attempt: producer, sequence, count, records."""


class Sender(NamedTuple):
    """Whence a batch comes.

    Attributes:
        connection: Any object that stands for it.
        peer: Its address and port.
        client_id: What the client calls itself.
    """

    connection: object
    peer: str
    client_id: str | None


_Batch = tuple[str, str | None, TopicPartition, int, int]
"""A client, with all its connections, a partition, and what a batch is known by."""


class _Told(msgspec.Struct):
    connection: object
    """Kept, so that nobody else gets its id."""
    until_s: float
    first: _Batch | None
    """The batch that was refused first; None for who has come back."""


class SentAway:
    """Remembers; pure, with the time as an argument."""

    def __init__(self) -> None:
        # Both in the order of their times.
        self._told: dict[tuple[int, TopicPartition], _Told] = {}
        self._first: dict[_Batch, float] = {}
        """First refused batches that have not come back, and until when they are known."""

    def __bool__(self) -> bool:
        """Whether anybody was sent away lately."""
        return bool(self._told)

    def refused(
        self,
        sender: Sender,
        partition: TopicPartition,
        records: bytes | memoryview | None,
        now_s: float,
    ) -> None:
        """Remember that a client was sent away, unless it has to come back with one before."""
        self.forget_old(now_s)
        found = self._told.get((id(sender.connection), partition))
        if found is not None and found.first in self._first:
            return
        batch = _batch(sender, partition, records)
        self._note(sender, partition, now_s, batch)
        self._first.pop(batch, None)
        self._first[batch] = now_s + REMEMBERED_S
        if len(self._first) > REMEMBERED_MAX:
            del self._first[next(iter(self._first))]

    def forget(self, sender: Sender, partition: TopicPartition) -> None:
        """Forget that a client was sent away: it has to be told anew."""
        told = self._told.pop((id(sender.connection), partition), None)
        if told is not None and told.first is not None:
            self._first.pop(told.first, None)

    def forget_old(self, now_s: float) -> None:
        """Forget whoever was told too long ago; to be called before the others are asked."""
        while self._told:
            oldest = next(iter(self._told))
            if now_s < self._told[oldest].until_s:
                break
            del self._told[oldest]
        while self._first:
            first = next(iter(self._first))
            if now_s < self._first[first]:
                break
            del self._first[first]

    def comes_back(
        self,
        sender: Sender,
        partition: TopicPartition,
        records: bytes | memoryview | None,
        now_s: float,
    ) -> bool:
        """Return whether a client that was sent away with a batch sends it again, or has done."""
        found = self._told.get((id(sender.connection), partition))
        if found is not None and found.first is None:
            return True
        if self._first.pop(_batch(sender, partition, records), None) is None:
            return False
        if found is None:
            self._note(sender, partition, now_s, None)
        else:
            found.first = None
        return True

    def _note(
        self, sender: Sender, partition: TopicPartition, now_s: float, first: _Batch | None
    ) -> None:
        self.forget(sender, partition)
        if len(self._told) >= REMEMBERED_MAX:
            del self._told[next(iter(self._told))]
        told = _Told(sender.connection, now_s + REMEMBERED_S, first)
        self._told[id(sender.connection), partition] = told


def _batch(sender: Sender, partition: TopicPartition, records: bytes | memoryview | None) -> _Batch:
    same = memoryview(records or b"")[PRODUCER_OFFSET:]
    ip, _, _ = sender.peer.rpartition(":")
    return ip, sender.client_id, partition, len(same), crc32c(same)
