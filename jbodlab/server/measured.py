"""Counts the requests of an API, their durations, and those that failed as a whole."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from functools import partial
from typing import Any

from msgspec.structs import replace

from jbodlab.server.answer import (
    Answer,
    Handler,
    InParts,
    Later,
    RequestContext,
    with_throttle_time,
)
from jbodlab.server.api import Api
from jbodlab.server.request_counts import RequestCounts
from jbodlab.server.response import Response
from jbodlab.vocabulary.errors import KafkaError

Throttle = Callable[[Any, RequestContext, Answer, float], int]
"""`(request, context, answer, begun_s)` to how many ms a client has to wait for its next request.

The time from `begun_s`, on the clock of the counts, until now has occupied the event loop.
"""


class Measured:
    """The handler of an API, and what is counted of it.

    Args:
        api: The API.
        handler: Answers.
        counts: Where requests are counted.
        throttle: Applies the quotas of clients; None without quotas.
    """

    def __init__(
        self, api: Api[Any], handler: Handler, counts: RequestCounts, throttle: Throttle | None
    ) -> None:
        self._key = api.key
        self._handler = handler
        self._counts = counts
        self._throttle = throttle

    def answer(self, request: Any, context: RequestContext) -> Answer:
        """Answer a request; see `Handler`."""
        counts = self._counts
        counts.requests[self._key] += 1
        begun_s = counts.now_s()
        try:
            answer = self._handler.answer(request, context)
        except Exception:
            counts.answered(self._key, begun_s)
            raise
        throttle_ms = 0
        if self._throttle is not None:
            throttle_ms = self._throttle(request, context, answer, begun_s)
        if isinstance(answer, InParts):
            answer = replace(answer, finish=partial(self._finish, begun_s, answer.finish))
        elif isinstance(answer, Later):
            answer.answered = partial(counts.answered, self._key, begun_s)
        else:
            counts.answered(self._key, begun_s)
        if not throttle_ms:
            return answer
        return with_throttle_time(answer, datetime.timedelta(milliseconds=throttle_ms))

    def failure(self, request: Any, context: RequestContext, error: KafkaError) -> Response:
        """Return the response in which every part of the request fails."""
        self._counts.errors[self._key, error.code] += 1
        return self._handler.failure(request, context, error)

    def _finish(
        self, begun_s: float, finish: Callable[[list[Any]], Response], parts: list[Any]
    ) -> Response:
        self._counts.answered(self._key, begun_s)
        return finish(parts)
