"""Settings of one group, within the bounds of the broker.

Source: `org.apache.kafka.coordinator.group.GroupConfig`.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from broker.groups.settings import GroupSettings
from jbodlab.config.group_configs import (
    CONSUMER_ASSIGNMENT_INTERVAL,
    CONSUMER_HEARTBEAT_INTERVAL,
    CONSUMER_SESSION_TIMEOUT,
)


def settings_of_group(settings: GroupSettings, configs: Mapping[str, str]) -> GroupSettings:
    """Return the settings that hold for a group with these configs of its own.

    The broker's bounds may have become narrower since the configs were set: a value outside of
    them counts as the bound.
    """
    if not configs:
        return settings

    def value(name: str, default: int, low: int, high: int) -> int:
        text = configs.get(name)
        return default if text is None else max(low, min(high, int(text)))

    return replace(
        settings,
        consumer_session_timeout_ms=value(
            CONSUMER_SESSION_TIMEOUT,
            settings.consumer_session_timeout_ms,
            settings.consumer_min_session_timeout_ms,
            settings.consumer_max_session_timeout_ms,
        ),
        consumer_heartbeat_interval_ms=value(
            CONSUMER_HEARTBEAT_INTERVAL,
            settings.consumer_heartbeat_interval_ms,
            settings.consumer_min_heartbeat_interval_ms,
            settings.consumer_max_heartbeat_interval_ms,
        ),
        consumer_assignment_interval_ms=value(
            CONSUMER_ASSIGNMENT_INTERVAL,
            settings.consumer_assignment_interval_ms,
            settings.consumer_min_assignment_interval_ms,
            settings.consumer_max_assignment_interval_ms,
        ),
    )
