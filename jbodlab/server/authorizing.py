"""In front of every handler: what the client has no right to is refused, the rest is answered.

Resources that a request touches stand beside the handler (`Api.resources`). Without a right to the
whole, nothing is done. Elements of an array are refused one by one: the handler gets the request
without them, and what it answers is completed by their refusals.
"""

from __future__ import annotations

from typing import Any

from jbodlab.security.acl import AclOperation, ResourceType
from jbodlab.server.answer import Answer, Handler, NoAnswer, RequestContext, changed
from jbodlab.server.api import Api
from jbodlab.server.failures import refused_elements
from jbodlab.server.passed_on import client_behind
from jbodlab.server.resources import (
    Each,
    Elsewhere,
    Resource,
    Resources,
    Whole,
    parts_of,
    replaced,
)
from jbodlab.server.response import Response
from jbodlab.server.rights import Client, DeniedError, Rights, cluster
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError

NOT_ATTEMPTED = KafkaError(ErrorCode.OPERATION_NOT_ATTEMPTED, "another part was refused")


class Authorizing:
    """The handler of an API for clients who may do some of it.

    A handler has a method `refused`, of the form of `failure`, where neither `failure` of the whole
    nor `refused_elements` is what clients expect, or where they would tell what there is.

    Args:
        api: The API.
        handler: Answers what is allowed.
        rights: Rights of clients.
    """

    def __init__(self, api: Api[Any], handler: Handler, rights: Rights) -> None:
        parts = parts_of(api.resources)
        self._whole = [each for each in parts if not isinstance(each, Each | Elsewhere)]
        self._each = [each for each in parts if isinstance(each, Each)]
        self._handler = handler
        self._refused = getattr(handler, "refused", handler.failure)
        self._refused_elements = getattr(handler, "refused", refused_elements)
        self._rights = rights

    def answer(self, request: Any, context: RequestContext) -> Answer:
        """Answer a request; see `Handler`."""
        client = client_behind(context, self._rights)
        for part in self._whole:
            check_whole(part, request, self._rights, client)
        refusals: list[Response] = []
        for each in self._each:
            kept, denied = split(request, each, self._rights, client)
            refusals += (self._refused_elements(part, context, error) for part, error in denied)
            request = kept
            if denied and not getattr(kept, each.field):
                return joined(*refusals)
            if denied and each.is_atomic:
                return joined(*refusals, self._refused_elements(kept, context, NOT_ATTEMPTED))
        answer = self._handler.answer(request, context)
        if not refusals:
            return answer
        return changed(answer, lambda response: joined(response, *refusals))

    def failure(self, request: Any, context: RequestContext, error: KafkaError) -> Response:
        """Return the response in which every part of the request fails."""
        tell = self._refused if isinstance(error, DeniedError) else self._handler.failure
        response: Response = tell(request, context, error)
        return response


def check_whole(part: Resources, request: Any, rights: Rights, client: Client) -> None:
    """Raise DeniedError where a client has no right to what is refused as a whole."""
    operation = part.instead if isinstance(part, Whole) else None
    for resource in part(request):
        if operation is not None and rights.allows(
            client, resource._replace(operation=operation), is_asked_for=False
        ):
            continue
        if not rights.allows(client, resource):
            raise DeniedError(resource.kind)


def split(
    request: Any, each: Each, rights: Rights, client: Client
) -> tuple[Any, list[tuple[Any, DeniedError]]]:
    """Divide a request.

    Returns:
        The part of it that is allowed, and elements that are not, by the error.
    """
    wanted = set(each(request))
    denied: dict[ResourceType, set[Resource]] = {}
    for resource in wanted:
        if not rights.allows(client, resource) and not _is_absent(resource, each, rights, client):
            denied.setdefault(resource.kind, set()).add(resource)
    operation = each.instead
    if not denied or (
        operation is not None and rights.allows(client, cluster(operation), is_asked_for=False)
    ):
        return request, []
    kept = wanted.difference(*denied.values())
    return each.part(request, kept), [
        (each.part(request, some), DeniedError(kind)) for kind, some in sorted(denied.items())
    ]


def _is_absent(resource: Resource, each: Each, rights: Rights, client: Client) -> bool:
    """Return whether a client may learn that a topic is not there."""
    return (
        each.tells_absent
        and not rights.is_topic(resource.name)
        and rights.allows(client, resource._replace(operation=AclOperation.DESCRIBE))
    )


def joined(response: Any, *refusals: Any) -> Response:
    """Return a response with the elements of others as well; of an array that both have."""
    for refusal in refusals:
        if isinstance(refusal, NoAnswer):
            return NoAnswer(failure=refusal.failure)
        names = getattr(refusal, "__struct_fields__", None) or refusal.__slots__
        added = {
            name: (*getattr(response, name), *found)
            for name in names
            if isinstance(found := getattr(refusal, name), tuple | list) and found
            if isinstance(getattr(response, name, None), tuple | list)
        }
        response = replaced(response, **added)
    made: Response = response
    return made
