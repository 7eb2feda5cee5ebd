"""DescribeConfigs and ListConfigResources.

Settings are described by the broker that is asked; those of a broker by that very broker, as only
it knows its property file.

Source: `kafka.server.ConfigHelper`, KIP-133, KIP-1142.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from broker.api.parts import ApiHandler, serves
from broker.api.services import loggers
from broker.api.services.own_configs import check_broker
from jbodlab.config import value_sources
from jbodlab.config.value_sources import Described
from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.metadata.records.config_records import (
    BROKER_LOGGER_RESOURCE,
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
)
from jbodlab.security.acl import AclOperation
from jbodlab.server.answer import InParts, RequestContext
from jbodlab.server.failures import FailsBySchema
from jbodlab.server.resources import on_cluster, on_configs
from jbodlab.server.response import Response
from jbodlab.server.response_structs import ResponseStructs
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError

if TYPE_CHECKING:
    from kio.schema.describe_configs.v4.request import DescribeConfigsRequest
    from kio.schema.describe_configs.v4.request import (
        DescribeConfigsResource as KafkaDescribedResource,
    )
    from kio.schema.list_config_resources.v1.request import ListConfigResourcesRequest

DESCRIBE_CONFIGS = ResponseStructs(ApiKey.DESCRIBE_CONFIGS, 4)
LIST_CONFIG_RESOURCES = ResponseStructs(ApiKey.LIST_CONFIG_RESOURCES, 1)


@serves(
    ApiKey.DESCRIBE_CONFIGS,
    (1, 4),
    on_configs(AclOperation.DESCRIBE_CONFIGS),
    # Each item is answered with some forty settings.
    max_items=5_000,
)
class DescribeConfigsApi(ApiHandler, FailsBySchema):
    """Describes from this broker's metadata and property file."""

    def answer(self, request: DescribeConfigsRequest, context: RequestContext) -> InParts:
        """Describe every resource asked for."""
        documented = getattr(request, "include_documentation", False)
        shared: dict[object, tuple[Any, ...]] = {}
        return InParts(
            (
                self._result(resource, request.include_synonyms, documented, shared)
                for resource in request.resources
            ),
            lambda results: DESCRIBE_CONFIGS.response(results=tuple(results)),
        )

    def _result(
        self,
        resource: KafkaDescribedResource,
        with_synonyms: bool,
        documented: bool,
        shared: dict[object, tuple[Any, ...]],
    ) -> Any:
        """Describe one resource; in `shared` are the settings of earlier ones of this request.

        Most of ten thousand topics have no settings of their own: theirs are described once.
        """
        try:
            own, describe = self._settings(resource.resource_type, resource.resource_name)
        except KafkaError as error:
            return _failed(resource, error)
        keys = frozenset(resource.configuration_keys or ())
        alike = (resource.resource_type, own, keys)
        if alike not in shared:
            shared[alike] = tuple(
                _described(each, with_synonyms, documented)
                for each in describe()
                if not keys or each.name in keys
            )
        return DESCRIBE_CONFIGS.DescribeConfigsResult(
            error_code=ErrorCode.NONE,
            error_message=None,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            configs=shared[alike],
        )

    def _settings(
        self, resource_type: int, name: str
    ) -> tuple[object, Callable[[], tuple[Described, ...]]]:
        """Return what tells the settings of a resource from those of others, and what names them.

        Raises:
            KafkaError: there is no such resource here.
        """
        layers = self._parts.configs.layers
        if resource_type == TOPIC_RESOURCE:
            if self._parts.cache.topic_id(name) is None:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            topic = self._parts.cache.image.configs.topic(name)
            own = frozenset(topic.items())
            return own, partial(value_sources.describe_topic, topic, layers)
        if resource_type == GROUP_RESOURCE:
            group = self._parts.cache.image.configs.resource(GROUP_RESOURCE, name)
            return frozenset(group.items()), partial(value_sources.describe_group, group, layers)
        if resource_type == CLIENT_METRICS_RESOURCE:
            if not name:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty"
                )
            metrics = self._parts.cache.image.configs.resource(CLIENT_METRICS_RESOURCE, name)
            return name, partial(value_sources.describe_client_metrics, metrics)
        if resource_type == BROKER_LOGGER_RESOURCE:
            check_broker(name, self._parts.broker_id)
            return name, partial(value_sources.describe_loggers, loggers.levels())
        if resource_type != BROKER_RESOURCE:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {resource_type}")
        if not name:
            return name, partial(value_sources.describe_all_brokers, layers.all_brokers)
        check_broker(name, self._parts.broker_id)
        return name, partial(value_sources.describe_broker, layers)


@serves(ApiKey.LIST_CONFIG_RESOURCES, (0, 1), on_cluster(AclOperation.DESCRIBE_CONFIGS))
class ListConfigResourcesApi(ApiHandler, FailsBySchema):
    """Lists what may have settings: topics, brokers and their loggers, and what has some."""

    def answer(self, request: ListConfigResourcesRequest, context: RequestContext) -> Response:
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
        image = self._parts.cache.image
        brokers = [str(each) for each in sorted(image.cluster.brokers)]
        names: dict[int, Iterable[str]] = {
            TOPIC_RESOURCE: sorted(image.topics.by_name),
            BROKER_RESOURCE: brokers,
            BROKER_LOGGER_RESOURCE: brokers,
            **{
                configured: sorted(
                    name for kind, name in image.configs.resources if kind == configured
                )
                for configured in (CLIENT_METRICS_RESOURCE, GROUP_RESOURCE)
            },
        }
        return LIST_CONFIG_RESOURCES.response(
            config_resources=tuple(
                LIST_CONFIG_RESOURCES.ConfigResource(resource_name=name, resource_type=kind)
                for kind in sorted(asked or known)
                for name in names.get(kind, ())
            )
        )


def _described(each: Described, with_synonyms: bool, documented: bool) -> Any:
    return DESCRIBE_CONFIGS.DescribeConfigsResourceResult(
        name=each.name,
        value=each.value,
        read_only=each.is_read_only,
        config_source=each.source,
        is_sensitive=each.is_sensitive,
        synonyms=(
            tuple(
                DESCRIBE_CONFIGS.DescribeConfigsSynonym(
                    name=one.name, value=one.value, source=one.source
                )
                for one in each.synonyms
            )
            if with_synonyms
            else ()
        ),
        config_type=each.config_type,
        documentation=each.documentation if documented else None,
    )


def _failed(resource: KafkaDescribedResource, error: KafkaError) -> Any:
    return DESCRIBE_CONFIGS.DescribeConfigsResult(
        error_code=error.code,
        error_message=error.message or None,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
