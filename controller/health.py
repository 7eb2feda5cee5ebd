"""`jbod-controller --health`: whether this controller responds, and whether it is active."""

from __future__ import annotations

import grpc

from controller.limits import HEALTH_TIMEOUT_S
from jbodlab.config.node_config import NodeConfig
from jbodlab.controller_api import messages
from jbodlab.controller_api.grpc_transport import ControllerStub


def serves_brokers(config: NodeConfig) -> tuple[bool, str]:
    """Ask the controller of this configuration who leads the metadata log.

    Returns:
        Whether it does, and one line that says so or says why not.
    """
    names = {name.upper() for name in config.controller_listener_names}
    listener = next(endpoint for endpoint in config.listeners if endpoint.name in names)
    host = "127.0.0.1" if listener.host in ("", "0.0.0.0") else listener.host
    where = f"controller {config.node_id} at {host}:{listener.port}"
    try:
        with grpc.insecure_channel(f"{host}:{listener.port}") as channel:
            request = messages.DescribeQuorumRequest()
            answer = ControllerStub(channel).DescribeQuorum(request, timeout=HEALTH_TIMEOUT_S)
    except grpc.RpcError as error:
        if error.code() is grpc.StatusCode.FAILED_PRECONDITION:
            return False, f"{where} responds, but is not active"
        return False, f"{where} does not respond: {error.code().name}"
    return True, f"{where} is active in epoch {answer.leader_epoch}"
