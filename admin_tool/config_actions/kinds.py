"""What the types of entities are called in requests."""

from __future__ import annotations

from collections.abc import Mapping

from admin_tool.requests.configs import ResourceType, Source

RESOURCES: Mapping[str, ResourceType] = {
    "topics": ResourceType.TOPIC,
    "brokers": ResourceType.BROKER,
    "broker-loggers": ResourceType.BROKER_LOGGER,
    "client-metrics": ResourceType.CLIENT_METRICS,
    "groups": ResourceType.GROUP,
}
QUOTA_KINDS: Mapping[str, str] = {"users": "user", "clients": "client-id", "ips": "ip"}
"""Types whose settings are quotas."""


def dynamic_source(kind: ResourceType, name: str) -> Source:
    """Return where the values of an entity come from that are its own."""
    match kind:
        case ResourceType.TOPIC:
            return Source.DYNAMIC_TOPIC
        case ResourceType.GROUP:
            return Source.DYNAMIC_GROUP
        case ResourceType.CLIENT_METRICS:
            return Source.DYNAMIC_CLIENT_METRICS
        case ResourceType.BROKER_LOGGER:
            return Source.DYNAMIC_BROKER_LOGGER
        case ResourceType.BROKER:
            return Source.DYNAMIC_BROKER if name else Source.DYNAMIC_DEFAULT_BROKER


def singular(kind: str) -> str:
    """Return the word for one entity of a type."""
    return kind.removesuffix("s")
