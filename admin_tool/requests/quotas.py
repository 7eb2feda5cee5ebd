"""Quotas of clients: reading and changing them (KIP-546)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from admin_tool.errors import RequestError
from admin_tool.requests.connection import Connection

Entity = Mapping[str, str | None]
"""Names by kind, `user`, `client-id`, `ip`; None is the default of a kind."""
EXACT, DEFAULT, ANY = 0, 1, 2


def describe_quotas(
    connection: Connection, wanted: Sequence[tuple[str, int, str | None]]
) -> list[tuple[dict[str, str | None], dict[str, float]]]:
    """Return the quotas of all entities that have just these kinds.

    Args:
        connection: The cluster.
        wanted: Kind, `EXACT`, `DEFAULT` or `ANY`, and the name where it is exact.

    Raises:
        RequestError: the cluster does not say.
    """
    from kafka.protocol.admin.client_quotas import (  # type: ignore[import-untyped]
        DescribeClientQuotasRequest as Request,
    )

    components = [
        Request.ComponentData(entity_type=kind, match_type=match, match=name)
        for kind, match, name in wanted
    ]
    response = connection.call(Request(components=components, strict=True))
    if response.error_code:
        raise RequestError(response.error_code, response.error_message)
    return [
        (
            {one.entity_type: one.entity_name for one in entry.entity},
            {one.key: one.value for one in entry.values},
        )
        for entry in response.entries or ()
    ]


def alter_quotas(
    connection: Connection, entity: Entity, changes: Mapping[str, float | None]
) -> None:
    """Set quotas, or remove those whose value is None.

    Raises:
        RequestError: the cluster refuses it.
    """
    from kafka.protocol.admin.client_quotas import AlterClientQuotasRequest as Request

    entry = Request.EntryData
    request = Request(
        entries=[
            entry(
                entity=[
                    entry.EntityData(entity_type=kind, entity_name=name)
                    for kind, name in entity.items()
                ],
                ops=[
                    entry.OpData(key=key, value=value or 0.0, remove=value is None)
                    for key, value in changes.items()
                ],
            )
        ],
        validate_only=False,
    )
    for one in connection.call(request).entries:
        if one.error_code:
            raise RequestError(one.error_code, one.error_message)
