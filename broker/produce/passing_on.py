"""Appends batches of clients here, or forwards those of redirected clients to the leader.

If a client was told of another leader and sends the batch here again, this broker forwards it. The
connection starts nothing after such batches until they are answered, so batches of one connection
reach the leader in order. A client that changes the connection or the broker meanwhile has no order
in Kafka either.

Kafka forwards nothing: there such a client waits for its own timer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

import msgspec

from broker.metadata_cache import BrokerNode, MetadataCache
from broker.produce.appends import AppendService
from broker.produce.other_leaders import OtherLeaders, Unanswered
from broker.produce.sent_away import Sender, SentAway
from broker.replica.client_requests import AppendEntry, AppendResult
from jbodlab.metadata.image.metadata_delta import MetadataDelta
from jbodlab.metadata.image.metadata_image import MetadataImage
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import INTERNAL_TOPICS, NO_LEADER, BrokerId, TopicPartition

SENT_AWAY = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        # Not in KIP-951: a failed directory moves the leader just the same.
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
"""Errors after which a client looks for another leader."""

NOWHERE: Mapping[int, BrokerNode] = {}


class Appending(msgspec.Struct, frozen=True):
    """Results to come, and which of them come from another broker, by their place."""

    future: asyncio.Future[list[AppendResult]]
    elsewhere: Mapping[int, BrokerNode]


class PassingOn:
    """Which batches of which client go where.

    Args:
        appends: Of this broker.
        cache: Knows who leads, and where that broker is.
        broker_id: Ours.
        now_s: Clock that never goes back.
    """

    def __init__(
        self,
        appends: AppendService,
        cache: MetadataCache,
        broker_id: BrokerId,
        now_s: Callable[[], float],
    ) -> None:
        self._appends = appends
        self._cache = cache
        self._broker_id = broker_id
        self._now_s = now_s
        self._sent_away = SentAway()
        self._leaders = OtherLeaders()

    @property
    def may_pass_on(self) -> bool:
        """Whether anybody was sent away lately."""
        return bool(self._sent_away)

    def append(
        self, sender: Sender | None, entries: Sequence[AppendEntry], acks: int, timeout_ms: int
    ) -> Appending:
        """Append batches, each behind all that came for its partition before.

        Args:
            sender: Whence they come; None for another broker, whose are never passed on, and where
                nothing `may_pass_on`.
            entries: The batches.
            acks: 0, 1 or -1.
            timeout_ms: How long the replicas are waited for.
        """
        if sender is not None:
            elsewhere = self._elsewhere(sender, entries)
            if elsewhere:
                work = self._append_elsewhere(entries, elsewhere, acks, timeout_ms)
                return Appending(work, elsewhere)
        return Appending(self._appends.append(entries, acks, timeout_ms), NOWHERE)

    def refused(
        self, sender: Sender | None, result: AppendResult, records: bytes | memoryview | None
    ) -> None:
        """Take notice that a client is told of an error, in the order in which it is told."""
        # What is open must come back as well: else the next batch would overtake it.
        is_told = result.error_code in SENT_AWAY or isinstance(result, Unanswered)
        if sender is not None and is_told:
            self._sent_away.refused(sender, result.topic_partition, records, self._now_s())

    def metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Wait little longer for brokers that lead no longer; `cache` knows of it already."""
        self._leaders.leads_no_longer(
            lambda broker_id, partition: self._leader(partition) == broker_id
        )

    def close(self) -> None:
        """Close idle connections to other brokers."""
        self._leaders.close()

    def _elsewhere(
        self, sender: Sender, entries: Sequence[AppendEntry]
    ) -> Mapping[int, BrokerNode]:
        """Return the entries that are to be passed on, by their place, and to whom."""
        found: dict[int, BrokerNode] = {}
        leaders: set[BrokerNode] = set()
        now_s = self._now_s()
        self._sent_away.forget_old(now_s)
        for place, entry in enumerate(entries):
            partition = entry.topic_partition
            leader = self._leader(partition)
            if leader == self._broker_id:
                self._sent_away.forget(sender, partition)
            elif self._sent_away.comes_back(sender, partition, entry.records, now_s):
                node = self._cache.peer(leader)
                if node is not None and (node in leaders or len(leaders) < self._leaders.room):
                    found[place] = node
                    leaders.add(node)
                else:
                    # It is refused: what comes behind it must not overtake it.
                    self._sent_away.forget(sender, partition)
        return found

    def _leader(self, partition: TopicPartition) -> BrokerId:
        registration = self._cache.partition(partition)
        # No client writes to the brokers' own topics, but for one, which is known by its id.
        if registration is None or partition.topic in INTERNAL_TOPICS:
            return NO_LEADER
        return registration.leader

    def _append_elsewhere(
        self,
        entries: Sequence[AppendEntry],
        elsewhere: Mapping[int, BrokerNode],
        acks: int,
        timeout_ms: int,
    ) -> asyncio.Task[list[AppendResult]]:
        places: dict[BrokerNode | None, list[int]] = {}
        for place in range(len(entries)):
            places.setdefault(elsewhere.get(place), []).append(place)
        parts: list[asyncio.Future[list[AppendResult]]] = []
        for leader, some in places.items():
            of_leader = [entries[place] for place in some]
            if leader is None:
                parts.append(self._appends.append(of_leader, acks, timeout_ms))
            else:
                parts.append(self._leaders.append(leader, of_leader, acks, timeout_ms))
        task = asyncio.get_running_loop().create_task(_joined([*places.values()], parts))
        # Who is cancelled before the first step has not begun to wait for the parts.
        task.add_done_callback(lambda _: [part.cancel() for part in parts])
        return task


async def _joined(
    places: Sequence[Sequence[int]], parts: Sequence[asyncio.Future[list[AppendResult]]]
) -> list[AppendResult]:
    """Return the results of all parts, each at its place; who cancels this cancels the parts."""
    found = {
        place: result
        for some, results in zip(places, await asyncio.gather(*parts), strict=True)
        for place, result in zip(some, results, strict=True)
    }
    return [found[place] for place in sorted(found)]
