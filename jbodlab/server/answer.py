"""Input and result of a handler.

A request is an entity of the library kio, of the version that the client speaks. Handlers are
typed with the newest version and read fields that older versions lack with a default.

A response is one value for all versions of its API, with the field names of kio; the encoder takes
those fields that the client's version has.
"""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import AsyncIterable, Callable, Coroutine, Iterable
from typing import Any, Protocol

import msgspec
from msgspec.structs import replace

from jbodlab.kafka_wire.headers import RequestHeader
from jbodlab.server.resources import replaced
from jbodlab.server.response import Response
from jbodlab.server.session import Session
from jbodlab.vocabulary.errors import KafkaError

MILLISECOND = datetime.timedelta(milliseconds=1)


class RequestContext(msgspec.Struct, frozen=True):
    """Facts about a request besides its body."""

    header: RequestHeader
    session: Session

    @property
    def version(self) -> int:
        """Version of the API that the client speaks."""
        return self.header.api_version

    @property
    def listener_name(self) -> str:
        """Listener the request came in on; addresses in the response belong to it."""
        return self.session.listener_name


class NoAnswer(Response, frozen=True, kw_only=True):
    """No response is sent; after a failure the connection is closed, so that the client notices."""

    failure: str | None = None


def _itself(response: Response) -> Response:
    return response


def _nothing() -> None:
    pass


class Later(msgspec.Struct):
    """A response that `finish` makes of what `future` brings; `hurry` asks it not to wait.

    It is made anew for each request, and what is around its handler may set `answered`.
    """

    future: asyncio.Future[Any]
    finish: Callable[[Any], Response] = _itself
    hurry: Callable[[], None] | None = None
    overlaps: bool = True
    """Whether the next request of a kind that may overlap may start meanwhile."""
    is_forwarded: bool = False
    """Whether another broker sends the request for a client, to whose quotas that one looks."""
    answered: Callable[[], None] = _nothing
    """Called when the response has been made."""


class InParts(msgspec.Struct, frozen=True):
    """A response that `finish` makes of parts, each of them worked out when it is asked for.

    Parts that must be waited for first come from an asynchronous iterable. It gives None for what
    took time to look at, and is no part of the response.
    """

    parts: Iterable[Any] | AsyncIterable[Any]
    finish: Callable[[list[Any]], Response]


Answer = Response | Later | InParts


class Handler(Protocol):
    """The handler of one API; neither method blocks."""

    def answer(self, request: Any, context: RequestContext) -> Answer:
        """Answer a request; errors of its own parts stand inside the response.

        Raises:
            KafkaError: nothing of the request can be done; `failure` makes a response of it.
        """

    def failure(self, request: Any, context: RequestContext, error: KafkaError) -> Response:
        """Return the response in which every part of the request fails with an error."""


def changed(answer: Answer, change: Callable[[Response], Response]) -> Answer:
    """Return an answer whose response is changed as soon as it is there."""
    if isinstance(answer, InParts | Later):
        finish = answer.finish
        return replace(answer, finish=lambda result: change(finish(result)))
    return change(answer)


def with_throttle_time(answer: Answer, throttle_time: datetime.timedelta) -> Answer:
    """Return an answer whose response names a throttle time, if that is longer than its own."""

    def change(response: Response) -> Response:
        own: datetime.timedelta | None = getattr(response, "throttle_time", None)
        if own is None:
            # A refusal in an old version, which has no place for it.
            return response
        changed_one: Response = replaced(response, throttle_time=max(own, throttle_time))
        return changed_one

    return changed(answer, change)


def in_background(work: Coroutine[Any, Any, Response]) -> Later:
    """Return the answer that a coroutine brings; it is cancelled when the client goes away."""
    return Later(asyncio.get_running_loop().create_task(work))


def milliseconds(duration: datetime.timedelta) -> int:
    """Return a duration of a request in ms; negative where the client sent it so."""
    return duration // MILLISECOND
