"""DescribeClientQuotas (KIP-546)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from broker.api.parts import ApiHandler, serves
from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.metadata.client_quota import CLIENT_ID, IP, USER
from jbodlab.metadata.image.settings_image import QuotaEntities
from jbodlab.security.acl import AclOperation
from jbodlab.server.answer import RequestContext
from jbodlab.server.resources import on_cluster
from jbodlab.server.response import Response
from jbodlab.server.response_structs import ResponseStructs
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError

if TYPE_CHECKING:
    from kio.schema.describe_client_quotas.v1.request import (
        ComponentData,
        DescribeClientQuotasRequest,
    )

DESCRIBE_CLIENT_QUOTAS = ResponseStructs(ApiKey.DESCRIBE_CLIENT_QUOTAS, 1)

EXACT, DEFAULT, ANY = 0, 1, 2
"""How a part of an entity is matched."""


@serves(ApiKey.DESCRIBE_CLIENT_QUOTAS, (0, 1), on_cluster(AclOperation.DESCRIBE_CONFIGS))
class DescribeClientQuotasApi(ApiHandler):
    """Answers from the metadata."""

    def answer(self, request: DescribeClientQuotasRequest, context: RequestContext) -> Response:
        """Describe the entities that match every component."""
        kinds = [component.entity_type for component in request.components]
        if len(set(kinds)) < len(kinds) or (IP in kinds and len(kinds) > 1):
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, "duplicate entity type, or another type beside ip"
            )
        for component in request.components:
            _check(component)
        return DESCRIBE_CLIENT_QUOTAS.response(
            entries=tuple(
                DESCRIBE_CLIENT_QUOTAS.EntryData(
                    entity=tuple(
                        DESCRIBE_CLIENT_QUOTAS.EntityData(entity_type=kind, entity_name=name)
                        for kind, name in sorted(entities, key=lambda each: each[0], reverse=True)
                    ),
                    values=tuple(
                        DESCRIBE_CLIENT_QUOTAS.ValueData(key=key, value=value)
                        for key, value in sorted(values.items())
                    ),
                )
                for entities, values in self._parts.cache.image.quotas.items()
                if _matches(entities, request.components, strict=request.strict)
            )
        )

    def failure(
        self, request: DescribeClientQuotasRequest, context: RequestContext, error: KafkaError
    ) -> Response:
        """Return the error for the whole request."""
        return DESCRIBE_CLIENT_QUOTAS.response(
            error_code=error.code, error_message=error.message or None
        )


def _check(component: ComponentData) -> None:
    if component.entity_type not in (USER, CLIENT_ID, IP):
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            f"Custom entity type '{component.entity_type}' not supported",
        )
    if component.match_type not in (EXACT, DEFAULT, ANY) or (
        (component.match_type == EXACT) != (component.match is not None)
    ):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, "an entity name is missing, or not allowed for its type"
        )


def _matches(entities: QuotaEntities, components: Iterable[ComponentData], *, strict: bool) -> bool:
    """Return whether each component is met; strictly, whether nothing else is there."""
    names = dict(entities)
    for component in components:
        kind = component.entity_type
        if kind not in names:
            return False
        name = names.pop(kind)
        if component.match_type == EXACT and name != component.match:
            return False
        if component.match_type == DEFAULT and name is not None:
            return False
    return not (strict and names)
