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
import logging
from typing import Any

from broker.api.services.coordinators import TransactionCoordinators
from broker.bounds.limits import (
    FORWARD_CONNECT_TIMEOUT_S,
    NEXT_COORDINATOR_MAX_S,
    NEXT_COORDINATOR_PAUSE_S,
)
from broker.metadata.metadata_cache import BrokerNode, MetadataCache
from jbodlab.peers.client_security import ClientSecurity
from jbodlab.peers.peer_pool import PeerPool
from jbodlab.server.answer import Answer, Handler, Later, RequestContext, in_background
from jbodlab.server.passed_on import FORWARDING_CLIENT, client_id_for, named_client
from jbodlab.server.response import Response
from jbodlab.server.rights import client_of
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import DecodeError, KafkaError
from jbodlab.vocabulary.ids import TRANSACTION_STATE_TOPIC, BrokerId

logger = logging.getLogger(__name__)

NOT_YET = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS})
"""Responses of a broker that is not yet the coordinator that the metadata name."""


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
            found = await self._elsewhere(request, context)
            if found is None:
                raise
            return found

    async def _elsewhere(self, request: Any, context: RequestContext) -> Any:
        """Return the response of another coordinator; None if none responds in time."""
        transactional_id = _transactional_id(request)
        loop = asyncio.get_running_loop()
        end_s = loop.time() + NEXT_COORDINATOR_MAX_S
        while (leader := self._next(transactional_id)) is not None and loop.time() < end_s:
            node = self._cache.peer(leader)
            if node is not None and node.id != self._broker_id:
                left_s = end_s - loop.time()
                response = await self._response(node, request, context, left_s)
                if response is not None:
                    return response
            await asyncio.sleep(NEXT_COORDINATOR_PAUSE_S)
        return None

    def close(self) -> None:
        """Close idle connections to other brokers."""
        self._peers.close()

    def _is_forwarded(self, context: RequestContext) -> bool:
        """Return whether another broker sends the request: two must not send it to and fro."""
        return named_client(context.header.client_id) is not None and self._cache.is_for_brokers(
            context.listener_name
        )

    def _next(self, transactional_id: str) -> BrokerId | None:
        """Return who leads, this broker where another is about to; None if nobody will."""
        found = self._cache.coordinator(TRANSACTION_STATE_TOPIC, transactional_id)
        if found is None:
            return None
        (_, index), leader = found
        if leader == self._broker_id:
            return leader if self._own.is_offline(index) else None
        return leader if self._cache.peer(leader) is not None else None

    async def _response(
        self, node: BrokerNode, request: Any, context: RequestContext, timeout_s: float
    ) -> Any:
        """Return the response of a broker; None if it does not coordinate, or is not reached."""
        header = context.header
        try:
            response = await self._peers.call(
                (node.host, node.port),
                header.api_key,
                header.api_version,
                request,
                timeout_s,
                client_id_for(client_of(context.session)),
            )
        except (OSError, DecodeError) as error:
            logger.info("cannot forward to the coordinator on broker %d: %s", node.id, error)
            return None
        return None if NOT_YET.intersection(_codes(response)) else response


class ForwardedToCoordinator:
    """The handler of an API of producers, with the responses of coordinators elsewhere.

    Args:
        handler: Asks the coordinators here.
        elsewhere: Finds the others.
    """

    def __init__(self, handler: Handler, elsewhere: NextCoordinator) -> None:
        self._handler = handler
        self._elsewhere = elsewhere

    def answer(self, request: Any, context: RequestContext) -> Answer:
        """Answer a request; see `Handler`."""
        return in_background(self._elsewhere.response(self._handler, request, context))

    def failure(self, request: Any, context: RequestContext, error: KafkaError) -> Response:
        """Return the response in which every part of the request fails with an error."""
        return self._handler.failure(request, context, error)


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
