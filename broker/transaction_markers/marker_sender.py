"""Sends the markers of decided transactions to leaders, until each partition has its own.

A marker is sent again after every error, to whoever leads by then. It is given up only when its
partition is deleted, or its coordinator is another one. Markers travel in one request for each
directory that leaders are in: one that hangs holds up no marker but its own. As long as a leader
owes an answer it is not sent the same marker again, since a late one could end the next transaction
of a producer of version 0 or 1; when another broker leads, that one is asked at once.

Source: `kafka.coordinator.transaction.TransactionMarkerChannelManager`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple

import msgspec

from broker.bounds.limits import MARKER_CONNECT_TIMEOUT_S, MARKER_REQUESTS_MAX, MARKERS_AT_ONCE
from broker.metadata.leader_calls import LeaderCall, LeaderCalls, LeadingNode, Settled
from broker.metadata.metadata_cache import MetadataCache
from broker.produce.marker_appends import MarkerAppends, TransactionMarker
from broker.transactions.decision import MarkersDue
from broker.transactions.transaction import EPOCH_BUMP_FROM
from jbodlab.kafka_wire.api_table import ApiKey, item_class, request_class
from jbodlab.peers.client_security import ClientSecurity
from jbodlab.peers.peer_pool import PeerPool
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import BrokerId, DirectoryId, LeaderEpoch, TopicPartition

logger = logging.getLogger(__name__)

CLIENT_ID = "transaction-coordinator"
ANSWER_TIMEOUT_S = 30.0
"""Longest wait for an answer: markers are answered when all in-sync replicas have them."""

VERSION = 2
"""Of WriteTxnMarkers: the first that names the transaction.version."""

Codes = Mapping[tuple[int, TopicPartition], ErrorCode]
"""By producer id and partition."""
Written = Callable[[MarkersDue, tuple[TopicPartition, ...]], None]
ByOrder = Mapping["_Order", Sequence[TopicPartition]]


class MarkerLane(NamedTuple):
    """The leaders that one request is for: those in one directory of a broker."""

    broker_id: BrokerId
    directory_id: DirectoryId


class _Order(msgspec.Struct, eq=False):
    """The markers of one transaction.

    Attributes:
        unmarked: Partitions without their marker, and the question to each leader.
        marked: Partitions whose coordinator is not told yet that they have theirs.
    """

    index: int
    coordinator_epoch: LeaderEpoch
    due: MarkersDue
    written: Written
    unmarked: dict[TopicPartition, LeaderCall[_Marker, ErrorCode]] = msgspec.field(
        default_factory=dict
    )
    marked: list[TopicPartition] = msgspec.field(default_factory=list)


class _Marker(NamedTuple):
    order: _Order
    partition: TopicPartition


class MarkerSender:
    """Sends markers; on the event loop.

    Args:
        cache: Knows the leaders.
        broker_id: Ours.
        own: Writes markers to the partitions that are led here.
        security: How other brokers are reached.

    Attributes:
        refusals: How often leaders refused a marker, by error code.
    """

    def __init__(
        self,
        cache: MetadataCache,
        broker_id: BrokerId,
        own: MarkerAppends,
        security: ClientSecurity | None = None,
    ) -> None:
        self._cache = cache
        self._broker_id = broker_id
        self._own = own
        self._peers = PeerPool(CLIENT_ID, MARKER_CONNECT_TIMEOUT_S, security)
        self._orders: dict[tuple[int, str], _Order] = {}
        self._calls: LeaderCalls[MarkerLane, _Marker, ErrorCode] = LeaderCalls(
            cache,
            self._leader,
            self._send,
            self._is_written,
            ErrorCode.NETWORK_EXCEPTION,
            at_once=MARKERS_AT_ONCE,
            requests_max=MARKER_REQUESTS_MAX,
        )
        self.refusals: Counter[ErrorCode] = Counter()

    @property
    def waiting_count(self) -> int:
        """Partitions that wait for a marker."""
        return sum(len(order.unmarked) for order in self._orders.values())

    def send(
        self, index: int, coordinator_epoch: LeaderEpoch, due: MarkersDue, written: Written
    ) -> None:
        """Have markers written.

        Args:
            index: The partition of the coordinator.
            coordinator_epoch: In which epoch the coordinator leads it.
            due: Markers to write, with their partitions.
            written: Told of partitions that have their marker, or are no more.
        """
        self._forget((index, due.transactional_id))
        order = _Order(index, coordinator_epoch, due, written)
        self._orders[index, due.transactional_id] = order
        for each in due.partitions:
            order.unmarked[each] = self._calls.ask(
                _Marker(order, each), partial(self._marked, order, each)
            )

    def coordinator_ended(self, index: int) -> None:
        """Forget the markers of a coordinator; the next one sends them anew."""
        for key in [key for key in self._orders if key[0] == index]:
            self._forget(key)

    async def close(self) -> None:
        """Give up what is under way; the next coordinators go on with it."""
        for key in [*self._orders]:
            self._forget(key)
        await self._calls.close()
        self._peers.close()

    def _forget(self, key: tuple[int, str]) -> None:
        order = self._orders.pop(key, None)
        if order is not None:
            for call in order.unmarked.values():
                self._calls.drop(call)

    def _leader(self, marker: _Marker) -> LeadingNode[MarkerLane] | Settled[ErrorCode] | None:
        registration = self._cache.partition(marker.partition)
        if registration is None:
            return Settled(ErrorCode.NONE)
        leader = registration.leader
        if leader != self._broker_id and self._cache.peer(leader) is None:
            return None
        lane = MarkerLane(leader, registration.directory(leader))
        return LeadingNode(lane, registration.leader_epoch)

    def _is_written(self, marker: _Marker, code: ErrorCode) -> bool:
        """Return whether a partition has its marker; a refusal is counted."""
        if code is ErrorCode.NONE:
            return True
        self.refusals[code] += 1
        logger.debug(
            "the marker of transaction %s is not written: %s",
            marker.order.due.transactional_id,
            code.name,
            extra=marker.partition._asdict(),
        )
        return False

    def _marked(self, order: _Order, partition: TopicPartition, _: ErrorCode) -> None:
        del order.unmarked[partition]
        if not order.marked:
            asyncio.get_running_loop().call_soon(self._tell, order)
        order.marked.append(partition)

    def _tell(self, order: _Order) -> None:
        """Tell a coordinator of all partitions that have got their marker in a turn of the loop."""
        marked, order.marked = order.marked, []
        key = (order.index, order.due.transactional_id)
        if self._orders.get(key) is not order:
            return
        if not order.unmarked:
            self._forget(key)
        order.written(order.due, tuple(marked))

    async def _send(self, lane: MarkerLane, markers: Sequence[_Marker]) -> list[ErrorCode]:
        by_order: dict[_Order, list[TopicPartition]] = {}
        for order, partition in markers:
            by_order.setdefault(order, []).append(partition)
        if lane.broker_id == self._broker_id:
            codes = await self._write(by_order)
        else:
            codes = await self._call(lane.broker_id, by_order)
        return [
            codes.get((order.due.producer_id, each), ErrorCode.NETWORK_EXCEPTION)
            for order, each in markers
        ]

    async def _write(self, by_order: ByOrder) -> Codes:
        """Write markers to partitions that are led here."""
        markers = [
            TransactionMarker(
                producer_id=order.due.producer_id,
                producer_epoch=order.due.producer_epoch,
                is_committed=order.due.committed,
                coordinator_epoch=order.coordinator_epoch,
                transaction_version=_checked_by(order.due),
                partitions=tuple(partitions),
            )
            for order, partitions in by_order.items()
        ]
        results = iter(await self._own.write_markers(markers))
        return {
            (marker.producer_id, each): next(results).error_code
            for marker in markers
            for each in marker.partitions
        }

    async def _call(self, broker_id: BrokerId, by_order: ByOrder) -> Codes:
        """Send markers to another broker."""
        node = self._cache.peer(broker_id)
        if node is None:
            raise ConnectionError(f"broker {broker_id} is not available")
        response = await self._peers.call(
            (node.host, node.port),
            ApiKey.WRITE_TXN_MARKERS,
            VERSION,
            _request(by_order),
            ANSWER_TIMEOUT_S,
        )
        return {
            (marker.producer_id, TopicPartition(topic.name, each.partition_index)): ErrorCode(
                int(each.error_code)
            )
            for marker in response.markers
            for topic in marker.topics
            for each in topic.partitions
        }


def _request(by_order: ByOrder) -> Any:
    request: Any = request_class(ApiKey.WRITE_TXN_MARKERS, VERSION)
    marker: Any = item_class(request, "markers")
    topic: Any = item_class(marker, "topics")
    return request(
        markers=tuple(
            marker(
                producer_id=order.due.producer_id,
                producer_epoch=order.due.producer_epoch,
                transaction_result=order.due.committed,
                topics=tuple(
                    topic(name=name, partition_indexes=tuple(each.partition for each in some))
                    for name, some in groupby(sorted(partitions), lambda each: each.topic)
                ),
                coordinator_epoch=order.coordinator_epoch,
                transaction_version=_checked_by(order.due),
            )
            for order, partitions in by_order.items()
        )
    )


def _checked_by(due: MarkersDue) -> int:
    """Return the version by which the leader checks the epoch."""
    return due.transaction_version if due.transaction_version >= EPOCH_BUMP_FROM else 0
