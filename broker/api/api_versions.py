"""ApiVersions: which APIs and versions this broker serves (KIP-511)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from broker.metadata.metadata_cache import MetadataCache
from jbodlab.kafka_wire.api_table import OWN_MESSAGES, ApiKey
from jbodlab.metadata.image.settings_image import ConfigsImage
from jbodlab.metadata.records.config_records import CLIENT_METRICS_RESOURCE
from jbodlab.server.answer import RequestContext
from jbodlab.server.api import Api
from jbodlab.server.failures import FailsBySchema
from jbodlab.server.feature_levels import feature_fields
from jbodlab.server.response import Response
from jbodlab.server.response_structs import ResponseStructs
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError

if TYPE_CHECKING:
    from kio.schema.api_versions.v4.request import ApiVersionsRequest

SOFTWARE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?")
"""Valid names and versions of a client's software."""

TELEMETRY = (ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY)

API_VERSIONS = ResponseStructs(ApiKey.API_VERSIONS, 4)


class ApiVersionsApi(FailsBySchema):
    """Answers with the ranges of all APIs, and with features."""

    def __init__(
        self, apis: Iterable[Api[Any]], cache: MetadataCache, kraft_version: Callable[[], int]
    ) -> None:
        self._cache = cache
        self._kraft_version = kraft_version
        self._configs: ConfigsImage | None = None
        """The settings that `_is_subscribed` is about; an image never changes."""
        self._is_subscribed = False
        api_keys = tuple(
            API_VERSIONS.ApiVersion(
                api_key=api.key, min_version=api.versions[0], max_version=api.versions[1]
            )
            for api in apis
            if api.key not in OWN_MESSAGES
        )
        self._response = API_VERSIONS.response(api_keys=api_keys)
        # Clients that know of these APIs ask, and log it, although nothing is wanted of them.
        self._without_telemetry = API_VERSIONS.response(
            api_keys=tuple(each for each in api_keys if each.api_key not in TELEMETRY)
        )

    def answer(self, request: ApiVersionsRequest, context: RequestContext) -> Response:
        """Return the ranges and the features of the moment.

        The APIs of telemetry are named while a subscription exists.
        """
        if context.version >= 3:
            names = (request.client_software_name, request.client_software_version)
            if not all(SOFTWARE.fullmatch(name) for name in names):
                raise KafkaError(ErrorCode.INVALID_REQUEST, "malformed client software name")
            session = context.session
            session.software_name, session.software_version = names
        image = self._cache.image
        has_subscriptions = self._has_subscriptions(image.configs)
        told: Response = replace(
            self._response if has_subscriptions else self._without_telemetry,
            **feature_fields(
                API_VERSIONS,
                context.version,
                image.features.levels,
                image.offset,
                self._kraft_version(),
            ),
        )
        return told

    def _has_subscriptions(self, configs: ConfigsImage) -> bool:
        """Return whether clients are asked for metrics; every connection begins with this."""
        if configs is not self._configs:
            self._configs = configs
            kinds = (kind for kind, _ in configs.resources)
            self._is_subscribed = CLIENT_METRICS_RESOURCE in kinds
        return self._is_subscribed
