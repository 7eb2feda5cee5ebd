"""Answers by idempotency key: what a client repeats is carried out once."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any

from lab.api.problems import RequestError

KEPT = 1000


class Once:
    """Answers to requests with a key; lives on the event loop."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, tuple[bytes, asyncio.Future[Any]]] = OrderedDict()

    async def answer(
        self, key: str, request: bytes, carry_out: Callable[[], Awaitable[Any]]
    ) -> Any:
        """Return the answer to a request, carried out unless it was before.

        Args:
            key: The client's key.
            request: Bytes that identify the request: another one may not have the same key.
            carry_out: Carries it out.

        Raises:
            RequestError: the key belongs to another request; or what carrying out raises, which
                is tried again by the next request with the key.
        """
        if key in self._known:
            before, answer = self._known[key]
            if before != request:
                raise RequestError(422, "the idempotency key belongs to another request")
            return await asyncio.shield(answer)
        answer = asyncio.get_running_loop().create_future()
        self._known[key] = (request, answer)
        while len(self._known) > KEPT:
            self._known.popitem(last=False)
        try:
            answer.set_result(await carry_out())
        except BaseException as error:
            self._known.pop(key, None)
            cut_off = RequestError(409, "the first request with this key was cut off")
            answer.set_exception(error if isinstance(error, Exception) else cut_off)
            # Nobody else has to wait for it.
            answer.exception()
            raise
        return answer.result()
