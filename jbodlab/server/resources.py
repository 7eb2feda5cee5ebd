"""What requests touch: the resources and operations that rights are about.

Source: `org.apache.kafka.common.resource.ResourceType`, `org.apache.kafka.common.acl.AclOperation`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple
from uuid import UUID

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
"""Returns what a request touches."""

NAMES = ("name", "topic", "group_id", "topic_id")
"""Fields that name an element of a request, the first that is set."""


def nothing(_: Any) -> Iterable[Resource]:
    """Touch nothing: everybody may ask."""
    return ()


def on_cluster(operation: AclOperation) -> Resources:
    """Return resources of an API that is about the cluster as a whole."""
    touched = (Resource(ResourceType.CLUSTER, CLUSTER_NAME, operation),)
    return lambda _: touched


def on_topics(operation: AclOperation, field: str = "topics") -> Resources:
    """Return resources of an API with an array of topics; null or empty means none."""
    return _each(ResourceType.TOPIC, operation, field)


def on_groups(operation: AclOperation, field: str = "groups") -> Resources:
    """Return resources of an API with an array of groups, or with the id of one in `field`."""
    return _each(ResourceType.GROUP, operation, field)


def on_configs(operation: AclOperation) -> Resources:
    """Return resources of an API with an array of resources that have configs."""

    def touched(request: Any) -> Iterator[Resource]:
        for each in request.resources:
            match each.resource_type:
                case config_records.TOPIC_RESOURCE:
                    yield Resource(ResourceType.TOPIC, each.resource_name, operation)
                case config_records.GROUP_RESOURCE:
                    yield Resource(ResourceType.GROUP, each.resource_name, operation)
                case _:
                    yield Resource(ResourceType.CLUSTER, CLUSTER_NAME, operation)

    return touched


def all_of(*parts: Resources) -> Resources:
    """Return resources of an API that touches several kinds."""
    return lambda request: [each for part in parts for each in part(request)]


def _each(kind: ResourceType, operation: AclOperation, field: str) -> Resources:
    def touched(request: Any) -> Iterator[Resource]:
        found = getattr(request, field, None) or ()
        for each in (found,) if isinstance(found, str) else found:
            yield Resource(kind, _name(each), operation)

    return touched


def _name(element: Any) -> str | UUID:
    if isinstance(element, str):
        return element
    found = (getattr(element, field, None) for field in NAMES)
    name: str | UUID = next((each for each in found if each), "")
    return name
