"""Appends batches of clients here, or forwards those of redirected clients to the leader.

If a client got the hint at another leader and resends the batch here, this broker forwards it. The
connection starts nothing after such batches until they are answered, so batches of one connection
reach the leader in order. A client that changes the connection or the broker meanwhile has no order
in Kafka either. Forwarded batches count as traffic of the other broker, unless it does not respond;
quotas are applied here.

Kafka forwards nothing: there such a client waits for its own timer
(`broker.clients.client_behaviour`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from broker.api.services.leader_hints import REDIRECTING, LeaderHints
from broker.clients.client_quotas import ClientQuotas
from broker.clients.traffic import Traffic
from broker.metadata.metadata_cache import BrokerNode, MetadataCache
from broker.produce.forwarded_appends import ForwardedAppends, NoReply
from broker.produce.redirected_producers import RedirectedProducers, Sender
from jbodlab.kafka_wire.produce_response import ProducedPartition, ProducedTopic
from jbodlab.metadata.client_quota import PRODUCER_RATE
from jbodlab.metadata.image.metadata_delta import MetadataDelta
from jbodlab.metadata.image.metadata_image import MetadataImage
from jbodlab.peers.client_security import ClientSecurity
from jbodlab.server.answer import MILLISECOND, Answer, Handler, Later, NoAnswer, RequestContext
from jbodlab.server.passed_on import client_id_for, named_client
from jbodlab.server.resources import replaced
from jbodlab.server.response import Response
from jbodlab.server.rights import client_of
from jbodlab.vocabulary.ids import INTERNAL_TOPICS, NO_LEADER, BrokerId, TopicPartition

if TYPE_CHECKING:
    from kio.schema.produce.v12.request import ProduceRequest

Records = bytes | memoryview | None


class Dividing(msgspec.Struct, frozen=True):
    """A request that is divided.

    Attributes:
        forwarded: The leaders of the batches that are forwarded, by the place of the batch.
        leaders: Each of them once, in the order of their results.
    """

    forwarded: Mapping[int, BrokerNode]
    leaders: Sequence[BrokerNode]


class ProduceForwarder:
    """Decides which batches of which client are appended here, and which are forwarded.

    Args:
        cache: Knows who leads, and where that broker is.
        broker_id: Ours.
        now_s: Clock that never goes back.
        traffic: Counts batches that were forwarded in vain.
        quotas: Of clients.
        security: How other brokers are reached.
    """

    def __init__(
        self,
        cache: MetadataCache,
        broker_id: BrokerId,
        now_s: Callable[[], float],
        traffic: Traffic,
        quotas: ClientQuotas,
        security: ClientSecurity | None = None,
    ) -> None:
        self._cache = cache
        self._broker_id = broker_id
        self._now_s = now_s
        self._traffic = traffic
        self._quotas = quotas
        self._redirected = RedirectedProducers()
        self.told = self._redirected.told
        """The producers that were redirected lately; only their batches are forwarded."""
        self._requests = ForwardedAppends(security)

    def around(self, handler: Handler) -> Handler:
        """Return the handler of produce requests, some of which are forwarded."""
        return ForwardingProduce(handler, self)

    def to_forward(
        self, request: ProduceRequest, context: RequestContext
    ) -> Mapping[int, BrokerNode]:
        """Return the leaders of the batches to forward, by the place of the batch."""
        found: dict[int, BrokerNode] = {}
        sender = self._sender(context)
        if sender is None:
            return found
        leaders: set[BrokerNode] = set()
        now_s = self._now_s()
        self._redirected.forget_old(now_s)
        for place, (partition, records) in enumerate(_batches(request)):
            leader = self._leader(partition)
            if leader == self._broker_id:
                self._redirected.forget(sender, partition)
            elif self._redirected.is_resending(sender, partition, records, now_s):
                node = self._cache.peer(leader)
                if node is not None and (node in leaders or len(leaders) < self._requests.room):
                    found[place] = node
                    leaders.add(node)
                else:
                    # It is refused: what comes behind it must not overtake it.
                    self._redirected.forget(sender, partition)
        return found

    def metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Wait little longer for brokers that lead no longer; `cache` knows of it already."""
        self._requests.leads_no_longer(
            lambda broker_id, partition: self._leader(partition) == broker_id
        )

    def close(self) -> None:
        """Close idle connections to other brokers."""
        self._requests.close()

    def _sender(self, context: RequestContext) -> Sender | None:
        """Return who has to be redirected before anything is forwarded; nothing is for a broker.

        Any client can take a client id as brokers have it.
        """
        client_id, session = context.header.client_id, context.session
        if named_client(client_id) is not None and self._cache.is_for_brokers(
            context.listener_name
        ):
            return None
        return Sender(session, session.peer, client_id, client_id_for(client_of(session)))

    def _leader(self, partition: TopicPartition) -> BrokerId:
        registration = self._cache.partition(partition)
        # No client writes to the brokers' own topics, but for one, which is known by its id.
        if registration is None or partition.topic in INTERNAL_TOPICS:
            return NO_LEADER
        return registration.leader

    def divided(
        self,
        own: Handler,
        request: ProduceRequest,
        context: RequestContext,
        forwarded: Mapping[int, BrokerNode],
    ) -> Later:
        """Have batches appended here and at other leaders.

        Args:
            own: Appends what belongs here.
            request: The client's request.
            context: Of that request.
            forwarded: See `to_forward`.
        """
        by_leader: dict[BrokerNode, list[int]] = {}
        for place, leader in forwarded.items():
            by_leader.setdefault(leader, []).append(place)
        kept = own.answer(_part(request, lambda place: place not in forwarded), context)
        client_id = client_id_for(client_of(context.session))
        # Without acks there is no answer: nobody would know when the next batch may follow.
        acked = replaced(request, acks=request.acks or 1)
        parts = {
            leader: self._requests.append(
                leader, client_id, context.version, _part(acked, places.__contains__)
            )
            for leader, places in by_leader.items()
        }
        size = sum(
            len(records or b"")
            for place, (_, records) in enumerate(_batches(request))
            if place in forwarded
        )
        throttle_ms = self._quotas.throttle(
            PRODUCER_RATE, context.header.client_id, context.session, size
        )
        everything: list[asyncio.Future[Any]] = [*parts.values()]
        if isinstance(kept, Later):
            everything.append(kept.future)
        task = asyncio.get_running_loop().create_task(_all(everything))
        # A task that is cancelled before its first step has not begun to wait for the parts.
        task.add_done_callback(lambda _: [each.cancel() for each in everything])
        divided = Dividing(forwarded, [*parts])
        finish = partial(self._joined, request, context, kept, divided, throttle_ms)
        return Later(task, finish, overlaps=False)

    def _joined(
        self,
        request: ProduceRequest,
        context: RequestContext,
        kept: Answer,
        divided: Dividing,
        throttle_ms: int,
        results: list[Any],
    ) -> Response:
        """Return the response to all batches, each at its place."""
        own: Any = kept.finish(results[-1]) if isinstance(kept, Later) else kept
        if isinstance(own, NoAnswer) and own.failure is not None:
            return own
        elsewhere = dict(zip(divided.leaders, map(iter, results), strict=False))
        here: Iterator[ProducedPartition] = iter(())
        if not isinstance(own, NoAnswer):
            here = (each for _, produced in own.responses for each in produced)
        hints = LeaderHints(self._cache, self._broker_id, context.listener_name)
        sender, place = self._sender(context), count()
        topics: list[tuple[str, list[ProducedPartition]]] = []
        for topic in request.topic_data:
            found = []
            for data in topic.partition_data:
                leader = divided.forwarded.get(next(place))
                if leader is None and request.acks:
                    # It is noted already.
                    found.append(next(here))
                elif leader is not None:
                    result = next(elsewhere[leader])
                    each = hints.produced(result)
                    if isinstance(result, NoReply):
                        self._traffic.produce_failed(topic.name, result.error_code)
                    self._note(sender, topic.name, each, data.records, isinstance(result, NoReply))
                    found.append(each)
            topics.append((topic.name, found))
        if isinstance(own, NoAnswer):
            failed = [each for _, some in topics for each in some if each.error_code]
            return replace(own, failure="forwarding with acks=0 failed" if failed else None)
        known = {each.node_id for each in own.node_endpoints}
        joined: Response = replace(
            own,
            responses=topics,
            node_endpoints=[
                *own.node_endpoints,
                *(each for each in hints.endpoints if each.node_id not in known),
            ],
            throttle_time=max(own.throttle_time, throttle_ms * MILLISECOND),
        )
        return joined

    def refused(
        self, request: ProduceRequest, context: RequestContext, topics: Sequence[ProducedTopic]
    ) -> None:
        """Note to whom the response of this broker tells another leader."""
        sender = self._sender(context)
        for topic, (name, produced) in zip(request.topic_data, topics, strict=True):
            for data, each in zip(topic.partition_data, produced, strict=True):
                if each.error_code:
                    self._note(sender, name, each, data.records)

    def _note(
        self,
        sender: Sender | None,
        topic: str,
        produced: ProducedPartition,
        records: Records,
        has_no_reply: bool = False,
    ) -> None:
        """Note an error that a client gets; called in the order of the responses."""
        # A batch without a reply must be resent as well: else the next batch would overtake it.
        is_redirected = produced.error_code in REDIRECTING or has_no_reply
        if sender is not None and is_redirected:
            partition = TopicPartition(topic, produced.partition_index)
            self._redirected.refused(sender, partition, records, self._now_s())


