"""DescribeLogDirStates: ids, states and conditions of this broker's log directories."""

from __future__ import annotations

from typing import Any

from broker.api.directories.brokers_only import BrokersOnly
from broker.api.parts import ApiHandler, ApiParts
from broker.disk.directory import LogDir
from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.kafka_wire.describe_log_dir_states import DescribeLogDirStatesRequest
from jbodlab.security.acl import AclOperation
from jbodlab.server.answer import RequestContext
from jbodlab.server.api import Api
from jbodlab.server.failures import FailsBySchema
from jbodlab.server.resources import on_cluster
from jbodlab.server.response import Response
from jbodlab.server.response_structs import ResponseStructs

STATES = ResponseStructs(ApiKey.DESCRIBE_LOG_DIR_STATES, 0)


class DescribeLogDirStatesApi(ApiHandler, FailsBySchema):
    """Answers from memory: no file is touched, so that a hung disk delays nothing."""

    def answer(self, request: DescribeLogDirStatesRequest, context: RequestContext) -> Response:
        """Describe every configured directory."""
        return STATES.response(log_dirs=tuple(map(_entry, self._parts.log_dirs())))


def _entry(log_dir: LogDir) -> Any:
    return STATES.LogDirStateEntry(
        path=str(log_dir.path),
        directory_id=log_dir.directory_id,
        state=log_dir.state.name,
        conditions=log_dir.condition.names if log_dir.is_online else (),
        cause=log_dir.cause,
    )


APIS: tuple[Api[ApiParts], ...] = (
    Api(
        key=ApiKey.DESCRIBE_LOG_DIR_STATES,
        versions=(0, 0),
        resources=on_cluster(AclOperation.DESCRIBE),
        handler=lambda parts: BrokersOnly(DescribeLogDirStatesApi(parts), parts.cache),
    ),
)
