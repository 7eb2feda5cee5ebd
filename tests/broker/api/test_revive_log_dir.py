from __future__ import annotations

import pytest

from jbodlab.kafka_admin.client import opened
from jbodlab.kafka_admin.errors import AdminError
from jbodlab.kafka_admin.log_dirs import revive_log_dir
from jbodlab.kafka_admin.properties import AdminProperties
from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.kafka_wire.codec import encode
from jbodlab.kafka_wire.revive_log_dir import ReviveLogDirRequest, ReviveLogDirResponse
from jbodlab.peers.client import KafkaConnection
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from tests.broker.api.conftest import ONLINE, Cluster, result_error


def test_bytes_of_a_request() -> None:
    assert encode(ReviveLogDirRequest, ReviveLogDirRequest(path="/d1")) == b"\x04/d1\x00"


async def test_directory_is_revived_by_its_path(cluster: Cluster, client: KafkaConnection) -> None:
    async with opened([("127.0.0.1", cluster.port)], AdminProperties()) as admin:
        response = await revive_log_dir(admin, None, "/data/d1", 10)

    assert cluster.revival.paths == ["/data/d1"]
    assert isinstance(response, ReviveLogDirResponse)
    assert result_error(response) is ErrorCode.NONE
    assert response.error_message is None
    assert (response.directory_id, response.replicas) == (ONLINE, 3)


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.LOG_DIR_NOT_FOUND,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.REQUEST_TIMED_OUT,
    ],
)
async def test_refusal_is_told_with_its_reason(
    cluster: Cluster, client: KafkaConnection, code: ErrorCode
) -> None:
    cluster.revival.error = KafkaError(code, "why not")
    response = await client.call(ApiKey.REVIVE_LOG_DIR, 0, ReviveLogDirRequest(path="/data/d1"))
    assert result_error(response) is code
    assert response.error_message == "why not"
    assert (response.directory_id, response.replicas) == (None, 0)


async def test_a_broker_that_is_not_there_is_named(client: KafkaConnection) -> None:
    with pytest.raises(AdminError, match=r"cannot connect to 127\.0\.0\.1:1: Connection refused"):
        async with opened([("127.0.0.1", 1)], AdminProperties()):
            pass
