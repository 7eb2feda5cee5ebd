"""The handlers of all APIs, and the dispatcher in front of them."""

from __future__ import annotations

from functools import partial

from msgspec.structs import asdict

from broker.api.followers import known_followers
from broker.api.parts import ApiParts, BrokerParts
from broker.api.request_quota import RequestQuota
from broker.api.services.next_coordinator import NextCoordinator
from broker.api.services.produce_forwarder import ProduceForwarder
from broker.api.services.producer_ids import ProducerIds
from broker.api.services.topic_creator import TopicCreator
from broker.api.table import APIS
from broker.clients.client_quotas import ClientQuotas
from jbodlab.controller_api.requests import BROKER, Caller
from jbodlab.server.dispatch import Dispatcher
from jbodlab.server.helper_thread import HelperThread
from jbodlab.server.served import Filter, served


class ClientApis:
    """All handlers, and the dispatcher in front of them.

    Attributes:
        dispatcher: Gets the requests of all connections.
        produce_forwarder: Follows the metadata.
    """

    def __init__(self, parts: BrokerParts) -> None:
        quotas = ClientQuotas(lambda: parts.cache.image.quotas)
        self.produce_forwarder = ProduceForwarder(
            parts.cache, parts.broker_id, parts.monotonic_s, parts.traffic, quotas, parts.peers
        )
        self._topic_creator = TopicCreator(
            parts.controller,
            parts.internal_topic,
            (
                Caller(principal=f"{BROKER}:{parts.broker_id}", host="")
                if parts.rights.is_enforced
                else None
            ),
        )
        self._producer_ids = ProducerIds(parts.controller, parts.broker_id, parts.broker_epoch)
        self._next_coordinator = NextCoordinator(
            parts.cache, parts.broker_id, parts.transactions, parts.peers
        )
        shared = ApiParts(
            **asdict(parts),
            quotas=quotas,
            produce_forwarder=self.produce_forwarder,
            topic_creator=self._topic_creator,
            producer_ids=self._producer_ids,
            next_coordinator=self._next_coordinator,
        )
        filters: list[Filter] = []
        if parts.follower_names is not None:
            filters.append(
                partial(known_followers, name_for=parts.follower_names, cache=parts.cache)
            )
        self._thread = HelperThread(parts.threads, "large-requests")
        self.dispatcher = Dispatcher(
            served(
                APIS.values(),
                shared,
                rights=parts.rights,
                counts=parts.traffic,
                filters=filters,
                throttle=RequestQuota(quotas, parts.cache, parts.traffic).throttle_ms,
            ),
            self._thread,
            parts.monotonic_s,
        )

    async def close(self) -> None:
        """Give up calls to the controller that no client waits for."""
        await self._topic_creator.close()
        self.produce_forwarder.close()
        await self._next_coordinator.close()
        self._thread.close()
        await self._producer_ids.close()
