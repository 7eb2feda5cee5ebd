"""Brokers whose controller is gone for a while and comes back to another address."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from lab.machine.ports import HeldPorts
from tests.cluster.harness import CONTROLLER_ID, running
from tests.cluster.lab_cluster import set_property

pytestmark = pytest.mark.cluster

GONE_S = 3


def test_a_broker_whose_controller_comes_back_to_another_address_goes_on(
    cluster_root: Path,
) -> None:
    with HeldPorts.hold(1) as ports:
        (port,) = ports.numbers
        settings = {"jbodlab.controller.bootstrap.servers": f"127.0.0.1:{port}"}
        with running(cluster_root, brokers=2, dirs=1, settings=settings) as cluster:
            cluster.create_topic("before", partitions=2, replicas=2)
            controller = cluster.node(CONTROLLER_ID)
            controller.kill()
            time.sleep(GONE_S)
            ports.close()
            set_property(controller, "listeners", f"CONTROLLER://127.0.0.1:{port}")
            controller.start()

            cluster.create_topic("after", partitions=2, replicas=2)
            # The controller at its new address sees that a broker is gone, and elects leaders.
            cluster.broker(1).kill()
            cluster.wait_leaders("after")
            assert cluster.broker(2).is_running
