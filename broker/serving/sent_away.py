"""Who was told that another broker leads a partition, and comes back nevertheless.

Most clients ask for the metadata when they are sent away, and turn to the new leader. Some send the
same batch to the same broker again and again, until a timer of their own has them look at the
metadata: nothing of theirs is written for seconds. A batch that comes back over the connection
over which it was refused shows that its client has been told, and does not listen. From then on,
for a limited time, what it sends for the partition is better passed on than refused.

Nothing that was under way when the first batch was refused is passed on: it would overtake that
one. So it is the first refused batch that has to come back. It is known by what it says of its
producer and by its records, as a client may build it anew, with another time, for each attempt.
"""

from __future__ import annotations

import msgspec

from jbodlab.ids import TopicPartition
from jbodlab.protocol.crc32c import crc32c

REMEMBERED_S = 10.0
"""How long a client is taken for told; longer than any of them keeps metadata that are wrong."""

REMEMBERED_MAX = 10_000
"""Partitions of clients; the oldest are forgotten, and told again."""

PRODUCER_OFFSET = 43
"""Where a batch begins to be the same in each attempt: producer, sequence, count, records."""


class _SentAway(msgspec.Struct):
    client: object
    """Kept, so that nobody else gets its id."""
    until_s: float
    first: tuple[int, int] | None
    """Of the batch that was refused; None since it has come back."""


class SentAway:
    """Remembers; pure, with the time as an argument. A client is any object: its connection."""

    def __init__(self) -> None:
        # In the order of their times.
        self._by_client: dict[tuple[int, TopicPartition], _SentAway] = {}

    def __bool__(self) -> bool:
        """Whether anybody was sent away lately."""
        return bool(self._by_client)

    def refused(
        self,
        client: object,
        partition: TopicPartition,
        records: bytes | memoryview | None,
        now_s: float,
    ) -> None:
        """Remember that a client was sent away with a batch, unless it was so with one before."""
        self._forget_old(now_s)
        key = id(client), partition
        found = self._by_client.get(key)
        if found is not None and found.first is not None:
            return
        self.is_right(client, partition)
        if len(self._by_client) >= REMEMBERED_MAX:
            del self._by_client[next(iter(self._by_client))]
        self._by_client[key] = _SentAway(client, now_s + REMEMBERED_S, _identity(records))

    def is_right(self, client: object, partition: TopicPartition) -> None:
        """Forget that a client was sent away: this broker leads again."""
        self._by_client.pop((id(client), partition), None)

    def comes_back(
        self,
        client: object,
        partition: TopicPartition,
        records: bytes | memoryview | None,
        now_s: float,
    ) -> bool:
        """Return whether a client that was sent away with a batch sends it again, or has done."""
        self._forget_old(now_s)
        found = self._by_client.get((id(client), partition))
        if found is None:
            return False
        if found.first is not None and found.first == _identity(records):
            found.first = None
        return found.first is None

    def _forget_old(self, now_s: float) -> None:
        while self._by_client:
            oldest = next(iter(self._by_client))
            if now_s < self._by_client[oldest].until_s:
                return
            del self._by_client[oldest]


def _identity(records: bytes | memoryview | None) -> tuple[int, int]:
    same = memoryview(records or b"")[PRODUCER_OFFSET:]
    return len(same), crc32c(same)
