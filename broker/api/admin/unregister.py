"""UnregisterBroker: passed on to the controller."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

from broker.api.admin.controller_call import Deadline
from broker.api.ports import Controller
from broker.metadata_cache import MetadataCache
from jbodlab.controller_api.requests import UnregisterBrokerRequest
from jbodlab.server.answer import Later, RequestContext, in_background
from jbodlab.server.failures import FailsBySchema
from jbodlab.server.response import Response
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.ids import BrokerEpoch, BrokerId

if TYPE_CHECKING:
    from kio.schema.unregister_broker.v0.request import (
        UnregisterBrokerRequest as KafkaUnregisterBrokerRequest,
    )

TIMEOUT = datetime.timedelta(seconds=30)
"""The request has no timeout of its own; clients wait this long by default."""


class UnregisterBrokerResponse(Response, frozen=True, kw_only=True):
    """Whether the broker is gone."""

    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


class UnregisterBrokerApi(FailsBySchema):
    """Has a broker removed from the cluster; any broker takes the request."""

    def __init__(self, controller: Controller, cache: MetadataCache) -> None:
        self._controller = controller
        self._cache = cache

    def answer(self, request: KafkaUnregisterBrokerRequest, context: RequestContext) -> Later:
        """Ask the controller, and wait until this broker knows it."""
        return in_background(self._unregister(BrokerId(request.broker_id)))

    async def _unregister(self, broker_id: BrokerId) -> UnregisterBrokerResponse:
        deadline = Deadline(TIMEOUT)
        before = self._registered_epoch(broker_id)
        response = await deadline.call(
            self._controller.unregister_broker, UnregisterBrokerRequest(broker_id=broker_id)
        )
        if response.error_code != ErrorCode.NONE:
            raise KafkaError(response.error_code, response.error_message)
        # One that registers again at once has another epoch.
        await deadline.wait_for(
            lambda: before is None or self._registered_epoch(broker_id) != before
        )
        return UnregisterBrokerResponse()

    def _registered_epoch(self, broker_id: BrokerId) -> BrokerEpoch | None:
        registration = self._cache.image.cluster.brokers.get(broker_id)
        return None if registration is None else registration.epoch
