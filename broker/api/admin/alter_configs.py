"""IncrementalAlterConfigs and AlterConfigs.

Changes go to the controller, after a check of what only this broker can know, and are answered when
they are in force here.

Source: `kafka.server.ConfigAdminManager`, KIP-133, KIP-339.
"""

from __future__ import annotations

import datetime
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from broker.api.admin.controller_call import Deadline
from broker.api.cluster.own_configs import OwnConfigs, check_broker
from broker.api.ports import Controller
from broker.metadata_cache import MetadataCache
from jbodlab.config import dynamic_keys, key_table, topic_keys
from jbodlab.controller_api.requests import (
    AlterConfigsRequest,
    AlteredResource,
    ConfigChange,
    ConfigResource,
    IncrementalAlterConfigsRequest,
)
from jbodlab.controller_api.requests import AlterConfigsResponse as ControllersResponse
from jbodlab.metadata.records.config_records import BROKER_RESOURCE, GROUP_RESOURCE, TOPIC_RESOURCE
from jbodlab.server.answer import Later, RequestContext, in_background
from jbodlab.server.failures import FailsBySchema
from jbodlab.server.response import Response
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import ConfigError, KafkaError
from jbodlab.vocabulary.ids import BrokerId

if TYPE_CHECKING:
    from kio.schema.alter_configs.v2.request import AlterConfigsRequest as KafkaAlterConfigsRequest
    from kio.schema.incremental_alter_configs.v1.request import (
        IncrementalAlterConfigsRequest as KafkaIncrementalRequest,
    )

logger = logging.getLogger(__name__)

TIMEOUT = datetime.timedelta(seconds=20)
"""The requests carry none; clients wait for 30 s and more."""

SET, DELETE, APPEND = 0, 1, 2


class AlterConfigsResourceResponse(msgspec.Struct, frozen=True, kw_only=True):
    """Result for one topic or broker."""

    error_code: ErrorCode
    error_message: str | None
    resource_type: int
    resource_name: str


class AlterConfigsResponse(Response, frozen=True, kw_only=True):
    """One entry for each resource asked for."""

    responses: tuple[AlterConfigsResourceResponse, ...]


class _AlterApi(FailsBySchema):
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
            _warn_of_no_effect(passed)
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
                check_broker(resource.resource_name, self._broker_id)
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


def _warn_of_no_effect(resources: Iterable[ConfigResource]) -> None:
    for resource in resources:
        if resource.resource_type == GROUP_RESOURCE:
            continue
        is_topic = resource.resource_type == TOPIC_RESOURCE
        table = topic_keys.TOPIC_CONFIGS if is_topic else dynamic_keys.BROKER_TABLE
        names = [change.name for change in resource.changes if change.operation != DELETE]
        for key in key_table.without_effect(table, names):
            logger.warning(
                "configuration %s of %s is %s",
                key.name,
                f"topic {resource.resource_name}" if is_topic else "brokers",
                key.meaning,
            )


class IncrementalAlterConfigsApi(_AlterApi):
    """Changes some settings of topics, brokers and groups."""

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
    """Replaces all settings of topics, brokers and groups."""

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


def _in_order(
    resources: Sequence[ConfigResource], responses: Iterable[AlteredResource]
) -> list[AlteredResource]:
    """Return the controller's answers in the order asked; one that was named twice has one."""
    by_resource = {(each.resource_type, each.resource_name): each for each in responses}
    return [by_resource[each.resource_type, each.resource_name] for each in resources]


def _altered(answer: AlteredResource) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=answer.error_code,
        error_message=answer.error_message or None,
        resource_type=answer.resource_type,
        resource_name=answer.resource_name,
    )
