"""DescribeAcls: the access control entries that a filter matches.

Source: `kafka.server.AclApis`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.api.admin.forwarding import NO_AUTHORIZER
from broker.api.parts import ApiHandler, serves
from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.security.acl import AccessControlEntry, AclFilter, AclOperation, entry_of
from jbodlab.server.answer import RequestContext
from jbodlab.server.failures import FailsBySchema
from jbodlab.server.resources import on_cluster
from jbodlab.server.response import Response
from jbodlab.server.response_structs import ResponseStructs
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError

if TYPE_CHECKING:
    from kio.schema.describe_acls.v3.request import DescribeAclsRequest

DESCRIBE_ACLS = ResponseStructs(ApiKey.DESCRIBE_ACLS, 3)


@serves(ApiKey.DESCRIBE_ACLS, (1, 3), on_cluster(AclOperation.DESCRIBE))
class DescribeAclsApi(ApiHandler, FailsBySchema):
    """Answers from the metadata."""

    def answer(self, request: DescribeAclsRequest, context: RequestContext) -> Response:
        """List entries by their patterns."""
        if not self._parts.rights.is_enforced:
            raise KafkaError(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
        wanted = AclFilter(
            resource_type=request.resource_type_filter,
            resource_name=request.resource_name_filter,
            pattern_type=request.pattern_type_filter,
            principal=request.principal_filter,
            host=request.host_filter,
            operation=request.operation,
            permission_type=request.permission_type,
        )
        if not wanted.is_known:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "a code of the filter means nothing")
        by_pattern: dict[tuple[int, str, int], list[AccessControlEntry]] = {}
        for record in self._parts.cache.image.security.acls.values():
            entry = entry_of(record)
            if wanted.matches(entry):
                by_pattern.setdefault(entry[:3], []).append(entry)
        return DESCRIBE_ACLS.response(
            resources=tuple(
                DESCRIBE_ACLS.DescribeAclsResource(
                    resource_type=kind, resource_name=name, pattern_type=pattern, acls=tuple(acls)
                )
                for (kind, name, pattern), acls in sorted(by_pattern.items())
            )
        )
