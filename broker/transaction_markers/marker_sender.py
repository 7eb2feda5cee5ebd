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
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple

import msgspec

from broker.bounds.limits import MARKER_CONNECT_TIMEOUT_S, MARKER_REQUESTS_MAX, MARKERS_AT_ONCE
from broker.metadata.metadata_cache import MetadataCache
from broker.produce.marker_appends import MarkerAppends, TransactionMarker
from broker.transactions.decision import MarkersDue
from broker.transactions.transaction import EPOCH_BUMP_FROM
from jbodlab.kafka_wire.api_table import ApiKey, item_class, request_class
from jbodlab.peers.client_security import ClientSecurity
from jbodlab.peers.peer_pool import PeerPool
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import DecodeError
from jbodlab.vocabulary.ids import BrokerId, DirectoryId, LeaderEpoch, TopicPartition

logger = logging.getLogger(__name__)

CLIENT_ID = "transaction-coordinator"
PAUSE_S, PAUSE_MAX_S = 0.02, 0.5
"""Pause before a marker is sent again that a leader did not take; it doubles each time."""
ANSWER_TIMEOUT_S = 30.0
"""Longest wait for an answer: markers are answered when all in-sync replicas have them."""

VERSION = 2
"""Of WriteTxnMarkers: the first that names the transaction.version."""

Codes = Mapping[tuple[int, TopicPartition], ErrorCode]
"""By producer id and partition."""
Written = Callable[[MarkersDue, tuple[TopicPartition, ...]], None]


class MarkerLane(NamedTuple):
    """The leaders that one request is for: those in one directory of a broker."""

    broker_id: BrokerId
    directory_id: DirectoryId


class _Order(msgspec.Struct, eq=False):
    """The markers of one transaction.

    Attributes:
        unmarked: Partitions without their marker; the request that is under way for each, if any.
    """

    index: int
    coordinator_epoch: LeaderEpoch
    due: MarkersDue
    written: Written
    unmarked: dict[TopicPartition, _Sent | None]
    pause_s: float = PAUSE_S
    is_due: bool = True
    retry: asyncio.TimerHandle | None = None


