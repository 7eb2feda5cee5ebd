"""UpdateFeatures: passed on to the controller."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from broker.api.admin.controller_call import Deadline
from broker.api.ports import Controller
from broker.metadata_cache import MetadataCache
from jbodlab.controller_api.requests import FeatureUpdate, UpdateFeaturesRequest
from jbodlab.server.answer import Later, RequestContext, in_background, milliseconds
from jbodlab.server.failures import FailsBySchema
from jbodlab.server.response import Response
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError

if TYPE_CHECKING:
    from kio.schema.update_features.v2.request import FeatureUpdateKey
    from kio.schema.update_features.v2.request import (
        UpdateFeaturesRequest as KafkaUpdateFeaturesRequest,
    )

UPGRADE, SAFE_DOWNGRADE = 1, 2


class UpdatableFeatureResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result for one feature; not sent since version 2."""

    feature: str
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


class UpdateFeaturesResponse(Response, frozen=True, kw_only=True):
    """Whether all levels are set; results are there only if they are."""

    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    results: tuple[UpdatableFeatureResult, ...] = ()


class UpdateFeaturesApi(FailsBySchema):
    """Has finalized levels raised and lowered; any broker takes the request."""

    def __init__(self, controller: Controller, cache: MetadataCache) -> None:
        self._controller = controller
        self._cache = cache

    def answer(self, request: KafkaUpdateFeaturesRequest, context: RequestContext) -> Later:
        """Ask the controller, and wait until this broker knows the new levels."""
        return in_background(self._update(request))

    async def _update(self, request: KafkaUpdateFeaturesRequest) -> UpdateFeaturesResponse:
        deadline = Deadline(request.timeout)
        updates = tuple(map(_update_of, request.feature_updates))
        # Since version 1.
        validate_only = getattr(request, "validate_only", False)
        response = await deadline.call(
            self._controller.update_features,
            UpdateFeaturesRequest(
                feature_updates=updates,
                timeout_ms=milliseconds(request.timeout),
                validate_only=validate_only,
            ),
        )
        if response.error_code != ErrorCode.NONE:
            raise KafkaError(response.error_code, response.error_message)
        if not validate_only:
            await deadline.wait_for(lambda: all(map(self._is_here, updates)))
        return UpdateFeaturesResponse(
            results=tuple(UpdatableFeatureResult(feature=update.feature) for update in updates)
        )

    def _is_here(self, update: FeatureUpdate) -> bool:
        levels = self._cache.image.features.levels
        return levels.get(update.feature, 0) == update.max_version_level


def _update_of(update: FeatureUpdateKey) -> FeatureUpdate:
    # Version 0 says only whether the level may be lower.
    may_lower = getattr(update, "allow_downgrade", False)
    return FeatureUpdate(
        feature=update.feature,
        max_version_level=update.max_version_level,
        upgrade_type=getattr(update, "upgrade_type", SAFE_DOWNGRADE if may_lower else UPGRADE),
    )
