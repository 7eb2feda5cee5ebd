"""Whether a broker serves clients, as its health check says."""

from __future__ import annotations

import asyncio
from pathlib import PurePosixPath

import pytest

from broker.health import serves_clients
from jbodlab.config.node_config import NodeConfig
from jbodlab.vocabulary.endpoint import Endpoint
from jbodlab.vocabulary.ids import BrokerId
from tests.broker.api.conftest import LISTENER, US, Cluster, serving

NOBODY = BrokerId(9)


def config(node_id: BrokerId, port: int) -> NodeConfig:
    listeners = (
        Endpoint(name="CONTROLLER", host="", port=1),
        Endpoint(name=LISTENER, host="", port=port),
    )
    return NodeConfig(
        roles=frozenset({"broker"}),
        node_id=node_id,
        voters=(),
        controllers=(),
        bootstrap_servers=(),
        controller_listener_names=("controller",),
        listeners=listeners,
        advertised_listeners=listeners,
        advertised_controllers=(),
        inter_broker_listener_name=LISTENER,
        controller_protocol=0,
        log_dirs=(),
        metadata_log_dir=PurePosixPath("/"),
    )


@pytest.mark.parametrize(
    ("node_id", "is_there", "expected"),
    [
        (US, True, (True, "serves clients")),
        (NOBODY, True, (False, "responds, but is not listed as a live broker")),
        (US, False, (False, "does not respond: [Errno 111]")),
    ],
)
async def test_broker_serves_clients_if_it_answers_and_lists_itself(
    node_id: BrokerId, is_there: bool, expected: tuple[bool, str]
) -> None:
    cluster = Cluster()
    cluster.publish_brokers(1, 2, 3, fenced=[3])
    async with serving(cluster, auto_create_topics=False):
        port = cluster.port if is_there else 1
        serves, line = await asyncio.to_thread(serves_clients, config(node_id, port))

        assert serves is expected[0]
        assert line.startswith(f"broker {node_id} at 127.0.0.1:{port} {expected[1]}")
