"""The filters in front of every handler, for a server with one API of its own."""

from __future__ import annotations

import struct
from typing import Any

from jbodlab.kafka_wire.api_table import ApiKey, load
from jbodlab.kafka_wire.headers import request_header
from jbodlab.metadata.image.metadata_image import EMPTY
from jbodlab.runtime.machine import system_environment
from jbodlab.security.acl import AclOperation
from jbodlab.security.authorizer import AuthorizerSettings
from jbodlab.server.answer import Answer, Handler, RequestContext
from jbodlab.server.api import Api
from jbodlab.server.dispatch import Dispatcher
from jbodlab.server.failures import FailsBySchema
from jbodlab.server.helper_thread import HelperThread
from jbodlab.server.request_counts import RequestCounts, request_metrics
from jbodlab.server.resources import on_cluster
from jbodlab.server.response import Response
from jbodlab.server.rights import AllRights, EnforcedRights, Rights
from jbodlab.server.served import served
from jbodlab.server.session import Session
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.limits import MAX_REQUEST_ITEMS

KEY, VERSION = ApiKey.LIST_GROUPS, 0
load(KEY, VERSION, MAX_REQUEST_ITEMS)


class GroupsResponse(Response, frozen=True, kw_only=True):
    error_code: ErrorCode = ErrorCode.NONE
    groups: tuple[Any, ...] = ()


class Parts:
    """Parts that the one handler is made of, and what each station notes."""

    def __init__(self, error: ErrorCode | None = None) -> None:
        self.error = error
        self.seen: list[str] = []


class Groups(FailsBySchema):
    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def answer(self, request: Any, context: RequestContext) -> Answer:
        self._parts.seen.append("handler")
        if self._parts.error is not None:
            raise KafkaError(self._parts.error)
        return GroupsResponse()


API: Api[Parts] = Api(
    key=KEY,
    versions=(0, 0),
    resources=on_cluster(AclOperation.DESCRIBE),
    handler=Groups,
)


class Noting:
    """A filter of the program."""

    def __init__(self, handler: Handler, seen: list[str], name: str) -> None:
        self._handler, self._seen, self._name = handler, seen, name
        self.failure = handler.failure

    def answer(self, request: Any, context: RequestContext) -> Answer:
        self._seen.append(self._name)
        return self._handler.answer(request, context)


class Server:
    def __init__(self, parts: Parts, rights: Rights) -> None:
        environment = system_environment()
        self.counts = RequestCounts(environment.monotonic_s)
        self.thread = HelperThread(environment.threads, "large-requests")

        def throttle(*_: Any) -> int:
            parts.seen.append("quota")
            return 0

        self.dispatcher = Dispatcher(
            served(
                [API],
                parts,
                rights=rights,
                counts=self.counts,
                filters=[
                    lambda _api, handler: Noting(handler, parts.seen, "inner"),
                    lambda _api, handler: Noting(handler, parts.seen, "outer"),
                ],
                throttle=throttle,
            ),
            self.thread,
            environment.monotonic_s,
        )

    def ask(self) -> int:
        """Send the request; returns the error code at the top of the response."""
        frame = request_header(KEY, VERSION, 7, "tester")
        session = Session(listener_name="CONTROLLER", peer="10.0.0.1:1", user="alice")
        buffers: Any = self.dispatcher.handle(memoryview(frame), session)
        self.thread.close()
        size_and_correlation_id = 8
        found: int = struct.unpack_from(">h", b"".join(buffers), size_and_correlation_id)[0]
        return found


def of_nobody(*super_users: str) -> EnforcedRights:
    settings = AuthorizerSettings(super_users=frozenset(super_users))
    return EnforcedRights(lambda: EMPTY, settings, lambda: 0.0)


async def test_the_filters_of_the_program_stand_between_counts_and_rights() -> None:
    parts = Parts()
    server = Server(parts, AllRights())
    assert server.ask() == ErrorCode.NONE
    assert parts.seen == ["outer", "inner", "handler", "quota"]
    assert server.counts.requests == {KEY: 1}
    assert server.counts.errors == {}
    assert server.counts.times_ms[KEY].count == 1


async def test_a_request_without_rights_does_not_reach_its_handler_and_is_counted_once() -> None:
    parts = Parts()
    server = Server(parts, of_nobody())
    assert server.ask() == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert parts.seen == ["outer", "inner"]
    assert server.counts.requests == {KEY: 1}
    assert server.counts.errors == {(KEY, ErrorCode.CLUSTER_AUTHORIZATION_FAILED): 1}

    assert Server(parts, of_nobody("User:alice")).ask() == ErrorCode.NONE


async def test_what_a_handler_raises_is_answered_by_the_schema_and_counted_by_its_error() -> None:
    server = Server(Parts(ErrorCode.NOT_CONTROLLER), AllRights())
    assert server.ask() == ErrorCode.NOT_CONTROLLER
    assert server.counts.errors == {(KEY, ErrorCode.NOT_CONTROLLER): 1}
    assert server.counts.times_ms[KEY].count == 1
    names = {metric.name for metric in request_metrics(server.counts)}
    assert len(names) == 3
