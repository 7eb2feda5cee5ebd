"""Configs, feature levels and quotas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from jbodlab.metadata.records import metadata_version
from jbodlab.metadata.records.config_records import TOPIC_RESOURCE

ConfigResource = tuple[int, str]
"""Resource type and name."""

QuotaEntities = frozenset[tuple[str, str | None]]
"""Entity types with their names; None is the default entity."""

Quotas = Mapping[QuotaEntities, Mapping[str, float]]
"""Values by key for each set of entities; a set without any is not in the map."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigsImage:
    """Every config that was set; a resource without any is not in the map."""

    resources: Mapping[ConfigResource, Mapping[str, str]] = field(default_factory=dict)

    def resource(self, resource_type: int, name: str) -> Mapping[str, str]:
        """Return the configs set for one resource, without any defaults."""
        return self.resources.get((resource_type, name), {})

    def topic(self, name: str) -> Mapping[str, str]:
        """Return the configs set for one topic, without any defaults."""
        return self.resource(TOPIC_RESOURCE, name)


@dataclass(frozen=True, slots=True, kw_only=True)
class FeaturesImage:
    """Levels by feature, metadata.version among them once a record has set it."""

    levels: Mapping[str, int] = field(default_factory=dict)
    zk_migration_state: int | None = None
    """None if the log has no record about it, as with Kafka 4."""

    @property
    def metadata_version(self) -> int:
        """Level of metadata.version; 1 before the first record."""
        return self.levels.get(metadata_version.FEATURE_NAME, metadata_version.MINIMUM)
