"""DescribeConfigs, IncrementalAlterConfigs, AlterConfigs and ListConfigResources.

Settings are described by the broker that is asked; those of a broker by that very broker, as only
it knows its property file. Changes go to the controller, after a check of what only this broker can
know, and are answered when they are in force here.

Source: `kafka.server.ConfigHelper`, `ConfigAdminManager`, KIP-133, KIP-339, KIP-1142.
"""

from __future__ import annotations

import datetime
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from broker.api.answer import Later, RequestContext, Response, in_background
from broker.api.controller_call import Deadline
from broker.api.ports import Controller
from broker.metadata_cache import MetadataCache
from jbodlab import config_sources
from jbodlab.config_sources import BrokerLayers, Described
from jbodlab.error_code import ErrorCode
from jbodlab.errors import ConfigError, KafkaError
from jbodlab.ids import BrokerId
from jbodlab.records.config_records import BROKER_RESOURCE, TOPIC_RESOURCE
from jbodlab.requests import (
    AlterConfigsRequest,
    AlteredResource,
    ConfigChange,
    ConfigResource,
    IncrementalAlterConfigsRequest,
)
from jbodlab.requests import AlterConfigsResponse as ControllersResponse

if TYPE_CHECKING:
    from kio.schema.alter_configs.v2.request import AlterConfigsRequest as KafkaAlterConfigsRequest
    from kio.schema.describe_configs.v4.request import DescribeConfigsRequest
    from kio.schema.describe_configs.v4.request import (
        DescribeConfigsResource as KafkaDescribedResource,
    )
    from kio.schema.incremental_alter_configs.v1.request import (
        IncrementalAlterConfigsRequest as KafkaIncrementalRequest,
    )
    from kio.schema.list_config_resources.v1.request import ListConfigResourcesRequest

TIMEOUT = datetime.timedelta(seconds=20)
"""The requests carry none; clients wait for 30 s and more."""

SET, DELETE, APPEND = 0, 1, 2
BROKER_LOGGER_RESOURCE, CLIENT_METRICS_RESOURCE, GROUP_RESOURCE = 8, 16, 32


class OwnConfigs(Protocol):
    """The settings of this broker."""

    @property
    def layers(self) -> BrokerLayers:
        """What is set where."""

    def check_own(self, name: str, value: str) -> None:
        """Check what only this broker can know; raises ConfigError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeConfigsSynonym:
    """A value that a setting has somewhere."""

    name: str
    value: str | None
    source: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeConfigsResourceResult:
    """One setting."""

    name: str
    value: str | None
    read_only: bool
    config_source: int
    is_sensitive: bool
    synonyms: tuple[DescribeConfigsSynonym, ...]
    config_type: int
    documentation: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeConfigsResult:
    """One topic or broker."""

    error_code: ErrorCode
    error_message: str | None
    resource_type: int
    resource_name: str
    configs: tuple[DescribeConfigsResourceResult, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeConfigsResponse(Response):
    """One entry for each resource asked for."""

    results: tuple[DescribeConfigsResult, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterConfigsResourceResponse:
    """What became of one topic or broker."""

    error_code: ErrorCode
    error_message: str | None
    resource_type: int
    resource_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterConfigsResponse(Response):
    """One entry for each resource asked for."""

    responses: tuple[AlterConfigsResourceResponse, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedConfigResource:
    """A resource that may have settings."""

    resource_name: str
    resource_type: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ListConfigResourcesResponse(Response):
    """All resources of the types asked for."""

    error_code: ErrorCode = ErrorCode.NONE
    config_resources: tuple[ListedConfigResource, ...] = ()


class DescribeConfigsApi:
    """Describes from this broker's metadata and property file."""

    def __init__(self, cache: MetadataCache, broker_id: BrokerId, configs: OwnConfigs) -> None:
        self._cache = cache
        self._broker_id = broker_id
        self._configs = configs

    def answer(
        self, request: DescribeConfigsRequest, context: RequestContext
    ) -> DescribeConfigsResponse:
        """Describe every resource asked for."""
        documented = getattr(request, "include_documentation", False)
        return DescribeConfigsResponse(
            results=tuple(
                self._result(resource, request.include_synonyms, documented)
                for resource in request.resources
            )
        )

    def failure(
        self, request: DescribeConfigsRequest, context: RequestContext, error: KafkaError
    ) -> DescribeConfigsResponse:
        """Return the error for every resource."""
        return DescribeConfigsResponse(
            results=tuple(_failed(resource, error) for resource in request.resources)
        )

    def _result(
        self, resource: KafkaDescribedResource, with_synonyms: bool, documented: bool
    ) -> DescribeConfigsResult:
        try:
            found = self._describe(resource.resource_type, resource.resource_name)
        except KafkaError as error:
            return _failed(resource, error)
        keys = set(resource.configuration_keys or ())
        return DescribeConfigsResult(
            error_code=ErrorCode.NONE,
            error_message=None,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            configs=tuple(
                _described(each, with_synonyms, documented)
                for each in found
                if not keys or each.name in keys
            ),
        )

    def _describe(self, resource_type: int, name: str) -> tuple[Described, ...]:
        if resource_type == TOPIC_RESOURCE:
            if self._cache.topic_id(name) is None:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            topic = self._cache.image.configs.topic(name)
            return config_sources.describe_topic(topic, self._configs.layers)
        if resource_type != BROKER_RESOURCE:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {resource_type}"
            )
        if not name:
            return config_sources.describe_all_brokers(self._configs.layers.all_brokers)
        _check_broker(name, self._broker_id)
        return config_sources.describe_broker(self._configs.layers)


