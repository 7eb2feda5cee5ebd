"""`jbod-broker --health`: does this broker serve clients?

It does when it answers Metadata on its own listener and counts itself among the live brokers, that
is, when it is registered, unfenced and has an address for clients.
"""

from __future__ import annotations

import asyncio
from typing import Any

from jbodlab.config.node_config import NodeConfig
from jbodlab.kafka_wire.api_table import ApiKey, request_class
from jbodlab.peers.peer_pool import Address, PeerPool
from jbodlab.vocabulary.errors import DecodeError

TIMEOUT_S = 3.0
METADATA_VERSION = 1


def serves_clients(config: NodeConfig) -> tuple[bool, str]:
    """Ask the broker of this configuration.

    Returns:
        Whether it serves clients, and one line that says so or says why not.
    """
    names = {name.upper() for name in config.controller_listener_names}
    listener = next(endpoint for endpoint in config.listeners if endpoint.name not in names)
    host = "127.0.0.1" if listener.host in ("", "0.0.0.0") else listener.host
    where = f"broker {config.node_id} at {host}:{listener.port}"
    try:
        if config.node_id in asyncio.run(_live_brokers((host, listener.port))):
            return True, f"{where} serves clients"
    except (OSError, DecodeError) as error:
        return False, f"{where} does not respond: {error or type(error).__name__}"
    return False, f"{where} responds, but is not listed as a live broker"


async def _live_brokers(address: Address) -> set[int]:
    request: Any = request_class(ApiKey.METADATA, METADATA_VERSION)
    connection = await PeerPool("health", TIMEOUT_S).open(address)
    try:
        response = await connection.call(
            ApiKey.METADATA, METADATA_VERSION, request(topics=()), TIMEOUT_S
        )
    finally:
        connection.close()
    return {broker.node_id for broker in response.brokers}
