"""ACLs: the broker keeps none and refuses each request, as Kafka without an authorizer does.

Source: `kafka.server.AclApis`.
"""

from __future__ import annotations

from typing import Any, NoReturn

from broker.api.parts import ApiParts
from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.security.acl import AclOperation
from jbodlab.server.answer import RequestContext
from jbodlab.server.api import Api
from jbodlab.server.failures import FailsBySchema
from jbodlab.server.resources import on_cluster
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError

NO_AUTHORIZER = "No Authorizer is configured on the broker"


class AclsApi(FailsBySchema):
    """Keeps no ACLs."""

    def answer(self, request: Any, context: RequestContext) -> NoReturn:
        """Refuse."""
        raise KafkaError(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)


APIS: tuple[Api[ApiParts], ...] = tuple(
    Api(key=key, versions=(1, 3), resources=on_cluster(operation), handler=lambda _: AclsApi())
    for key, operation in (
        (ApiKey.DESCRIBE_ACLS, AclOperation.DESCRIBE),
        (ApiKey.CREATE_ACLS, AclOperation.ALTER),
        (ApiKey.DELETE_ACLS, AclOperation.ALTER),
    )
)
