"""Requests of administration tools that go to one broker and have an API of their own."""

from __future__ import annotations

from jbodlab.kafka_wire.api_table import ApiKey, request_class
from jbodlab.kafka_wire.describe_log_dir_states import (
    DescribeLogDirStatesRequest,
    DescribeLogDirStatesResponse,
)
from jbodlab.kafka_wire.revive_log_dir import ReviveLogDirRequest, ReviveLogDirResponse
from jbodlab.peers.client import KafkaConnection
from jbodlab.peers.client_security import ClientSecurity
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import DecodeError, KafkaError

CLIENT_ID = "jbodlab-admin"
METADATA_VERSION = 1


async def be_served(
    host: str, port: int, timeout_s: float, security: ClientSecurity | None = None
) -> None:
    """Insist that a broker answers what anybody may ask, who gets in.

    Args:
        host: Address of a listener of the broker.
        port: Its port.
        timeout_s: Longest wait for the connection, and for the answer.
        security: How to encrypt and to log in; None for neither.

    Raises:
        TimeoutError: no answer in time.
        ConnectionError: the broker cannot be reached, or refuses; the text names the property of
            clients that decides.
        DecodeError: the answer to a login cannot be read.
    """
    connection = await KafkaConnection.open(
        host, port, client_id=CLIENT_ID, timeout_s=timeout_s, security=security
    )
    request = request_class(ApiKey.METADATA, METADATA_VERSION)(topics=())
    try:
        await connection.call(ApiKey.METADATA, METADATA_VERSION, request, timeout_s)
    except (ConnectionError, DecodeError) as error:
        hint = "" if "(see " in str(error) else " (see security.protocol)"
        raise ConnectionError(
            f"{host}:{port} does not serve such a client: {error}{hint}"
        ) from error
    finally:
        connection.close()


async def revive_log_dir(
    host: str, port: int, path: str, timeout_s: float, security: ClientSecurity | None = None
) -> ReviveLogDirResponse:
    """Ask a broker to bring a repaired log directory back online.

    Args:
        host: Address of a client listener of the broker that has the directory.
        port: Its port.
        path: The directory, as in the broker's `log.dirs`.
        timeout_s: Longest wait for the connection, and for the answer. The broker goes on when it
            is over: the recovery of many logs may take minutes.
        security: How to encrypt and to log in; None for neither.

    Returns:
        The answer; without an error in it the directory is online, and its replicas follow.

    Raises:
        TimeoutError: no answer in time.
        ConnectionError: the broker cannot be reached, or went away.
        DecodeError: the answer cannot be read.
    """
    connection = await KafkaConnection.open(
        host, port, client_id=CLIENT_ID, timeout_s=timeout_s, security=security
    )
    try:
        response: ReviveLogDirResponse = await connection.call(
            ApiKey.REVIVE_LOG_DIR, 0, ReviveLogDirRequest(path=path), timeout_s
        )
    finally:
        connection.close()
    return response


async def describe_log_dir_states(
    host: str, port: int, timeout_s: float, security: ClientSecurity | None = None
) -> DescribeLogDirStatesResponse:
    """Ask a broker for the ids, states and conditions of its log directories.

    Args:
        host: Address of a client listener of the broker.
        port: Its port.
        timeout_s: Longest wait for the connection, and for the answer.
        security: How to encrypt and to log in; None for neither.

    Raises:
        TimeoutError: no answer in time.
        ConnectionError: the broker cannot be reached, went away, or does not know the request.
        KafkaError: the broker refuses to say; CLUSTER_AUTHORIZATION_FAILED at a listener that is
            not for brokers.
        DecodeError: the answer cannot be read.
    """
    connection = await KafkaConnection.open(
        host, port, client_id=CLIENT_ID, timeout_s=timeout_s, security=security
    )
    try:
        response: DescribeLogDirStatesResponse = await connection.call(
            ApiKey.DESCRIBE_LOG_DIR_STATES, 0, DescribeLogDirStatesRequest(), timeout_s
        )
    finally:
        connection.close()
    if int(response.error_code):
        code = ErrorCode(int(response.error_code))
        raise KafkaError(code, f"the directories are not described: {code.name}")
    return response
