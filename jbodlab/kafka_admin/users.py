"""Users with passwords (SCRAM): list, set and remove their credentials."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from jbodlab.kafka_admin.errors import check
from jbodlab.kafka_wire.api_key import ApiKey
from jbodlab.security.scram import ScramMechanism

if TYPE_CHECKING:
    from jbodlab.kafka_admin.client import AdminClient


class Credential(NamedTuple):
    """That a user may log in by a mechanism."""

    user: str
    mechanism: ScramMechanism
    iterations: int


async def describe_users(client: AdminClient) -> list[Credential]:
    """Return the credentials of all users, in the order of their names; raises RequestError."""
    response = await client.call(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, {"users": None})
    check(response)
    return [
        Credential(user.user, ScramMechanism(info.mechanism), info.iterations)
        for user in sorted(response.results, key=lambda each: str(each.user))
        for info in user.credential_infos
    ]


async def set_password(
    client: AdminClient, credential: Credential, salt: bytes, salted_password: bytes
) -> None:
    """Set the password of a user for one mechanism; raises RequestError."""
    upsertion = {
        "name": credential.user,
        "mechanism": credential.mechanism,
        "iterations": credential.iterations,
        "salt": salt,
        "salted_password": salted_password,
    }
    await _alter(client, [], [upsertion])


async def remove_password(client: AdminClient, user: str, mechanism: ScramMechanism) -> None:
    """Remove the password of a user for one mechanism; raises RequestError."""
    await _alter(client, [{"name": user, "mechanism": mechanism}], [])


async def _alter(
    client: AdminClient,
    deletions: Sequence[Mapping[str, Any]],
    upsertions: Sequence[Mapping[str, Any]],
) -> None:
    values = {"deletions": deletions, "upsertions": upsertions}
    response = await client.call(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, values)
    for result in response.results:
        check(result)
