"""Forwards the requests of producers whose coordinator was here to the broker that has it now.

A producer that gets NOT_COORDINATOR looks for its coordinator. Some clients first wait for a timer
of their own (`broker.clients.client_behaviour`), and in that time none of their transactions ends.
So the request waits here for the next leader of the coordinator's partition, is sent there, and the
client gets that broker's response. As it gets no error, it may go on asking here for as long as it
lives.

Kafka forwards nothing: there the gap contains the client's timer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec

from broker.api.services.coordinators import TransactionCoordinators
from broker.bounds.limits import FORWARD_CONNECT_TIMEOUT_S, NEXT_COORDINATOR_MAX_S
from broker.metadata.leader_calls import LeaderCalls, LeadingNode, Settled
from broker.metadata.metadata_cache import MetadataCache
from jbodlab.peers.client_security import ClientSecurity
from jbodlab.peers.peer_pool import PeerPool
from jbodlab.server.answer import Answer, Handler, Later, RequestContext, in_background
from jbodlab.server.passed_on import FORWARDING_CLIENT, client_id_for, named_client
from jbodlab.server.rights import client_of
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.ids import TRANSACTION_STATE_TOPIC, BrokerId

NOT_YET = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS})
"""Responses of a broker that is not yet the coordinator that the metadata name."""


class _Forwarded(msgspec.Struct, eq=False):
    """A client's request, and until when it is answered elsewhere, on the clock of the loop."""

    request: Any
    context: RequestContext
    end_s: float


class NextCoordinator:
    """Has requests answered by the coordinators of other brokers; on the event loop.

    Args:
        cache: Knows who leads, and where that broker is.
        broker_id: Ours.
        own: The coordinators of this broker.
        security: How other brokers are reached.
    """

    def __init__(
        self,
        cache: MetadataCache,
        broker_id: BrokerId,
        own: TransactionCoordinators,
        security: ClientSecurity | None = None,
    ) -> None:
        self._cache = cache
        self._broker_id = broker_id
        self._own = own
        self._peers = PeerPool(FORWARDING_CLIENT, FORWARD_CONNECT_TIMEOUT_S, security)
        self._calls: LeaderCalls[tuple[BrokerId, _Forwarded], _Forwarded, Any] = LeaderCalls(
            cache, self._leader, self._send, lambda _, response: response is not None, None
        )

    def around(self, handler: Handler) -> Handler:
        """Return a handler of producers' requests that are answered elsewhere, if not here."""
        return ForwardedToCoordinator(handler, self)

    async def response(self, own: Handler, request: Any, context: RequestContext) -> Any:
        """Return the response of the own coordinator, or that of the next one.

        The next coordinator may know of the request already, if what the own one has written was
        replicated. It responds as to a client that repeats its request.

        Args:
            own: Asks the coordinator here; its answer comes later.
            request: The client's request.
            context: Of that request.

        Raises:
            KafkaError: The own coordinator's error, if it does not say that the coordinator is
                elsewhere, or if no other coordinator responds in time.
        """
        try:
            answer = own.answer(request, context)
            assert isinstance(answer, Later)
            return answer.finish(await answer.future)
        except KafkaError as error:
            if error.code is not ErrorCode.NOT_COORDINATOR or self._is_forwarded(context):
                raise
            end_s = asyncio.get_running_loop().time() + NEXT_COORDINATOR_MAX_S
            forwarded = _Forwarded(request, context, end_s)
            found = await self._calls.answer(forwarded, NEXT_COORDINATOR_MAX_S)
            if found is None:
                raise
            return found

    async def close(self) -> None:
        """Give up what is under way, and close connections to other brokers."""
        await self._calls.close()
        self._peers.close()

    def _is_forwarded(self, context: RequestContext) -> bool:
        """Return whether another broker sends the request: two must not send it to and fro."""
        return named_client(context.header.client_id) is not None and self._cache.is_for_brokers(
            context.listener_name
        )

    def _leader(
        self, forwarded: _Forwarded
    ) -> LeadingNode[tuple[BrokerId, _Forwarded]] | Settled[None] | None:
        """Return who leads; nobody yet where that is this broker, and another is about to."""
        found = self._cache.coordinator(
            TRANSACTION_STATE_TOPIC, _transactional_id(forwarded.request)
        )
        if found is None:
            return Settled(None)
        (_, index), leader = found
        if leader == self._broker_id:
            return None if self._own.is_offline(index) else Settled(None)
        if self._cache.peer(leader) is None:
            return Settled(None)
        return LeadingNode((leader, forwarded), leader)

    async def _send(
        self, lane: tuple[BrokerId, _Forwarded], _: Sequence[_Forwarded]
    ) -> Sequence[Any]:
        """Return the response of a broker; None if it does not coordinate."""
        broker_id, forwarded = lane
        node = self._cache.peer(broker_id)
        if node is None:
            raise ConnectionError(f"broker {broker_id} is not available")
        header = forwarded.context.header
        response = await self._peers.call(
            (node.host, node.port),
            header.api_key,
            header.api_version,
            forwarded.request,
            forwarded.end_s - asyncio.get_running_loop().time(),
            client_id_for(client_of(forwarded.context.session)),
        )
        return [None if NOT_YET.intersection(_codes(response)) else response]


class ForwardedToCoordinator:
    """The handler of an API of producers, with the responses of coordinators elsewhere.

    Args:
        handler: Asks the coordinators here.
        elsewhere: Finds the others.
    """

    def __init__(self, handler: Handler, elsewhere: NextCoordinator) -> None:
        self._handler = handler
        self.failure = handler.failure
        self._elsewhere = elsewhere

    def answer(self, request: Any, context: RequestContext) -> Answer:
        """Answer a request; see `Handler`."""
        return in_background(self._elsewhere.response(self._handler, request, context))


def _transactional_id(request: Any) -> str:
    """Return whose coordinator is asked; newer versions of AddPartitionsToTxn name several."""
    name: str | None = getattr(request, "v3_and_below_transactional_id", None)
    return request.transactional_id if name is None else name


def _codes(response: Any) -> set[ErrorCode]:
    """Return the error codes of a response: it has one, or one for each partition."""
    topics = getattr(response, "results_by_topic_v3_and_below", None)
    if topics is None:
        return {ErrorCode(int(response.error_code))}
    return {
        ErrorCode(int(each.partition_error_code))
        for topic in topics
        for each in topic.results_by_partition
    }
