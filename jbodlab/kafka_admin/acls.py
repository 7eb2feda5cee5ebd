"""Access control entries: list, add and remove."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from jbodlab.kafka_admin.errors import check
from jbodlab.kafka_wire.api_key import ApiKey
from jbodlab.security import acl

if TYPE_CHECKING:
    from jbodlab.kafka_admin.client import AdminClient


async def describe_acls(client: AdminClient, wanted: acl.AclFilter) -> list[acl.AccessControlEntry]:
    """Return the entries that pass a filter, sorted; raises RequestError."""
    response = await client.call(ApiKey.DESCRIBE_ACLS, _filter(wanted))
    check(response)
    names = acl.AccessControlEntry._fields
    return sorted(
        acl.AccessControlEntry(
            *(getattr(one if name in names[:3] else entry, name) for name in names)
        )
        for one in response.resources
        for entry in one.acls
    )


async def create_acls(client: AdminClient, entries: Iterable[acl.AccessControlEntry]) -> None:
    """Add entries; raises RequestError where the cluster refuses one."""
    creations = []
    for entry in entries:
        values = entry._asdict()
        creations.append({**values, "resource_pattern_type": values.pop("pattern_type")})
    response = await client.call(ApiKey.CREATE_ACLS, {"creations": creations})
    for result in response.results:
        check(result)


async def delete_acls(client: AdminClient, wanted: acl.AclFilter) -> None:
    """Remove the entries that pass a filter; raises RequestError."""
    response = await client.call(ApiKey.DELETE_ACLS, {"filters": [_filter(wanted)]})
    for result in response.filter_results:
        check(result)


def _filter(wanted: acl.AclFilter) -> dict[str, Any]:
    """Return the fields of a filter, as requests name them."""
    return {_FILTERED.get(name, name): value for name, value in wanted._asdict().items()}


_FILTERED = {
    "resource_type": "resource_type_filter",
    "resource_name": "resource_name_filter",
    "pattern_type": "pattern_type_filter",
    "principal": "principal_filter",
    "host": "host_filter",
}
