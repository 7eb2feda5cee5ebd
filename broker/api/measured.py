"""Counts the requests of an API, their durations, and those that failed as a whole.

The time for which a request occupies the event loop counts for its client's `request_percentage`;
requests of followers, and those that other brokers forward, do not count.
"""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Callable
from functools import partial
from typing import Any

from msgspec.structs import replace

from broker.api.followers import asking_replica
from broker.client_quotas import ClientQuotas
from broker.metadata_cache import MetadataCache
from broker.traffic import Traffic
from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.runtime.client_quota import REQUEST_PERCENTAGE
from jbodlab.server.answer import (
    Answer,
    Api,
    InParts,
    Later,
    RequestContext,
    Response,
)
from jbodlab.vocabulary.errors import KafkaError


class MeasuredApi:
    """An API's handler, and what is counted of it."""

    def __init__(
        self,
        api: Api,
        key: ApiKey,
        traffic: Traffic,
        quotas: ClientQuotas,
        cache: MetadataCache,
    ) -> None:
        self._api = api
        self._key = key
        self._traffic = traffic
        self._quotas = quotas
        self._cache = cache

    def answer(self, request: Any, context: RequestContext) -> Answer:
        """Answer a request; see `Api`."""
        self._traffic.requests[self._key] += 1
        begun_s = self._traffic.now_s()
        try:
            answer = self._api.answer(request, context)
        except Exception:
            self._traffic.answered(self._key, begun_s)
            raise
        if isinstance(answer, Later):
            answer.future.add_done_callback(partial(self._done, begun_s))
        elif isinstance(answer, InParts):
            answer = replace(answer, finish=partial(self._finish, begun_s, answer.finish))
        else:
            self._traffic.answered(self._key, begun_s)
        is_passed_on = isinstance(answer, Later) and answer.is_passed_on
        if (
            not self._quotas.are_set
            or is_passed_on
            or asking_replica(request, context, self._cache) >= 0
        ):
            return answer
        throttle_ms = self._quotas.throttle(
            REQUEST_PERCENTAGE,
            context.header.client_id,
            context.session,
            self._traffic.now_s() - begun_s,
        )
        return (
            _told(answer, datetime.timedelta(milliseconds=throttle_ms)) if throttle_ms else answer
        )

    def failure(self, request: Any, context: RequestContext, error: KafkaError) -> Response:
        """Return the response in which every part of the request fails."""
        self._traffic.errors[self._key, error.code] += 1
        return self._api.failure(request, context, error)

    def _finish(
        self, begun_s: float, finish: Callable[[list[Any]], Response], parts: list[Any]
    ) -> Response:
        self._traffic.answered(self._key, begun_s)
        return finish(parts)

    def _done(self, begun_s: float, future: asyncio.Future[Any]) -> None:
        # A client that has gone gets no answer.
        if not future.cancelled():
            self._traffic.answered(self._key, begun_s)


def _told(answer: Answer, throttle_time: datetime.timedelta) -> Answer:
    """Return an answer that names a throttle time, or that of its bytes if that is longer."""

    def told(response: Response) -> Response:
        return replace(response, throttle_time=max(response.throttle_time, throttle_time))

    if isinstance(answer, Response):
        return told(answer)
    finish = answer.finish
    return replace(answer, finish=lambda result: told(finish(result)))