class ForwardingProduce:
    """The handler of produce requests, with what is forwarded.

    Args:
        handler: Appends what belongs here.
        forwarder: Forwards the rest.
    """

    def __init__(self, handler: Handler, forwarder: ProduceForwarder) -> None:
        self._handler = handler
        self._forwarder = forwarder
        self.failure = self.refused = handler.failure

    def answer(self, request: Any, context: RequestContext) -> Answer:
        """Answer a request; see `Handler`."""
        forwarder = self._forwarder
        if forwarder.told and (forwarded := forwarder.to_forward(request, context)):
            return forwarder.divided(self._handler, request, context, forwarded)
        return self._handler.answer(request, context)


def _batches(request: ProduceRequest) -> Iterator[tuple[TopicPartition, Records]]:
    for topic in request.topic_data:
        for data in topic.partition_data:
            yield TopicPartition(topic.name, data.index), data.records


def _part(request: ProduceRequest, has: Callable[[int], bool]) -> ProduceRequest:
    """Return a request with those of its batches whose places are wanted."""
    place = count()
    topics = []
    for topic in request.topic_data:
        some = tuple(data for data in topic.partition_data if has(next(place)))
        if some:
            topics.append(replaced(topic, partition_data=some))
    part: ProduceRequest = replaced(request, topic_data=tuple(topics))
    return part


async def _all(parts: Sequence[asyncio.Future[Any]]) -> list[Any]:
    """Return the results of all parts; who cancels this cancels the parts."""
    return await asyncio.gather(*parts)
