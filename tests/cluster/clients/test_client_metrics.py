"""A client pushes the metrics that a subscription asks for, and its broker shows them."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer
from kio.schema.incremental_alter_configs.v1 import request as kio

from jbodlab.kafka_wire.api_table import ApiKey
from tests.cluster.harness import wait_for
from tests.cluster.moving import ask
from tests.cluster.scenes import Scene

pytestmark = pytest.mark.cluster

CLIENT_METRICS = 16
SET, DELETE = 0, 1
SUBSCRIPTION = {
    "interval.ms": "200",
    "metrics": "org.apache.kafka.producer.connection",
    "match": "client_id=pushes.*",
}


def subscribe(scene: Scene, operation: int) -> None:
    request = kio.IncrementalAlterConfigsRequest(
        resources=(
            kio.AlterConfigsResource(
                resource_type=CLIENT_METRICS,  # type: ignore[arg-type]
                resource_name="mine",
                configs=tuple(
                    kio.AlterableConfig(
                        name=name,
                        config_operation=operation,  # type: ignore[arg-type]
                        value=value,
                    )
                    for name, value in SUBSCRIPTION.items()
                ),
            ),
        ),
        validate_only=False,
    )
    (answer,) = ask(scene.cluster, 1, ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request).responses
    assert answer.error_code == 0, answer.error_message


def test_client_pushes_what_a_subscription_asks_for(scene: Scene) -> None:
    subscribe(scene, SET)
    try:
        bootstrap = scene.cluster.bootstrap
        producers = [
            Producer({"bootstrap.servers": bootstrap, "client.id": client_id, "log_level": 0})
            for client_id in ("pushes-1", "silent")
        ]

        def shown() -> set[tuple[str, str]]:
            for producer in producers:
                producer.poll(0)
            return {
                (labels["client_id"], labels["metric"])
                for broker in scene.cluster.broker_ids
                for labels, _ in scene.metric(broker, "jbodlab_client_metric")
            }

        wait_for("the pushed metrics", shown, 30.0)
        assert {client_id for client_id, _ in shown()} == {"pushes-1"}
        assert all(
            metric.startswith("org.apache.kafka.producer.connection") for _, metric in shown()
        )
    finally:
        subscribe(scene, DELETE)
