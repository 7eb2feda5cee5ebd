"""Fate of orders when a disk, or a broker, dies."""

from __future__ import annotations

import pytest
from orders import Orders

NEEDS = pytest.mark.jbod(brokers=3, disks=2, config={"min.insync.replicas": 2})
pytestmark = NEEDS


def test_orders_survive_a_dying_disk(jbod_cluster):
    topic = jbod_cluster.new_topic(partitions=3, replicas=3)
    orders = Orders(jbod_cluster.bootstrap, topic)
    orders.take(1)

    with jbod_cluster.leader_log_dir(topic).fails("permission") as fault:
        fault.wait_detected()
        jbod_cluster.wait_leaders(topic)
        orders.take(2)

    jbod_cluster.wait_isr(topic)
    assert orders.all() == [1, 2]


def test_orders_survive_a_broker_that_is_killed(jbod_cluster):
    topic = jbod_cluster.new_topic(partitions=3, replicas=3)
    orders = Orders(jbod_cluster.bootstrap, topic)
    orders.take(1)

    with jbod_cluster.leader(topic).fails("kill"):
        orders.take(2)

    assert orders.all() == [1, 2]


def test_an_order_is_not_taken_while_too_few_disks_are_left(jbod_cluster):
    topic = jbod_cluster.new_topic(partitions=1, replicas=2)
    orders = Orders(jbod_cluster.bootstrap, topic)
    orders.take(1)

    with jbod_cluster.followers(topic)[0].log_dir_of(topic).fails("deleted") as fault:
        fault.wait_detected()
        with pytest.raises(TimeoutError, match="order 2 was not taken"):
            orders.take(2, deadline_s=2)
