"""Appends batches of clients here, or forwards those of redirected clients to the leader.

If a client got the hint at another leader and resends the batch here, this broker forwards it. The
connection starts nothing after such batches until they are answered, so batches of one connection
reach the leader in order. A client that changes the connection or the broker meanwhile has no order
in Kafka either.

Kafka forwards nothing: there such a client waits for its own timer
(`broker.clients.client_behaviour`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

import msgspec

from broker.metadata.metadata_cache import BrokerNode, MetadataCache
from broker.produce.appends import AppendService
from broker.produce.forwarded_appends import ForwardedAppends, NoReply
from broker.produce.redirected_producers import RedirectedProducers, Sender
from broker.replica.waiting import AppendEntry, AppendResult, BatchTransaction
from jbodlab.metadata.image.metadata_delta import MetadataDelta
from jbodlab.metadata.image.metadata_image import MetadataImage
from jbodlab.peers.client_security import ClientSecurity
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import INTERNAL_TOPICS, NO_LEADER, BrokerId, TopicPartition

REDIRECTING = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        # Not in KIP-951: a failed directory moves the leader just the same.
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
"""Errors after which a client looks for another leader."""


class Appending(msgspec.Struct, frozen=True):
    """Results to come.

    Attributes:
        future: The results, in the order of the entries.
        forwarded: The leaders of the entries that are forwarded, by the index of the entry.
    """

    future: asyncio.Future[list[AppendResult]]
    forwarded: Mapping[int, BrokerNode]


class ProduceForwarder:
    """Decides which batches of which client are appended here, and which are forwarded.

    Args:
        appends: Of this broker.
        cache: Knows who leads, and where that broker is.
        broker_id: Ours.
        now_s: Clock that never goes back.
        security: How other brokers are reached.
    """

    def __init__(
        self,
        appends: AppendService,
        cache: MetadataCache,
        broker_id: BrokerId,
        now_s: Callable[[], float],
        security: ClientSecurity | None = None,
    ) -> None:
        self._appends = appends
        self._cache = cache
        self._broker_id = broker_id
        self._now_s = now_s
        self._redirected = RedirectedProducers()
        self.redirected = self._redirected.told
        """The producers that were redirected lately; only their batches are forwarded."""
        self._requests = ForwardedAppends(security)

    def append(
        self,
        sender: Sender,
        entries: Sequence[AppendEntry],
        acks: int,
        timeout_ms: int,
        transaction: BatchTransaction | None = None,
    ) -> Appending | None:
        """Append batches here and at other leaders; None if all of them belong here.

        Args:
            sender: Whence they come; not another broker, whose batches are never forwarded.
            entries: The batches.
            acks: 0, 1 or -1.
            timeout_ms: How long the replicas are waited for.
            transaction: The transaction of its batches that belong to one.
        """
        forwarded = self._to_forward(sender, entries)
        if not forwarded:
            return None
        work = self._append_and_forward(
            sender.passed_on_as, entries, forwarded, acks, timeout_ms, transaction
        )
        return Appending(work, forwarded)

    def refused(
        self, sender: Sender | None, result: AppendResult, records: bytes | memoryview | None
    ) -> None:
        """Note an error that a client gets; called in the order of the responses."""
        # A batch without a reply must be resent as well: else the next batch would overtake it.
        is_told = result.error_code in REDIRECTING or isinstance(result, NoReply)
        if sender is not None and is_told:
            self._redirected.refused(sender, result.topic_partition, records, self._now_s())

    def metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Wait little longer for brokers that lead no longer; `cache` knows of it already."""
        self._requests.leads_no_longer(
            lambda broker_id, partition: self._leader(partition) == broker_id
        )

    def close(self) -> None:
        """Close idle connections to other brokers."""
        self._requests.close()

    def _to_forward(
        self, sender: Sender, entries: Sequence[AppendEntry]
    ) -> Mapping[int, BrokerNode]:
        """Return the leaders of the entries to forward, by the index of the entry."""
        found: dict[int, BrokerNode] = {}
        leaders: set[BrokerNode] = set()
        now_s = self._now_s()
        self._redirected.forget_old(now_s)
        for place, entry in enumerate(entries):
            partition = entry.topic_partition
            leader = self._leader(partition)
            if leader == self._broker_id:
                self._redirected.forget(sender, partition)
            elif self._redirected.is_resending(sender, partition, entry.records, now_s):
                node = self._cache.peer(leader)
                if node is not None and (node in leaders or len(leaders) < self._requests.room):
                    found[place] = node
                    leaders.add(node)
                else:
                    # It is refused: what comes behind it must not overtake it.
                    self._redirected.forget(sender, partition)
        return found

    def _leader(self, partition: TopicPartition) -> BrokerId:
        registration = self._cache.partition(partition)
        # No client writes to the brokers' own topics, but for one, which is known by its id.
        if registration is None or partition.topic in INTERNAL_TOPICS:
            return NO_LEADER
        return registration.leader

    def _append_and_forward(
        self,
        client_id: str,
        entries: Sequence[AppendEntry],
        forwarded: Mapping[int, BrokerNode],
        acks: int,
        timeout_ms: int,
        transaction: BatchTransaction | None,
    ) -> asyncio.Task[list[AppendResult]]:
        places: dict[BrokerNode | None, list[int]] = {}
        for place in range(len(entries)):
            places.setdefault(forwarded.get(place), []).append(place)
        parts: list[asyncio.Future[list[AppendResult]]] = []
        for leader, some in places.items():
            of_leader = [entries[place] for place in some]
            if leader is None:
                parts.append(self._appends.append(of_leader, acks, timeout_ms, transaction))
            else:
                parts.append(
                    self._requests.append(
                        leader, client_id, of_leader, acks, timeout_ms, transaction
                    )
                )
        task = asyncio.get_running_loop().create_task(_joined([*places.values()], parts))
        # A task that is cancelled before its first step has not begun to wait for the parts.
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
