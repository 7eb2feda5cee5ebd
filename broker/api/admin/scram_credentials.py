"""DescribeUserScramCredentials (KIP-554): which mechanisms users have, never their keys.

Source: `kafka.server.KafkaApis`, `org.apache.kafka.image.ScramImage`.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from broker.api.parts import ApiHandler, serves
from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.security.acl import AclOperation
from jbodlab.server.answer import RequestContext
from jbodlab.server.failures import FailsBySchema
from jbodlab.server.resources import on_cluster
from jbodlab.server.response import Response
from jbodlab.server.response_structs import ResponseStructs
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError

if TYPE_CHECKING:
    from kio.schema.describe_user_scram_credentials.v0.request import (
        DescribeUserScramCredentialsRequest,
    )

DESCRIBE_USER_SCRAM_CREDENTIALS = ResponseStructs(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0)


@serves(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, (0, 0), on_cluster(AclOperation.DESCRIBE))
class DescribeUserScramCredentialsApi(ApiHandler, FailsBySchema):
    """Answers from the metadata."""

    def answer(
        self, request: DescribeUserScramCredentialsRequest, context: RequestContext
    ) -> Response:
        """Describe the users that the request names; all of them if it names none."""
        infos: dict[str, list[Any]] = {}
        for (user, mechanism), record in sorted(self._parts.cache.image.security.scram.items()):
            infos.setdefault(user, []).append(
                DESCRIBE_USER_SCRAM_CREDENTIALS.CredentialInfo(
                    mechanism=mechanism, iterations=record.iterations
                )
            )
        times = Counter(each.name for each in request.users or ())
        return DESCRIBE_USER_SCRAM_CREDENTIALS.response(
            results=tuple(_result(user, infos, times[user]) for user in times or infos)
        )

    def failure(
        self,
        request: DescribeUserScramCredentialsRequest,
        context: RequestContext,
        error: KafkaError,
    ) -> Response:
        """Return the error for the whole request and for every user of it."""
        return DESCRIBE_USER_SCRAM_CREDENTIALS.response(
            error_code=error.code,
            error_message=error.message or None,
            results=tuple(
                DESCRIBE_USER_SCRAM_CREDENTIALS.DescribeUserScramCredentialsResult(
                    user=each.name, error_code=error.code, error_message=error.message or None
                )
                for each in request.users or ()
            ),
        )


def _result(user: str, infos: dict[str, list[Any]], times: int) -> Any:
    if times > 1:
        return DESCRIBE_USER_SCRAM_CREDENTIALS.DescribeUserScramCredentialsResult(
            user=user,
            error_code=ErrorCode.DUPLICATE_RESOURCE,
            error_message=f"Cannot describe SCRAM credentials for the same user twice in a single "
            f"request: {user}",
        )
    if user not in infos:
        return DESCRIBE_USER_SCRAM_CREDENTIALS.DescribeUserScramCredentialsResult(
            user=user,
            error_code=ErrorCode.RESOURCE_NOT_FOUND,
            error_message=f"Attempt to describe a user credential that does not exist: {user}",
        )
    return DESCRIBE_USER_SCRAM_CREDENTIALS.DescribeUserScramCredentialsResult(
        user=user, credential_infos=tuple(infos[user])
    )
