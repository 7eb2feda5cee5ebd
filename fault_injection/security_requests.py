"""Requests of an administrator about users and rights: Kafka's, over a connection that is open.

Access control entries are mappings with the fields of CreateAcls, as JSON has them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from fault_injection.errors import FaultError
from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.peers.client import KafkaConnection
from jbodlab.security.scram import MECHANISMS, salted_password
from jbodlab.vocabulary.error_code import ErrorCode

MECHANISM = MECHANISMS["SCRAM-SHA-512"]
ITERATIONS = 4096
SALT_BYTES = 24
ANY = 1
"""Every resource type, pattern, operation and permission."""


async def has_credential(connection: KafkaConnection, user: str) -> bool:
    """Return whether a user has a credential."""
    from kio.schema.describe_user_scram_credentials.v0 import request as parts

    request: Any = parts.DescribeUserScramCredentialsRequest(users=(parts.UserName(name=user),))
    answer = await connection.call(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, request)
    _raise_on(answer)
    return any(result.credential_infos for result in answer.results)


async def remove_user(connection: KafkaConnection, user: str) -> None:
    """Take the credential of a user away.

    Raises:
        FaultError: the cluster refuses.
    """
    from kio.schema.alter_user_scram_credentials.v0.request import ScramCredentialDeletion

    given: Any = ScramCredentialDeletion(name=user, mechanism=int(MECHANISM))  # type: ignore[arg-type]
    await _alter_users(connection, deletions=(given,))


async def add_user(connection: KafkaConnection, user: str, password: str) -> None:
    """Give a user a credential; raises as `remove_user`."""
    from kio.schema.alter_user_scram_credentials.v0.request import ScramCredentialUpsertion

    salt = os.urandom(SALT_BYTES)
    given: Any = ScramCredentialUpsertion(
        name=user,
        mechanism=int(MECHANISM),  # type: ignore[arg-type]
        iterations=ITERATIONS,  # type: ignore[arg-type]
        salt=salt,
        salted_password=salted_password(MECHANISM, password, salt, ITERATIONS),
    )
    await _alter_users(connection, upsertions=(given,))


async def _alter_users(
    connection: KafkaConnection, deletions: tuple[Any, ...] = (), upsertions: tuple[Any, ...] = ()
) -> None:
    from kio.schema.alter_user_scram_credentials.v0.request import AlterUserScramCredentialsRequest

    request = AlterUserScramCredentialsRequest(deletions=deletions, upsertions=upsertions)
    answer = await connection.call(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, request)
    for result in answer.results:
        _raise_on(result)


async def acls(connection: KafkaConnection, principal: str) -> list[dict[str, Any]]:
    """Return the access control entries of a principal.

    Args:
        connection: To a broker.
        principal: As `User:alice`; of a name alone also that of a certificate, `User:CN=alice`.

    Raises:
        FaultError: the cluster refuses.
    """
    from kio.schema.describe_acls.v3.request import DescribeAclsRequest

    found = []
    for name in _principals(principal):
        request = DescribeAclsRequest(
            resource_type_filter=ANY,  # type: ignore[arg-type]
            resource_name_filter=None,
            pattern_type_filter=ANY,  # type: ignore[arg-type]
            principal_filter=name,
            host_filter=None,
            operation=ANY,  # type: ignore[arg-type]
            permission_type=ANY,  # type: ignore[arg-type]
        )
        answer = await connection.call(ApiKey.DESCRIBE_ACLS, 3, request)
        _raise_on(answer)
        found += [
            {
                "resource_type": int(resource.resource_type),
                "resource_name": resource.resource_name,
                "resource_pattern_type": int(resource.pattern_type),
                **asdict(acl),
            }
            for resource in answer.resources
            for acl in resource.acls
        ]
    return found


async def delete_acls(connection: KafkaConnection, entries: Sequence[Mapping[str, Any]]) -> None:
    """Delete access control entries; raises as `acls`."""
    from kio.schema.delete_acls.v3.request import DeleteAclsFilter, DeleteAclsRequest

    filters = tuple(
        DeleteAclsFilter(
            resource_type_filter=each["resource_type"],
            resource_name_filter=each["resource_name"],
            pattern_type_filter=each["resource_pattern_type"],
            principal_filter=each["principal"],
            host_filter=each["host"],
            operation=each["operation"],
            permission_type=each["permission_type"],
        )
        for each in entries
    )
    answer = await connection.call(ApiKey.DELETE_ACLS, 3, DeleteAclsRequest(filters=filters))
    for result in answer.filter_results:
        _raise_on(result)


async def create_acls(connection: KafkaConnection, entries: Sequence[Mapping[str, Any]]) -> None:
    """Create access control entries; raises as `acls`."""
    from kio.schema.create_acls.v3.request import AclCreation, CreateAclsRequest

    creations = tuple(AclCreation(**each) for each in entries)
    answer = await connection.call(ApiKey.CREATE_ACLS, 3, CreateAclsRequest(creations=creations))
    for result in answer.results:
        _raise_on(result)


def _principals(principal: str) -> tuple[str, ...]:
    return (principal,) if ":" in principal else (f"User:{principal}", f"User:CN={principal}")


def _raise_on(answer: Any) -> None:
    code = int(answer.error_code)
    if code:
        text = answer.error_message or ""
        raise FaultError(f"the cluster refuses: {ErrorCode(code).name} {text}".rstrip())
