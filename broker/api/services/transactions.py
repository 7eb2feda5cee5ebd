"""Parts that several APIs of transactions share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, ClassVar

from broker.api.services.producer_ids import ProducerIds
from broker.transactions.requests import FreshProducerIdNeeded
from jbodlab.server.answer import RequestContext
from jbodlab.server.failures import FailsBySchema
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError


class ProducerFailures(FailsBySchema):
    """The failures of producers, who are told by an older code at first that they are fenced."""

    FENCED_FROM: ClassVar[int]
    """The first version with PRODUCER_FENCED; INVALID_PRODUCER_EPOCH before."""

    def failure(self, request: Any, context: RequestContext, error: KafkaError) -> Any:
        """Return the response in which every part of the request fails with an error."""
        if error.code is ErrorCode.PRODUCER_FENCED and context.version < self.FENCED_FROM:
            error = KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH, error.message)
        return super().failure(request, context, error)


async def with_producer_id(
    submit: Callable[[int | None], asyncio.Future[Any]], producer_ids: ProducerIds
) -> Any:
    """Ask a coordinator, and again with a new producer id if it needs one.

    Args:
        submit: Asks; with an id that nobody has, or without.
        producer_ids: Where ids come from.

    Raises:
        KafkaError: of the coordinator; COORDINATOR_LOAD_IN_PROGRESS if there is no id now.
    """
    answer = await submit(None)
    while isinstance(answer, FreshProducerIdNeeded):
        answer = await submit(await producer_ids.next_id())
    return answer
