"""jbod-log-dirs revive: a repaired directory comes back online without a restart."""

from __future__ import annotations

import asyncio

from admin_tool.errors import AdminError, UnsupportedRequestError, text_of
from admin_tool.options import Parsed
from admin_tool.requests.connection import Broker, Connection, connected
from jbodlab import kafka_uuid
from jbodlab.admin_requests import revive_log_dir
from jbodlab.errors import DecodeError
from jbodlab.protocol.revive_log_dir import ReviveLogDirResponse

REVIVE_TIMEOUT_S = 600.0
"""Recovering the logs of a large directory takes a while."""


def run(options: Parsed) -> int:
    """Revive one directory; returns the exit code."""
    path = options.required("dir")
    broker_id = options.number("broker")
    assert broker_id is not None
    with connected(options) as connection:
        broker = _broker(connection, broker_id)
        if not connection.config.is_plaintext:
            raise AdminError("revive needs a listener without encryption and authentication")
    response = _revive(broker, path)
    if response.error_code:
        reason = text_of(int(response.error_code), response.error_message)
        raise AdminError(f"{path} on broker {broker.id} was not revived: {reason}")
    named = (
        "" if response.directory_id is None else f" ({kafka_uuid.to_text(response.directory_id)})"
    )
    count = response.replicas
    print(
        f"Revived {path}{named} on broker {broker.id}: it is online with "
        f"{count} replica{'' if count == 1 else 's'}"
    )
    return 0


def _broker(connection: Connection, broker_id: int) -> Broker:
    brokers = connection.brokers()
    for broker in brokers:
        if broker.id == broker_id:
            return broker
    listed = ",".join(str(broker.id) for broker in brokers)
    raise AdminError(f"broker {broker_id} is not a live broker of the cluster: {listed}")


def _revive(broker: Broker, path: str) -> ReviveLogDirResponse:
    where = f"broker {broker.id} ({broker.host}:{broker.port})"
    try:
        return asyncio.run(revive_log_dir(broker.host, broker.port, path, REVIVE_TIMEOUT_S))
    except TimeoutError as error:
        raise AdminError(
            f"no answer from {where} within {REVIVE_TIMEOUT_S:g} s; it may still be recovering logs"
        ) from error
    except ConnectionResetError as error:
        raise UnsupportedRequestError(
            f"broker {broker.id} does not know the request ReviveLogDir, or went away: use "
            "jbodlab's brokers"
        ) from error
    except (ConnectionError, DecodeError) as error:
        raise AdminError(f"{where}: {error}") from error
