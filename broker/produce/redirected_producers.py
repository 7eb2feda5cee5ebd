"""Producers that got the hint at another leader and resend the same batch here.

Most clients fetch the metadata after NOT_LEADER_OR_FOLLOWER and use the new leader. Some send the
same batch to the same broker again until a timer makes them fetch the metadata, so nothing of
theirs is written for seconds. A batch that returns shows that its client ignores the error. From
then on, for a limited time, this broker forwards what the client sends for the partition over this
connection instead of refusing it. A client with several connections may use another one for the
retry.

Batches that were in flight when the first batch of a connection was refused are not forwarded: they
would overtake that one. So the first refused batch must return first. It is recognised by its
producer fields and its records, because a client may build it again with other timestamps for each
attempt. Equal batches of a producer without an id look the same: if one is in flight behind another
that is refused, it is mistaken for that one, and batches sent between both are written after both.

A client is recognised by its address and its client id. Several producers with the same address and
id count as one client: a batch of one may be mistaken for an equal one of another.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from broker.bounds.limits import REDIRECTS_REMEMBERED_MAX, REDIRECTS_REMEMBERED_S
from jbodlab.record_batch.crc32c import crc32c
from jbodlab.vocabulary.ids import TopicPartition

PRODUCER_OFFSET = 43
"""Where a batch begins to be the same in each attempt: producer, sequence, count, records."""


class Sender(NamedTuple):
    """Whence a batch comes.

    Attributes:
        connection: Any object that stands for it.
        peer: Its address and port.
        client_id: Client id, as the client names itself.
        passed_on_as: Client id with which another broker gets its batches.
    """

    connection: object
    peer: str
    client_id: str | None
    passed_on_as: str


_Batch = tuple[str, str | None, TopicPartition, int, int]
"""A client, with all its connections, a partition, and what a batch is known by."""


class Told(msgspec.Struct):
    """A producer that was told who leads."""

    connection: object
    """Kept, so that nobody else gets its id."""
    until_s: float
    first: _Batch | None
    """The batch that was refused first; None once the producer has resent it."""


class RedirectedProducers:
    """The producers that were redirected lately; pure, with the time as an argument."""

    def __init__(self) -> None:
        # Both in the order of their times.
        self.told: dict[tuple[int, TopicPartition], Told] = {}
        """The producers that were redirected lately."""
        self._first: dict[_Batch, float] = {}
        """First refused batches that were not resent yet, and until when they are known."""

    def refused(
        self,
        sender: Sender,
        partition: TopicPartition,
        records: bytes | memoryview | None,
        now_s: float,
    ) -> None:
        """Remember that a producer was redirected, unless it has to resend an earlier batch."""
        self.forget_old(now_s)
        found = self.told.get((id(sender.connection), partition))
        if found is not None and found.first in self._first:
            return
        batch = _batch(sender, partition, records)
        self._note(sender, partition, now_s, batch)
        self._first.pop(batch, None)
        self._first[batch] = now_s + REDIRECTS_REMEMBERED_S
        if len(self._first) > REDIRECTS_REMEMBERED_MAX:
            del self._first[next(iter(self._first))]

    def forget(self, sender: Sender, partition: TopicPartition) -> None:
        """Forget that a producer was redirected: it has to be told anew."""
        told = self.told.pop((id(sender.connection), partition), None)
        if told is not None and told.first is not None:
            self._first.pop(told.first, None)

    def forget_old(self, now_s: float) -> None:
        """Forget old redirections; callers do so before the other methods."""
        while self.told:
            oldest = next(iter(self.told))
            if now_s < self.told[oldest].until_s:
                break
            del self.told[oldest]
        while self._first:
            first = next(iter(self._first))
            if now_s < self._first[first]:
                break
            del self._first[first]

    def is_resending(
        self,
        sender: Sender,
        partition: TopicPartition,
        records: bytes | memoryview | None,
        now_s: float,
    ) -> bool:
        """Return whether a redirected producer resends the refused batch here, or has done so."""
        found = self.told.get((id(sender.connection), partition))
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
        if len(self.told) >= REDIRECTS_REMEMBERED_MAX:
            del self.told[next(iter(self.told))]
        told = Told(sender.connection, now_s + REDIRECTS_REMEMBERED_S, first)
        self.told[id(sender.connection), partition] = told


def _batch(sender: Sender, partition: TopicPartition, records: bytes | memoryview | None) -> _Batch:
    same = memoryview(records or b"")[PRODUCER_OFFSET:]
    ip, _, _ = sender.peer.rpartition(":")
    return ip, sender.client_id, partition, len(same), crc32c(same)
