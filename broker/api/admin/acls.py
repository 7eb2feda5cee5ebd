"""ACLs: as by a Kafka without an authorizer, none is kept and each request is told why.

Source: `kafka.server.AclApis`.
"""

from __future__ import annotations

from typing import Any, NoReturn

from jbodlab.server.answer import RequestContext
from jbodlab.server.failures import FailsBySchema
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError

NO_AUTHORIZER = "No Authorizer is configured on the broker"


class AclsApi(FailsBySchema):
    """Keeps no ACLs."""

    def answer(self, request: Any, context: RequestContext) -> NoReturn:
        """Refuse."""
        raise KafkaError(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
