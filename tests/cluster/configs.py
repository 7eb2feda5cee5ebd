"""Changes settings of topics and brokers while they run, and asks for them."""

from __future__ import annotations

from typing import Any

from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from tests.cluster.commands import called
from tests.cluster.harness import Cluster

TOPIC, BROKER = ResourceType.TOPIC, ResourceType.BROKER
TIMEOUT_S = 30


def client(cluster: Cluster) -> AdminClient:
    """Return a new client: an old one does not find a broker that was restarted by such a call."""
    return AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})


def alter(admin: AdminClient, kind: ResourceType, name: str, **changes: str | None) -> None:
    """Set configs, written with _ for a dot; None deletes one.

    Raises:
        KafkaException: refused.
    """
    entries = [
        ConfigEntry(
            key.replace("_", "."),
            value,
            incremental_operation=(
                AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
            ),
        )
        for key, value in changes.items()
    ]
    resource = ConfigResource(kind, name, incremental_configs=entries)
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(TIMEOUT_S)


def all_brokers(cluster: Cluster, **changes: str | None) -> None:
    """Set configs of all brokers; librdkafka cannot name these."""
    words = []
    for key, value in changes.items():
        name = key.replace("_", ".")
        words += ["--delete", name] if value is None else ["--set", f"{name}={value}"]
    called(cluster, "configs", "alter", "cluster", *words)


def entries(admin: AdminClient, kind: ResourceType, name: str) -> dict[str, Any]:
    """Return the configs of a resource by their names."""
    (future,) = admin.describe_configs([ConfigResource(kind, name)]).values()
    found: dict[str, Any] = future.result(TIMEOUT_S)
    return found


def entry(admin: AdminClient, kind: ResourceType, name: str, key: str) -> Any:
    """Return a config as the cluster tells it."""
    return entries(admin, kind, name)[key]


def described(admin: AdminClient, kind: ResourceType, name: str, key: str) -> tuple[str, int]:
    """Return the value of a config, and where it comes from."""
    found = entry(admin, kind, name, key)
    return found.value, found.source
