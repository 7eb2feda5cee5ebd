"""Credentials of users: what is told of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kio.schema.describe_user_scram_credentials.v0.request import (
    DescribeUserScramCredentialsRequest,
    UserName,
)

from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.metadata.image.security_image import SecurityImage
from jbodlab.metadata.records.security_records import UserScramCredentialRecord
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import Offset


def record(name: str, mechanism: int, iterations: int) -> UserScramCredentialRecord:
    return UserScramCredentialRecord(
        name=name,
        mechanism=mechanism,
        salt=b"salt of a user",
        stored_key=b"stored",
        server_key=b"server",
        iterations=iterations,
    )


RECORDS = (record("bob", 2, 8192), record("alice", 2, 4096), record("alice", 1, 5000))


async def described(
    client: Any, users: tuple[str, ...] | None
) -> dict[str, tuple[ErrorCode, list[tuple[int, int]]]]:
    request = DescribeUserScramCredentialsRequest(
        users=None if users is None else tuple(UserName(name=name) for name in users)
    )
    response = await client.call(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, request)
    assert response.error_code == ErrorCode.NONE
    return {
        each.user: (
            ErrorCode(int(each.error_code)),
            [(info.mechanism, info.iterations) for info in each.credential_infos],
        )
        for each in response.results
    }


async def test_credentials_are_described_without_their_keys(cluster: Any, client: Any) -> None:
    image = cluster.cache.image
    scram = {(each.name, each.mechanism): each for each in RECORDS}
    security = SecurityImage(scram=scram)
    cluster.cache.publish(replace(image, security=security, offset=Offset(image.offset + 1)))
    alice = (ErrorCode.NONE, [(1, 5000), (2, 4096)])
    bob = (ErrorCode.NONE, [(2, 8192)])

    assert await described(client, None) == {"alice": alice, "bob": bob}
    assert await described(client, ()) == {"alice": alice, "bob": bob}
    assert await described(client, ("bob",)) == {"bob": bob}
    assert await described(client, ("bob", "alice", "alice", "eve")) == {
        "bob": bob,
        "alice": (ErrorCode.DUPLICATE_RESOURCE, []),
        "eve": (ErrorCode.RESOURCE_NOT_FOUND, []),
    }
