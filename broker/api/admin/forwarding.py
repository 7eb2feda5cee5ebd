"""Requests that the controller decides; any broker takes them.

A request becomes the value of `controller_api.requests` whose fields have the same names. The
response of the controller becomes a response of the client's version in the same way, and is sent
when the metadata of this broker has what the controller decided. The row of an API in `forwarded`
has the exceptions.
"""

from __future__ import annotations

import asyncio
import datetime
import typing
from collections.abc import Callable
from dataclasses import Field, fields
from functools import cache, partial
from types import SimpleNamespace
from typing import Any, Generic, TypeVar
from uuid import UUID

import msgspec

from broker.api.parts import ApiHandler, ApiParts
from broker.api.services.callers import caller_of
from broker.bounds.limits import FORWARDED_TIMEOUT_S_MAX
from broker.clients.client_quotas import muted
from broker.controller_link.channel import ControllerChannel
from broker.metadata.leader_calls import pause_s
from broker.metadata.metadata_cache import MetadataCache
from jbodlab.controller_api.requests import RECORDS_PER_REQUEST_MAX, TOO_LARGE, Mutator, Request
from jbodlab.kafka_wire.api_table import ApiKey, response_class
from jbodlab.kafka_wire.layout import EntityClass, default_of, is_struct, unwrap
from jbodlab.metadata.image.metadata_image import MetadataImage
from jbodlab.server.answer import Handler, Later, RequestContext, in_background, milliseconds
from jbodlab.server.api import Api
from jbodlab.server.failures import FailsBySchema, failed_everywhere
from jbodlab.server.forwarded import FORWARDED
from jbodlab.server.request_values import Given, value_of
from jbodlab.server.resources import Resource
from jbodlab.server.response import Response
from jbodlab.server.response_structs import struct_of
from jbodlab.server.rights import client_of
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import ControllerUnavailableError, KafkaError
from jbodlab.vocabulary.limits import MAX_REQUEST_ITEMS

RequestT = TypeVar("RequestT", bound=Request[Any])
ResponseT = TypeVar("ResponseT")

TIMEOUT = datetime.timedelta(seconds=20)
"""Of requests that carry none; clients wait for 30 s and more."""

IMMEDIATE_TIMEOUT_S = 5.0
"""Deadline of a call whose client does not want to wait for the effect (timeout 0)."""

NO_AUTHORIZER = "No Authorizer is configured on the broker"

LOOK_S = 0.05
"""Between two looks at an effect that the metadata do not tell."""

STRICT_FROM: dict[int, int] = {
    ApiKey.CREATE_TOPICS: 6,
    ApiKey.DELETE_TOPICS: 5,
    ApiKey.CREATE_PARTITIONS: 3,
}
"""First versions whose clients know THROTTLING_QUOTA_EXCEEDED (KIP-599)."""


class Forwarded(msgspec.Struct, Generic[RequestT, ResponseT], frozen=True, kw_only=True):
    """An API whose requests the controller decides.

    Attributes:
        key: The API.
        versions: First and last version that ApiVersions names.
        request: Type of the request to the controller.
        asked: Fields of the request to the controller, by the client's request.
        told: Fields of the response to the client, by `(client's request, response, image)`.
        failed: The response of the controller in place of which an error came, where clients expect
            another failure than that of the schema.
        fails_everywhere: Whether clients want to find the whole and all elements failed.
        hidden: Fields of the response in place of what the client may not know, by
            `(response, may)`, where rights are enforced.
        drawn: The request with what is drawn for it, by `(request, source of ids)`.
        again: The request as it is sent again when it may have been carried out, by `(request,
            image when it came)`.
        records_each: Fewest records that an element of the first array causes.
        needs_authorizer: Whether it means nothing where everybody may do everything.
        handler: Made of the parts of a broker and of this; answers the requests.
        max_items: Most items in all arrays of a request together.
    """

    key: ApiKey
    versions: tuple[int, int]
    request: type[RequestT]
    asked: Callable[[Any], Given] = lambda _: {}
    told: Callable[[Any, ResponseT, MetadataImage], Given] = lambda _asked, _response, _image: {}
    failed: Callable[[RequestT, KafkaError], ResponseT] | None = None
    fails_everywhere: bool = False
    hidden: Callable[[ResponseT, Callable[[Resource], bool]], Given] = lambda _response, _may: {}
    drawn: Callable[[RequestT, Callable[[], UUID]], RequestT] = lambda request, _new_id: request
    again: Callable[[RequestT, MetadataImage], RequestT] = lambda request, _image: request
    records_each: int = 0
    needs_authorizer: bool = False
    handler: Callable[[ApiParts, Forwarded[Any, Any]], Handler] | None = None
    max_items: int = MAX_REQUEST_ITEMS

    def api(self) -> Api[ApiParts]:
        """Return the declaration of the API."""
        return Api(
            key=self.key,
            versions=self.versions,
            max_items=self.max_items,
            resources=FORWARDED[self.request.method()],
            handler=lambda parts: (self.handler or ForwardedApi)(parts, self),
        )


