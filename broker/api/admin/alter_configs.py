"""IncrementalAlterConfigs and AlterConfigs.

Changes go to the controller, after a check of what only this broker can know, and are answered when
they are in force here. The levels of this process's loggers are changed here alone.

Source: `kafka.server.ConfigAdminManager`, KIP-133, KIP-339.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from broker.api.admin.forwarding import Deadline, ForwardedApi
from broker.api.services import loggers
from broker.api.services.own_configs import check_broker
from jbodlab.config import kafka_configs, key_table
from jbodlab.controller_api.requests import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    AlteredResource,
    ConfigResource,
    IncrementalAlterConfigsRequest,
)
from jbodlab.metadata.records.config_records import (
    BROKER_LOGGER_RESOURCE,
    BROKER_RESOURCE,
    TOPIC_RESOURCE,
)
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import ConfigError, KafkaError

logger = logging.getLogger(__name__)

SET, DELETE, APPEND = 0, 1, 2

AlterRequest = AlterConfigsRequest | IncrementalAlterConfigsRequest


class AlterConfigsApi(ForwardedApi):
    """Changes settings of resources: some of them, or all in place of what is set."""

    async def decide(self, request: AlterRequest, deadline: Deadline) -> AlterConfigsResponse:
        """Answer for loggers and what this broker refuses, and ask the controller for the rest."""
        answered = [self._answer_here(resource, request) for resource in request.resources]
        passed = tuple(
            resource
            for resource, own in zip(request.resources, answered, strict=True)
            if own is None
        )
        if not passed:
            return AlterConfigsResponse(responses=tuple(filter(None, answered)))
        _warn_of_no_effect(passed)
        response = await super().decide(replace(request, resources=passed), deadline)
        answers = iter(_in_order(passed, response.responses))
        return AlterConfigsResponse(
            responses=tuple(next(answers) if own is None else own for own in answered),
            metadata_offset=response.metadata_offset,
        )

    def has_arrived(self, response: AlterConfigsResponse) -> bool:
        """Return whether the changes are in force here."""
        return super().has_arrived(response) and (
            response.metadata_offset < 0 or self._parts.is_settled()
        )

    def _answer_here(
        self, resource: ConfigResource, request: AlterRequest
    ) -> AlteredResource | None:
        """Return this broker's own answer; None where the controller is to be asked."""
        try:
            if resource.resource_type == BROKER_LOGGER_RESOURCE:
                self._alter_loggers(resource, request)
                return _answer(resource, ErrorCode.NONE, "")
            if resource.resource_type == BROKER_RESOURCE and resource.resource_name:
                check_broker(resource.resource_name, self._parts.broker_id)
                for change in resource.configs:
                    if change.config_operation in (SET, APPEND) and change.value is not None:
                        self._parts.configs.check_own(change.name, change.value)
        except ConfigError as error:
            code = ErrorCode.INVALID_CONFIG
            text = f"Invalid value {error.value} for configuration {error.key}: {error.reason}"
        except KafkaError as error:
            code, text = error.code, error.message
        else:
            return None
        return _answer(resource, code, text)

    def _alter_loggers(self, resource: ConfigResource, request: AlterRequest) -> None:
        if not isinstance(request, IncrementalAlterConfigsRequest):
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"Unknown resource type {BROKER_LOGGER_RESOURCE}"
            )
        named = [(each.resource_type, each.resource_name) for each in request.resources]
        if named.count((resource.resource_type, resource.resource_name)) > 1:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
        check_broker(resource.resource_name, self._parts.broker_id)
        loggers.check(resource.configs)
        if not request.validate_only:
            loggers.alter(resource.configs)


def _answer(resource: ConfigResource, code: ErrorCode, text: str) -> AlteredResource:
    return AlteredResource(
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        error_code=code,
        error_message=text,
    )


def _warn_of_no_effect(resources: Iterable[ConfigResource]) -> None:
    for resource in resources:
        if resource.resource_type not in (TOPIC_RESOURCE, BROKER_RESOURCE):
            continue
        is_topic = resource.resource_type == TOPIC_RESOURCE
        table = kafka_configs.TOPIC if is_topic else kafka_configs.BROKER
        names = [change.name for change in resource.configs if change.config_operation != DELETE]
        for key in key_table.without_effect(table, names):
            logger.warning(
                "configuration %s of %s is %s",
                key.name,
                f"topic {resource.resource_name}" if is_topic else "brokers",
                key.meaning,
            )


def _in_order(
    resources: Sequence[ConfigResource], responses: Iterable[AlteredResource]
) -> list[AlteredResource]:
    """Return the controller's answers in the order asked; one that was named twice has one."""
    by_resource = {(each.resource_type, each.resource_name): each for each in responses}
    return [by_resource[each.resource_type, each.resource_name] for each in resources]