class _AlterApi:
    """What both ways of changing settings have in common.

    Args:
        controller: Makes the changes.
        cache: This broker's metadata.
        broker_id: Ours.
        configs: Our settings.
        is_settled: Whether the controller knows what follows from our settings.
    """

    def __init__(
        self,
        controller: Controller,
        cache: MetadataCache,
        broker_id: BrokerId,
        configs: OwnConfigs,
        is_settled: Callable[[], bool],
    ) -> None:
        self._controller = controller
        self._cache = cache
        self._broker_id = broker_id
        self._configs = configs
        self._is_settled = is_settled

    def failure(
        self,
        request: KafkaIncrementalRequest | KafkaAlterConfigsRequest,
        context: RequestContext,
        error: KafkaError,
    ) -> AlterConfigsResponse:
        """Return the error for every resource."""
        return AlterConfigsResponse(
            responses=tuple(
                AlterConfigsResourceResponse(
                    error_code=error.code,
                    error_message=error.message or None,
                    resource_type=resource.resource_type,
                    resource_name=resource.resource_name,
                )
                for resource in request.resources
            )
        )

    async def _alter(
        self,
        resources: Sequence[ConfigResource],
        send: Callable[[Deadline, tuple[ConfigResource, ...]], Awaitable[ControllersResponse]],
        *,
        validate_only: bool,
    ) -> AlterConfigsResponse:
        """Check, ask the controller, and wait until the changes are in force here."""
        refused = [self._refusal(resource) for resource in resources]
        passed = tuple(
            resource for resource, no in zip(resources, refused, strict=True) if no is None
        )
        answers: Iterator[AlteredResource] = iter(())
        if passed:
            deadline = Deadline(TIMEOUT)
            response = await send(deadline, passed)
            answers = iter(_in_order(passed, response.responses))
            if not validate_only:
                offset = response.metadata_offset
                await deadline.wait_for(
                    lambda: self._cache.image.offset >= offset and self._is_settled()
                )
        return AlterConfigsResponse(
            responses=tuple(_altered(next(answers) if no is None else no) for no in refused)
        )

    def _refusal(self, resource: ConfigResource) -> AlteredResource | None:
        """Return why this broker does not pass a change on; None if it does."""
        try:
            if resource.resource_type == BROKER_RESOURCE and resource.resource_name:
                _check_broker(resource.resource_name, self._broker_id)
                for change in resource.changes:
                    if change.operation in (SET, APPEND) and change.value is not None:
                        self._configs.check_own(change.name, change.value)
        except ConfigError as error:
            code = ErrorCode.INVALID_CONFIG
            text = f"Invalid value {error.value} for configuration {error.key}: {error.reason}"
        except KafkaError as error:
            code, text = error.code, error.message
        else:
            return None
        return AlteredResource(
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            error_code=code,
            error_message=text,
        )