class ForwardedApi(ApiHandler, FailsBySchema):
    """Answers requests of an API with what the controller decides.

    Args:
        parts: Of the broker.
        row: The API.
    """

    def __init__(self, parts: ApiParts, row: Forwarded[Any, Any]) -> None:
        super().__init__(parts)
        self._row = row
        self._cache = parts.cache
        self._rights = parts.rights

    def answer(self, request: Any, context: RequestContext) -> Later:
        """Ask the controller, and wait until this broker knows what it decided."""
        if self._row.needs_authorizer and not self._rights.is_enforced:
            raise KafkaError(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
        asked = self._asked(request, context)
        if self._row.records_each:
            count = len(getattr(asked, asked.__struct_fields__[0]))
            # The controller would refuse it as well, but to take it there takes long.
            if count * self._row.records_each > RECORDS_PER_REQUEST_MAX:
                raise KafkaError(ErrorCode.POLICY_VIOLATION, TOO_LARGE)
        asked = self._row.drawn(asked, self._parts.new_id)
        return in_background(self._forward(request, asked, context))

    def failure(self, request: Any, context: RequestContext, error: KafkaError) -> Any:
        """Return the response in which every part of the request fails with an error."""
        if self._row.fails_everywhere:
            return failed_everywhere(request, context, error)
        if self._row.failed is None:
            return super().failure(request, context, error)
        response = self._row.failed(self._asked(request, context), error)
        return self._told(request, response, context)

    async def decide(self, request: Any, deadline: Deadline) -> Any:
        """Return the response of the controller."""
        again = partial(self._row.again, request, self._cache.image)
        return await deadline.call(self._parts.controller, request, again)

    def has_arrived(self, response: Any) -> bool:
        """Return whether the metadata of this broker has what was decided."""
        return self._parts.applied_offset() >= getattr(response, "metadata_offset", -1)

    async def _forward(self, request: Any, asked: Any, context: RequestContext) -> Response:
        deadline = Deadline(getattr(request, "timeout", TIMEOUT))
        response = await self.decide(asked, deadline)
        code = getattr(response, "error_code", ErrorCode.NONE)
        if code != ErrorCode.NONE:
            raise KafkaError(code, getattr(response, "error_message", ""))
        if not getattr(request, "validate_only", False):
            await deadline.wait_for(self._cache, partial(self.has_arrived, response))
        return self._told(request, response, context)

    def _asked(self, request: Any, context: RequestContext) -> Any:
        given = dict(self._row.asked(request))
        if "mutator" in self._row.request.__struct_fields__:
            header = context.header
            given["mutator"] = Mutator(
                client_id=header.client_id or "",
                is_strict=header.api_version >= STRICT_FROM[header.api_key],
            )
        if self._rights.is_enforced and "caller" in self._row.request.__struct_fields__:
            given["caller"] = caller_of(client_of(context.session))
        return value_of(self._row.request, request, given)

    def _told(self, request: Any, response: msgspec.Struct, context: RequestContext) -> Response:
        given = dict(self._row.told(request, response, self._cache.image))
        if self._rights.is_enforced:
            client = client_of(context.session)
            given |= self._row.hidden(
                response, lambda each: self._rights.allows(client, each, is_asked_for=False)
            )
        if throttle_ms := getattr(response, "throttle_time_ms", 0):
            muted_ms = muted(context.session, throttle_ms)
            given["throttle_time"] = datetime.timedelta(milliseconds=muted_ms)
        header = context.header
        return response_of(response_class(header.api_key, header.api_version), response, given)


class Deadline:
    """How long one request may take; the clock starts at once.

    Args:
        timeout: As the client sent it; zero or less means to answer as soon as the controller
            has, without waiting for the change to reach this broker.
    """

    def __init__(self, timeout: datetime.timedelta) -> None:
        timeout_s = milliseconds(timeout) / 1000
        self._waits = timeout_s > 0
        self._loop = asyncio.get_running_loop()
        allowed_s = min(timeout_s, FORWARDED_TIMEOUT_S_MAX) if self._waits else IMMEDIATE_TIMEOUT_S
        self._since_s = self._loop.time()
        self._end = self._since_s + allowed_s

    @property
    def left_s(self) -> float:
        """Seconds left for the call to the controller; never negative."""
        return max(self._end - self._loop.time(), 0.0)

    async def call(
        self,
        controller: ControllerChannel,
        request: Request[ResponseT],
        again: Callable[[], Request[ResponseT]],
    ) -> ResponseT:
        """Ask the controller, again and again while it cannot be reached and time is left.

        Args:
            controller: The way there.
            request: The request.
            again: Returns what is sent from then on when the request may have been carried out.

        Raises:
            ControllerUnavailableError: the time is over.
        """
        while True:
            try:
                return await controller.call(request, self.left_s)
            except ControllerUnavailableError as error:
                if error.is_outcome_unknown:
                    request = again()
                seconds = pause_s(self._loop.time() - self._since_s)
                if self.left_s <= seconds:
                    raise
                await asyncio.sleep(seconds)

    async def wait_for(self, cache: MetadataCache, arrived: Callable[[], bool]) -> None:
        """Wait until a change shows in this broker's metadata, or the time is over.

        It is committed in either case, so a client that is answered too early only has to look
        again.
        """
        while self._waits and self.left_s > 0 and not arrived():
            await cache.changed(min(self.left_s, LOOK_S))


def response_of(entity_class: EntityClass, value: msgspec.Struct, given: Given) -> Response:
    """Return a response to a client.

    Args:
        entity_class: Of the client's version in kio.
        value: Has fields of the same names; the others have the defaults of the schema.
        given: Fields that take precedence.
    """
    source = SimpleNamespace(**{**msgspec.structs.asdict(value), **given})
    parts = {
        name: write(source)
        for name, write in _writers(entity_class).items()
        if hasattr(source, name)
    }
    response: Response = struct_of(entity_class, base=Response)(**parts)
    return response


@cache
def _writers(entity_class: EntityClass) -> dict[str, Callable[[Any], Any]]:
    return {each.name: _writer(each) for each in fields(entity_class)}


def _writer(field: Field[Any]) -> Callable[[Any], Any]:
    """Return what makes a field of an entity from a value that has one of the same name."""
    name, absent = field.name, default_of(field)
    annotation, _ = unwrap(field.type)
    if typing.get_origin(annotation) is tuple:
        item, _ = unwrap(typing.get_args(annotation)[0])
        if is_struct(item):
            struct, parts = struct_of(item), tuple(_writers(item).items())
            return lambda value: tuple(
                [
                    struct(**{part: write(each) for part, write in parts})
                    for each in getattr(value, name)
                ]
            )
    if name == "error_message":
        return lambda value: getattr(value, name, absent) or None
    return lambda value: getattr(value, name, absent)
