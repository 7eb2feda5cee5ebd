"""`jbod-broker --health`: does this broker serve clients?

It does when it answers Metadata on its own listener and counts itself among the live brokers, that
is, when it is registered, unfenced and has an address for clients.
"""

from __future__ import annotations

import asyncio
import datetime
import os
from dataclasses import replace
from typing import Any

from jbodlab.config.listener_security import PeerSecurity
from jbodlab.config.node_config import NodeConfig
from jbodlab.kafka_wire.api_table import ApiKey, request_class
from jbodlab.peers.client_security import ClientSecurity, client_security
from jbodlab.peers.peer_pool import Address, PeerPool
from jbodlab.security import tls_files
from jbodlab.vocabulary.addresses import address_text, local_host
from jbodlab.vocabulary.errors import DecodeError

TIMEOUT_S = 3.0
METADATA_VERSION = 1


def serves_clients(config: NodeConfig, peers: PeerSecurity | None = None) -> tuple[bool, str]:
    """Ask the broker of this configuration.

    Args:
        config: Of the broker.
        peers: How brokers reach each other; None for without encryption and login.

    Returns:
        Whether it serves clients, and one line that says so or says why not.
    """
    listener = next(
        each for each in config.listeners if each.name == config.inter_broker_listener_name
    )
    host = local_host(listener.host)
    where = f"broker {config.node_id} at {address_text(host, listener.port)}"
    try:
        if config.node_id in asyncio.run(
            _live_brokers((host, listener.port), _security(peers or PeerSecurity()))
        ):
            return True, f"{where} serves clients"
    except (OSError, DecodeError) as error:
        return False, f"{where} does not respond: {error or type(error).__name__}"
    return False, f"{where} responds, but is not listed as a live broker"


def _security(peers: PeerSecurity) -> ClientSecurity | None:
    if peers.tls is None:
        return client_security(peers, None, os.urandom)
    # This machine is asked, whose name for itself need not be that of the certificate.
    settings = replace(peers.tls, checks_host=False)
    pem = tls_files.read(settings, datetime.datetime.now(datetime.UTC))
    context = tls_files.client_context(settings, pem)
    return client_security(peers, lambda: context, os.urandom)


async def _live_brokers(address: Address, security: ClientSecurity | None) -> set[int]:
    request: Any = request_class(ApiKey.METADATA, METADATA_VERSION)
    connection = await PeerPool("health", TIMEOUT_S, security).open(address)
    try:
        response = await connection.call(
            ApiKey.METADATA, METADATA_VERSION, request(topics=()), TIMEOUT_S
        )
    finally:
        connection.close()
    return {broker.node_id for broker in response.brokers}
