"""ACLs: as by a Kafka without an authorizer, none is kept and each request is told why.

Source: `kafka.server.AclApis`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from broker.api.answer import RequestContext, Response
from jbodlab.error_code import ErrorCode
from jbodlab.errors import KafkaError

NO_AUTHORIZER = "No Authorizer is configured on the broker"


class AclResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result for one ACL to create, or for one filter of ACLs to delete."""

    error_code: ErrorCode
    error_message: str | None
    matching_acls: tuple[()] = ()


class AclsResponse(Response, frozen=True, kw_only=True):
    """Refusal of DescribeAcls, CreateAcls and DeleteAcls: the fields of all three."""

    error_code: ErrorCode
    error_message: str | None
    resources: tuple[()] = ()
    results: tuple[AclResult, ...]
    filter_results: tuple[AclResult, ...]


class AclsApi:
    """Keeps no ACLs."""

    def answer(self, request: Any, context: RequestContext) -> AclsResponse:
        """Refuse."""
        raise KafkaError(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)

    def failure(self, request: Any, context: RequestContext, error: KafkaError) -> AclsResponse:
        """Return the error, once for each part of the request."""
        parts: Sequence[object] = getattr(request, "creations", getattr(request, "filters", ()))
        message = error.message or None
        results = (AclResult(error_code=error.code, error_message=message),) * len(parts)
        return AclsResponse(
            error_code=error.code,
            error_message=message,
            results=results,
            filter_results=results,
        )
