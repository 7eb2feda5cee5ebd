"""Resources of requests: the resources and operations that rights are about.

Source: `org.apache.kafka.common.resource.ResourceType`, `org.apache.kafka.common.acl.AclOperation`.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import is_dataclass
from dataclasses import replace as replace_entity
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from jbodlab.metadata.records import config_records
from jbodlab.security.acl import CLUSTER_NAME, AclOperation, ResourceType


class Resource(NamedTuple):
    """One thing that a request touches, and what it does there.

    Attributes:
        name: The id of a topic where the request has no name of it.
    """

    kind: ResourceType
    name: str | UUID
    operation: AclOperation


Resources = Callable[[Any], Iterable[Resource]]
"""Returns what a request touches; without a right to one of it nothing is done."""

NAMES = ("name", "topic", "group_id", "topic_id")
"""Fields that name an element of a request, the first that is set."""


class Whole(msgspec.Struct, frozen=True):
    """One resource, whichever the request.

    Attributes:
        instead: Operation whose right is enough, too.
    """

    resource: Resource
    instead: AclOperation | None = None

    def __call__(self, request: Any) -> Iterable[Resource]:
        """Return what a request touches."""
        return (self.resource,)


class Each(msgspec.Struct, frozen=True, kw_only=True):
    """Resources of an array, of whose elements each is refused alone.

    Attributes:
        field: The array of the request; null, empty or missing means none.
        resource: The resource of `(request, element)`.
        instead: Operation on the cluster whose right replaces a right to each element.
        tells_absent: Whether who may describe a topic learns that it is absent, without the right.
        is_atomic: Whether nothing is done where one element is refused.
    """

    field: str
    resource: Callable[[Any, Any], Resource]
    instead: AclOperation | None = None
    tells_absent: bool = False
    is_atomic: bool = False

    def __call__(self, request: Any) -> Iterator[Resource]:
        """Return what a request touches."""
        for element in getattr(request, self.field, None) or ():
            yield self.resource(request, element)

    def part(self, request: Any, wanted: Container[Resource]) -> Any:
        """Return a request without the elements of other resources."""
        elements = getattr(request, self.field)
        left = tuple(each for each in elements if self.resource(request, each) in wanted)
        return replaced(request, **{self.field: left})


class Elsewhere(msgspec.Struct, frozen=True):
    """Resources that the handler itself looks at, as their refusal is no error of an element."""

    touched: Resources

    def __call__(self, request: Any) -> Iterable[Resource]:
        """Return what a request touches."""
        return self.touched(request)


class AllOf(msgspec.Struct, frozen=True):
    """Resources of an API that touches several kinds."""

    parts: tuple[Resources, ...]

    def __call__(self, request: Any) -> list[Resource]:
        """Return what a request touches."""
        return [each for part in self.parts for each in part(request)]


def nothing(_: Any) -> Iterable[Resource]:
    """Touch nothing: everybody may ask."""
    return ()


def on_cluster(operation: AclOperation, *, instead: AclOperation | None = None) -> Whole:
    """Return resources of an API that is about the cluster as a whole; see `Whole`."""
    return Whole(Resource(ResourceType.CLUSTER, CLUSTER_NAME, operation), instead)


def on_topics(
    operation: AclOperation,
    field: str = "topics",
    *,
    instead: AclOperation | None = None,
    tells_absent: bool = False,
    is_atomic: bool = False,
) -> Each:
    """Return resources of an API with an array of topics; see `Each`."""
    return Each(
        field=field,
        resource=lambda _, topic: Resource(ResourceType.TOPIC, name_of(topic), operation),
        instead=instead,
        tells_absent=tells_absent,
        is_atomic=is_atomic,
    )


def on_groups(operation: AclOperation, field: str = "groups") -> Each:
    """Return resources of an API with an array of groups."""
    return Each(
        field=field,
        resource=lambda _, group: Resource(ResourceType.GROUP, name_of(group), operation),
    )


def on_group(operation: AclOperation) -> Resources:
    """Return resources of an API about one group."""
    return lambda request: (Resource(ResourceType.GROUP, request.group_id, operation),)


def on_transaction(operation: AclOperation, field: str = "transactional_id") -> Resources:
    """Return resources of an API about one transaction, or about none where the field is null."""

    def touched(request: Any) -> Iterator[Resource]:
        name = getattr(request, field)
        if name is not None:
            yield transaction(name, operation)

    return touched


def transaction(transactional_id: str, operation: AclOperation) -> Resource:
    """Return a transactional id as a resource."""
    return Resource(ResourceType.TRANSACTIONAL_ID, transactional_id, operation)


def on_configs(operation: AclOperation) -> Each:
    """Return resources of an API with an array of resources that have configs."""

    def touched(_: Any, element: Any) -> Resource:
        match element.resource_type:
            case config_records.TOPIC_RESOURCE:
                return Resource(ResourceType.TOPIC, element.resource_name, operation)
            case config_records.GROUP_RESOURCE:
                return Resource(ResourceType.GROUP, element.resource_name, operation)
            case _:
                return Resource(ResourceType.CLUSTER, CLUSTER_NAME, operation)

    return Each(field="resources", resource=touched)


def all_of(*parts: Resources) -> AllOf:
    """Return resources of an API that touches several kinds."""
    return AllOf(parts)


def parts_of(resources: Resources) -> tuple[Resources, ...]:
    """Return the kinds that an API touches, each alone."""
    return resources.parts if isinstance(resources, AllOf) else (resources,)


def name_of(element: Any) -> str | UUID:
    """Return what an element of a request is about."""
    if isinstance(element, str):
        return element
    found = (getattr(element, field, None) for field in NAMES)
    name: str | UUID = next((each for each in found if each), "")
    return name


def replaced(value: Any, **fields: Any) -> Any:
    """Return a request or a response with other fields."""
    if is_dataclass(value) and not isinstance(value, type):
        return replace_entity(value, **fields)
    return msgspec.structs.replace(value, **fields)