class IncrementalAlterConfigsApi(_AlterApi):
    """Changes some settings of topics and brokers."""

    def answer(self, request: KafkaIncrementalRequest, context: RequestContext) -> Later:
        """Pass the changes on."""
        resources = [
            ConfigResource(
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                changes=tuple(
                    ConfigChange(
                        name=config.name, operation=config.config_operation, value=config.value
                    )
                    for config in resource.configs
                ),
            )
            for resource in request.resources
        ]

        async def send(
            deadline: Deadline, passed: tuple[ConfigResource, ...]
        ) -> ControllersResponse:
            return await deadline.call(
                self._controller.incremental_alter_configs,
                IncrementalAlterConfigsRequest(
                    resources=passed, validate_only=request.validate_only
                ),
            )

        return in_background(self._alter(resources, send, validate_only=request.validate_only))


class AlterConfigsApi(_AlterApi):
    """Replaces all settings of topics and brokers."""

    def answer(self, request: KafkaAlterConfigsRequest, context: RequestContext) -> Later:
        """Pass the settings on."""
        resources = [
            ConfigResource(
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                changes=tuple(
                    ConfigChange(name=config.name, value=config.value)
                    for config in resource.configs
                ),
            )
            for resource in request.resources
        ]

        async def send(
            deadline: Deadline, passed: tuple[ConfigResource, ...]
        ) -> ControllersResponse:
            return await deadline.call(
                self._controller.alter_configs,
                AlterConfigsRequest(resources=passed, validate_only=request.validate_only),
            )

        return in_background(self._alter(resources, send, validate_only=request.validate_only))


class ListConfigResourcesApi:
    """Lists what may have settings: topics and brokers; there are no others here."""

    def __init__(self, cache: MetadataCache) -> None:
        self._cache = cache

    def answer(
        self, request: ListConfigResourcesRequest, context: RequestContext
    ) -> ListConfigResourcesResponse:
        """List the resources of the types asked for; version 0 asks for client metrics only."""
        asked = set(getattr(request, "resource_types", (CLIENT_METRICS_RESOURCE,)))
        known = {
            TOPIC_RESOURCE,
            BROKER_RESOURCE,
            BROKER_LOGGER_RESOURCE,
            CLIENT_METRICS_RESOURCE,
            GROUP_RESOURCE,
        }
        if not asked <= known:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
        image = self._cache.image
        names: dict[int, Iterable[str]] = {
            TOPIC_RESOURCE: sorted(image.topics.by_name),
            BROKER_RESOURCE: [str(each) for each in sorted(image.cluster.brokers)],
        }
        return ListConfigResourcesResponse(
            config_resources=tuple(
                ListedConfigResource(resource_name=name, resource_type=kind)
                for kind in sorted(asked or known)
                for name in names.get(kind, ())
            )
        )

    def failure(
        self, request: ListConfigResourcesRequest, context: RequestContext, error: KafkaError
    ) -> ListConfigResourcesResponse:
        """Return the error."""
        return ListConfigResourcesResponse(error_code=error.code)


def _check_broker(name: str, broker_id: BrokerId) -> None:
    """Check that a broker's settings are asked of that broker.

    Raises:
        KafkaError: INVALID_REQUEST.
    """
    if not (name.isascii() and name.isdecimal()):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}"
        )
    if name != str(broker_id):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {broker_id} or empty string, but received {name}",
        )


def _in_order(
    resources: Sequence[ConfigResource], responses: Iterable[AlteredResource]
) -> list[AlteredResource]:
    """Return the controller's answers in the order asked; one that was named twice has one."""
    by_resource = {(each.resource_type, each.resource_name): each for each in responses}
    return [by_resource[each.resource_type, each.resource_name] for each in resources]


def _described(
    each: Described, with_synonyms: bool, documented: bool
) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=each.name,
        value=each.value,
        read_only=each.is_read_only,
        config_source=each.source,
        is_sensitive=False,
        synonyms=(
            tuple(
                DescribeConfigsSynonym(name=one.name, value=one.value, source=one.source)
                for one in each.synonyms
            )
            if with_synonyms
            else ()
        ),
        config_type=each.config_type,
        documentation=each.documentation if documented else None,
    )


def _failed(resource: KafkaDescribedResource, error: KafkaError) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=error.code,
        error_message=error.message or None,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def _altered(answer: AlteredResource) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=answer.error_code,
        error_message=answer.error_message or None,
        resource_type=answer.resource_type,
        resource_name=answer.resource_name,
    )