class _Sent(msgspec.Struct, eq=False):
    """A request under way: the markers, and in which epoch each partition was led."""

    lane: MarkerLane
    markers: list[tuple[_Order, TopicPartition, LeaderEpoch]]


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
        self._sent: dict[asyncio.Task[None], _Sent] = {}
        self._under_way: Counter[MarkerLane] = Counter()
        self._look: asyncio.Handle | None = None
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
        unmarked: dict[TopicPartition, _Sent | None] = dict.fromkeys(due.partitions)
        order = _Order(index, coordinator_epoch, due, written, unmarked)
        self._orders[index, due.transactional_id] = order
        self._look_soon()

    def coordinator_ended(self, index: int) -> None:
        """Forget the markers of a coordinator; the next one sends them anew."""
        for key in [key for key in self._orders if key[0] == index]:
            self._forget(key)

    def metadata_changed(self) -> None:
        """Ask those who lead now."""
        for order in self._orders.values():
            for each, sent in order.unmarked.items():
                if sent is None or not self._still_leads(sent, order, each):
                    order.unmarked[each] = None
                    order.is_due = True
        if self._orders:
            self._look_soon()

    async def close(self) -> None:
        """Give up what is under way; the next coordinators go on with it."""
        for key in [*self._orders]:
            self._forget(key)
        if self._look is not None:
            self._look.cancel()
        tasks = [*self._sent]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._peers.close()

    def _forget(self, key: tuple[int, str]) -> None:
        order = self._orders.pop(key, None)
        if order is not None and order.retry is not None:
            order.retry.cancel()

    # Sending

    def _look_soon(self) -> None:
        if self._look is None:
            self._look = asyncio.get_running_loop().call_soon(self._send_due)

    def _send_due(self) -> None:
        """Send what is due; what falls due in one turn of the loop travels together."""
        self._look = None
        lanes: dict[MarkerLane, _Sent] = {}
        for order in [*self._orders.values()]:
            if order.is_due:
                self._add(order, lanes)
        for lane, sent in lanes.items():
            if not sent.markers:
                continue
            self._under_way[lane] += 1
            task = asyncio.get_running_loop().create_task(self._exchange(sent), name="markers")
            self._sent[task] = sent
            task.add_done_callback(self._ended)

    def _add(self, order: _Order, lanes: dict[MarkerLane, _Sent]) -> None:
        """Put the markers of a transaction into requests, as far as there is room."""
        order.is_due = False
        gone = []
        for each, under_way in order.unmarked.items():
            if under_way is not None:
                continue
            registration = self._cache.partition(each)
            if registration is None:
                gone.append(each)
                continue
            is_own = registration.leader == self._broker_id
            if not is_own and self._cache.peer(registration.leader) is None:
                # Tried again when the metadata changes.
                continue
            lane = MarkerLane(registration.leader, registration.directory(registration.leader))
            sent = lanes.setdefault(lane, _Sent(lane, []))
            is_full = len(sent.markers) >= MARKERS_AT_ONCE
            if is_full or self._under_way[lane] >= MARKER_REQUESTS_MAX:
                # When one of them has been answered.
                order.is_due = True
                continue
            order.unmarked[each] = sent
            sent.markers.append((order, each, registration.leader_epoch))
        self._done(order, gone)

    def _still_leads(self, sent: _Sent, order: _Order, partition: TopicPartition) -> bool:
        registration = self._cache.partition(partition)
        return registration is not None and any(
            other is order and each == partition and epoch == registration.leader_epoch
            for other, each, epoch in sent.markers
        )

    async def _exchange(self, sent: _Sent) -> None:
        broker_id = sent.lane.broker_id
        try:
            if broker_id == self._broker_id:
                codes = await self._write(sent)
            else:
                codes = await self._call(broker_id, sent)
        except (OSError, TimeoutError, DecodeError) as error:
            logger.info("cannot send markers to broker %d: %s", broker_id, error)
            codes = {}
        done: dict[_Order, list[TopicPartition]] = {}
        for order, each, _ in sent.markers:
            code = codes.get((order.due.producer_id, each), ErrorCode.NETWORK_EXCEPTION)
            self._answered(order, each, sent, code, done)
        for order, partitions in done.items():
            self._done(order, partitions)

    def _answered(
        self,
        order: _Order,
        partition: TopicPartition,
        sent: _Sent,
        code: ErrorCode,
        done: dict[_Order, list[TopicPartition]],
    ) -> None:
        if partition not in order.unmarked:
            return
        if code is ErrorCode.NONE:
            done.setdefault(order, []).append(partition)
            return
        self.refusals[code] += 1
        if order.unmarked[partition] is sent:
            order.unmarked[partition] = None
            self._retry_later(order, partition, code)

    def _retry_later(self, order: _Order, partition: TopicPartition, code: ErrorCode) -> None:
        logger.debug(
            "the marker of transaction %s is not written: %s",
            order.due.transactional_id,
            code.name,
            extra=partition._asdict(),
        )
        if order.retry is None:
            loop = asyncio.get_running_loop()
            order.retry = loop.call_later(order.pause_s, partial(self._again, order))
            order.pause_s = min(2 * order.pause_s, PAUSE_MAX_S)

    def _again(self, order: _Order) -> None:
        order.retry = None
        order.is_due = True
        self._look_soon()

    def _done(self, order: _Order, partitions: Sequence[TopicPartition]) -> None:
        if not partitions:
            return
        for each in partitions:
            order.unmarked.pop(each, None)
        key = (order.index, order.due.transactional_id)
        if self._orders.get(key) is not order:
            return
        if not order.unmarked:
            self._forget(key)
        order.written(order.due, tuple(partitions))

    def _ended(self, task: asyncio.Task[None]) -> None:
        sent = self._sent.pop(task)
        self._under_way[sent.lane] -= 1
        if not self._under_way[sent.lane]:
            del self._under_way[sent.lane]
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("sending markers failed", exc_info=error)
            for order, each, _ in sent.markers:
                if order.unmarked.get(each) is sent:
                    order.unmarked[each] = None
                    self._retry_later(order, each, ErrorCode.UNKNOWN_SERVER_ERROR)
        if any(order.is_due for order in self._orders.values()):
            self._look_soon()

    async def _write(self, sent: _Sent) -> Codes:
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
            for order, partitions in _by_order(sent)
        ]
        results = iter(await self._own.write_markers(markers))
        return {
            (marker.producer_id, each): next(results).error_code
            for marker in markers
            for each in marker.partitions
        }

    async def _call(self, broker_id: BrokerId, sent: _Sent) -> Codes:
        """Send markers to another broker."""
        node = self._cache.peer(broker_id)
        if node is None:
            raise ConnectionError(f"broker {broker_id} is not available")
        response = await self._peers.call(
            (node.host, node.port),
            ApiKey.WRITE_TXN_MARKERS,
            VERSION,
            _request(sent),
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


def _by_order(sent: _Sent) -> Iterable[tuple[_Order, list[TopicPartition]]]:
    by_order: dict[_Order, list[TopicPartition]] = {}
    for order, each, _ in sent.markers:
        by_order.setdefault(order, []).append(each)
    return by_order.items()


def _request(sent: _Sent) -> Any:
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
            for order, partitions in _by_order(sent)
        )
    )


def _checked_by(due: MarkersDue) -> int:
    """Return the version by which the leader checks the epoch."""
    return due.transaction_version if due.transaction_version >= EPOCH_BUMP_FROM else 0
