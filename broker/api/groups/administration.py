"""DescribeGroups, ListGroups and DeleteGroups: what administrators ask and do."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from broker.api.parts import ApiHandler, serves
from broker.api.services.coordinators import Each, described, request_of
from broker.groups import requests, responses
from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.security.acl import AclOperation, ResourceType
from jbodlab.server.answer import InParts, Later, RequestContext
from jbodlab.server.failures import FailsBySchema
from jbodlab.server.resources import Elsewhere, Resource, on_cluster, on_groups
from jbodlab.server.rights import client_of, cluster, operations_on
from jbodlab.vocabulary.errors import KafkaError

if TYPE_CHECKING:
    from kio.schema.delete_groups.v2.request import DeleteGroupsRequest
    from kio.schema.describe_groups.v6.request import DescribeGroupsRequest
    from kio.schema.list_groups.v5.request import ListGroupsRequest


@serves(ApiKey.DESCRIBE_GROUPS, (0, 6), on_groups(AclOperation.DESCRIBE))
class DescribeGroupsApi(ApiHandler, FailsBySchema):
    """Describes classic groups."""

    def answer(self, request: DescribeGroupsRequest, context: RequestContext) -> Later:
        """Describe every group; what went wrong for one stands in its entry."""
        operations = operations_on(
            self._parts.rights,
            context.session,
            ResourceType.GROUP,
            is_asked=getattr(request, "include_authorized_operations", False),
        )

        def request_for(group_ids: tuple[str, ...]) -> requests.Request:
            return requests.DescribeGroups(version=context.version, groups=group_ids)

        def finish(each: Each) -> responses.DescribeGroupsResponse:
            groups = described(request.groups, each, responses.DescribedGroup, operations)
            return responses.DescribeGroupsResponse(groups=groups)

        return Later(self._parts.groups.submit_each(request.groups, request_for), finish)


@serves(ApiKey.LIST_GROUPS, (0, 5), Elsewhere(on_cluster(AclOperation.DESCRIBE)))
class ListGroupsApi(ApiHandler, FailsBySchema):
    """Lists groups of every kind that the client may describe."""

    def answer(self, request: ListGroupsRequest, context: RequestContext) -> InParts:
        """List the groups of all shards that are here."""

        def finish(told: list[responses.ListedGroup]) -> responses.ListGroupsResponse:
            return responses.ListGroupsResponse(groups=tuple(told))

        return InParts(self._told(request, context), finish)

    async def _told(
        self, request: ListGroupsRequest, context: RequestContext
    ) -> AsyncIterator[responses.ListedGroup | None]:
        asked = request_of(requests.ListGroups, request, context)
        client, operation = client_of(context.session), AclOperation.DESCRIBE
        allows = partial(self._parts.rights.allows, client, is_asked_for=False)
        tells_all = allows(cluster(operation))
        each: responses.ListedGroup | None
        for each in chain(*await self._parts.groups.submit_to_all(asked)):
            is_told = each is not None and (
                tells_all or allows(Resource(ResourceType.GROUP, each.group_id, operation))
            )
            yield each if is_told else None


@serves(ApiKey.DELETE_GROUPS, (0, 2), on_groups(AclOperation.DELETE, "groups_names"))
class DeleteGroupsApi(ApiHandler, FailsBySchema):
    """Deletes groups with their offsets."""

    def answer(self, request: DeleteGroupsRequest, context: RequestContext) -> Later:
        """Delete every group that has no members."""

        def request_for(group_ids: tuple[str, ...]) -> requests.Request:
            return requests.DeleteGroups(groups_names=group_ids)

        def finish(each: Each) -> responses.DeleteGroupsResponse:
            deleted = {
                result.group_id: result
                for group_ids, answer in each
                for result in _deleted(group_ids, answer)
            }
            return responses.DeleteGroupsResponse(
                results=tuple(deleted[group_id] for group_id in request.groups_names)
            )

        return Later(self._parts.groups.submit_each(request.groups_names, request_for), finish)


def _deleted(group_ids: Iterable[str], answer: Any) -> Iterable[responses.DeletableGroupResult]:
    if isinstance(answer, KafkaError):
        return [responses.DeletableGroupResult(group_id, answer.code) for group_id in group_ids]
    results: Iterable[responses.DeletableGroupResult] = answer.results
    return results
