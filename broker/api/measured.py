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
from broker.api.parts import ApiParts
from jbodlab.runtime.client_quota import REQUEST_PERCENTAGE
from jbodlab.server.answer import (
    Answer,
    Handler,
    InParts,
    Later,
    RequestContext,
    with_throttle_time,
)
from jbodlab.server.api import Api
from jbodlab.server.response import Response
from jbodlab.vocabulary.errors import KafkaError


class Measured:
    """The handler of an API, and what is counted of it.

    Args:
        api: The API.
        handler: Answers.
        parts: Where requests are counted, and whose quotas apply.
    """

    def __init__(self, api: Api[ApiParts], handler: Handler, parts: ApiParts) -> None:
        self._key = api.key
        self._handler = handler
        self._traffic = parts.traffic
        self._quotas = parts.quotas
        self._cache = parts.cache

    def answer(self, request: Any, context: RequestContext) -> Answer:
        """Answer a request; see `Handler`."""
        self._traffic.requests[self._key] += 1
        begun_s = self._traffic.now_s()
        try:
            answer = self._handler.answer(request, context)
        except Exception:
            self._traffic.answered(self._key, begun_s)
            raise
        throttle_ms = 0
        if self._cache.image.quotas:
            throttle_ms = self._throttle_ms(request, context, answer, begun_s)
        if isinstance(answer, InParts):
            answer = replace(answer, finish=partial(self._finish, begun_s, answer.finish))
        elif isinstance(answer, Later) and not answer.future.done():
            answer.future.add_done_callback(partial(self._done, begun_s))
        else:
            self._traffic.answered(self._key, begun_s)
        if not throttle_ms:
            return answer
        return with_throttle_time(answer, datetime.timedelta(milliseconds=throttle_ms))

    def _throttle_ms(
        self, request: Any, context: RequestContext, answer: Answer, begun_s: float
    ) -> int:
        """Take the time from the client's account; returns how long the client has to wait."""
        is_forwarded = isinstance(answer, Later) and answer.is_forwarded
        if is_forwarded or asking_replica(request, context, self._cache) >= 0:
            return 0
        return self._quotas.throttle(
            REQUEST_PERCENTAGE,
            context.header.client_id,
            context.session,
            self._traffic.now_s() - begun_s,
        )

    def failure(self, request: Any, context: RequestContext, error: KafkaError) -> Response:
        """Return the response in which every part of the request fails."""
        self._traffic.errors[self._key, error.code] += 1
        return self._handler.failure(request, context, error)

    def _finish(
        self, begun_s: float, finish: Callable[[list[Any]], Response], parts: list[Any]
    ) -> Response:
        self._traffic.answered(self._key, begun_s)
        return finish(parts)

    def _done(self, begun_s: float, future: asyncio.Future[Any]) -> None:
        # A client that has gone gets no answer.
        if not future.cancelled():
            self._traffic.answered(self._key, begun_s)
