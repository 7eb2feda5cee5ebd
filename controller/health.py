"""`jbod-controller --health`: whether this controller responds, and is active or follows."""

from __future__ import annotations

import datetime

import grpc

from controller.limits import HEALTH_TIMEOUT_S
from jbodlab.config.node_config import NodeConfig
from jbodlab.controller_api import messages
from jbodlab.controller_api.grpc_transport import OPTIONS, ControllerStub, channel_credentials
from jbodlab.controller_api.rpc_tls import rpc_keys
from jbodlab.security import tls_files
from jbodlab.security.tls_settings import TlsSettings
from jbodlab.vocabulary.addresses import address_text, local_host


def serves_brokers(config: NodeConfig, tls: TlsSettings | None = None) -> tuple[bool, str]:
    """Ask the controller of this configuration who leads the metadata log.

    Args:
        config: Of the controller.
        tls: Its keys, which are shown to it; None where nothing is encrypted.

    Returns:
        Whether it does, or follows another controller that does, and one line that says so or says
        why not.
    """
    listener = config.controller_listener(config.grpc_listener_name)
    address = address_text(local_host(listener.host), listener.port)
    where = f"controller {config.node_id} at {address}"
    try:
        with _channel(address, tls) as channel:
            request = messages.DescribeQuorumRequest()
            answer = ControllerStub(channel).DescribeQuorum(request, timeout=HEALTH_TIMEOUT_S)
    except grpc.RpcError as error:
        return False, f"{where} does not respond: {error.code().name}"
    if answer.error_code and config.has_quorum and answer.leader_id >= 0:
        leader = f"controller {answer.leader_id} in epoch {answer.leader_epoch}"
        return True, f"{where} follows {leader}"
    if answer.error_code:
        known = f"epoch {answer.leader_epoch}, committed up to offset {answer.high_watermark - 1}"
        return False, f"{where} responds, but is not active; it knows of {known}"
    return True, f"{where} is active in epoch {answer.leader_epoch}"


def _channel(address: str, tls: TlsSettings | None) -> grpc.Channel:
    if tls is None:
        return grpc.insecure_channel(address, options=OPTIONS)
    pem = tls_files.read(tls, datetime.datetime.now(datetime.UTC))
    return grpc.secure_channel(address, channel_credentials(rpc_keys(tls, pem)), options=OPTIONS)
