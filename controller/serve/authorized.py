"""The rights of clients decide on requests that brokers pass on for them.

The rights are those of the state that the decision is made with. A request that names no client is
carried out for nobody: a broker that wants something for itself says who it is, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from controller.decide.state import ControllerResult, ControllerState
from jbodlab.controller_api.requests import BROKER, Caller, CreateTopicsRequest
from jbodlab.controller_api.transport import Refusal, RpcRefusedError
from jbodlab.metadata.image.metadata_image import EMPTY
from jbodlab.security.acl import ResourceType
from jbodlab.server.authorizing import check_whole, joined, split
from jbodlab.server.forwarded import FORWARDED
from jbodlab.server.resources import Each, parts_of
from jbodlab.server.rights import Client, DeniedError, EnforcedRights, Rights
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.ids import INTERNAL_TOPICS

Decide = Callable[[Any, ControllerState, int], ControllerResult[Any]]
Failed = Callable[[Any, KafkaError], Any]
"""`(request, error)` to the response in which all of a request fails."""


class Authorized:
    """Makes decisions for clients who may do some of what they ask for.

    Args:
        monotonic_s: Clock for the log.
    """

    def __init__(self, monotonic_s: Callable[[], float]) -> None:
        self._monotonic_s = monotonic_s
        self._image = EMPTY
        self._rights: Rights | None = None

    def decide(
        self, decide: Decide, failed: Failed, request: Any, state: ControllerState, now_ms: int
    ) -> ControllerResult[Any]:
        """Decide about what is allowed of a request.

        Args:
            decide: Decides about all of it.
            failed: The response for what is denied.
            request: The request; of a method in `FORWARDED`.
            state: The present state.
            now_ms: As of decisions.

        Raises:
            KafkaError: all of it is denied, or what `decide` raises.
        """
        if state.settings.authorizer is None:
            return decide(request, state, now_ms)
        rights, caller = self._rights_of(state), request.caller
        if caller.principal.startswith(f"{BROKER}:"):
            _check_own(request)
            return decide(request, state, now_ms)
        client = Client(caller.principal, caller.host)
        refusals: list[Any] = []
        for part in parts_of(FORWARDED[request.method()]):
            if isinstance(part, Each):
                if not getattr(request, part.field, None):
                    continue
                request, denied = split(request, part, rights, client)
                refusals += (failed(some, error) for some, error in denied)
                if denied and not getattr(request, part.field):
                    return ControllerResult(response=joined(*refusals))
            else:
                check_whole(part, request, rights, client)
        result = decide(request, state, now_ms)
        if not refusals:
            return result
        return replace(result, response=joined(result.response, *refusals))

    def _rights_of(self, state: ControllerState) -> Rights:
        self._image = state.image
        if self._rights is None:
            assert state.settings.authorizer is not None
            self._rights = EnforcedRights(
                lambda: self._image, state.settings.authorizer, self._monotonic_s
            )
        return self._rights


def _check_own(request: Any) -> None:
    """Raise DeniedError where a broker wants more for itself than topics of the brokers' own."""
    is_own = isinstance(request, CreateTopicsRequest) and all(
        topic.name in INTERNAL_TOPICS for topic in request.topics
    )
    if not is_own:
        raise DeniedError(ResourceType.CLUSTER)


def check_caller(request: Any) -> None:
    """Refuse what no client is named for; raises RpcRefusedError."""
    caller: Caller | None = request.caller
    if caller is None or not all(caller.principal.partition(":")):
        raise RpcRefusedError(Refusal.PERMISSION_DENIED, "the request names no principal")
