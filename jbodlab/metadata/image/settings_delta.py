"""Changes to configs, features and quotas; a map is copied when it is first changed."""

from __future__ import annotations

from collections.abc import Mapping

from jbodlab.metadata.image.settings_image import (
    ConfigResource,
    ConfigsImage,
    FeaturesImage,
    QuotaEntities,
    Quotas,
)
from jbodlab.metadata.records.config_records import (
    ClientQuotaRecord,
    ConfigRecord,
    FeatureLevelRecord,
)


class SettingsDelta:
    """Changes to the three images that hold settings."""

    def __init__(self, configs: ConfigsImage, features: FeaturesImage, quotas: Quotas) -> None:
        self.features = features
        self.changed_configs: set[ConfigResource] = set()
        self.changed_features = False
        self.changed_quotas = False
        self._configs = configs
        self._resources: dict[ConfigResource, Mapping[str, str]] | None = None
        self._old_quotas = quotas
        self._quotas: dict[QuotaEntities, Mapping[str, float]] | None = None

    @property
    def is_empty(self) -> bool:
        """Whether the delta has no change."""
        return not (self.changed_configs or self.changed_features or self.changed_quotas)

    @property
    def configs(self) -> ConfigsImage:
        """The configs after the changes so far; valid until the next change."""
        if self._resources is None:
            return self._configs
        return ConfigsImage(resources=self._resources)

    @property
    def quotas(self) -> Quotas:
        """The quotas after the changes so far; valid until the next change."""
        return self._old_quotas if self._quotas is None else self._quotas

    def set_config(self, record: ConfigRecord) -> None:
        """Set a config, or delete it when the value is None."""
        resource = (record.resource_type, record.resource_name)
        entries = dict(self.configs.resource(*resource))
        if record.value is None:
            entries.pop(record.name, None)
        else:
            entries[record.name] = record.value
        self._put_resource(resource, entries)

    def delete_resource(self, resource: ConfigResource) -> None:
        """Forget all configs of a resource."""
        if resource in self.configs.resources:
            self._put_resource(resource, {})

    def set_feature(self, record: FeatureLevelRecord) -> None:
        """Set the level of a feature; at level 0 it is removed."""
        levels = dict(self.features.levels)
        if record.feature_level == 0:
            levels.pop(record.name, None)
        else:
            levels[record.name] = record.feature_level
        self.features = FeaturesImage(
            levels=levels, zk_migration_state=self.features.zk_migration_state
        )
        self.changed_features = True

    def set_zk_migration_state(self, state: int) -> None:
        """Set the state of a migration from ZooKeeper."""
        self.features = FeaturesImage(levels=self.features.levels, zk_migration_state=state)
        self.changed_features = True

    def set_quota(self, record: ClientQuotaRecord) -> None:
        """Set or remove a quota."""
        entities = frozenset((entity.entity_type, entity.entity_name) for entity in record.entity)
        if self._quotas is None:
            self._quotas = dict(self._old_quotas)
        values = dict(self._quotas.pop(entities, {}))
        if record.remove:
            values.pop(record.key, None)
        else:
            values[record.key] = record.value
        if values:
            self._quotas[entities] = values
        self.changed_quotas = True

    def become(self, configs: ConfigsImage, features: FeaturesImage, quotas: Quotas) -> None:
        """Change all parts that differ from given images."""
        old = self.configs
        for resource in configs.resources.keys() | old.resources.keys():
            if configs.resource(*resource) != old.resource(*resource):
                self.changed_configs.add(resource)
        self.changed_features = self.changed_features or features != self.features
        self.changed_quotas = self.changed_quotas or quotas != self.quotas
        self.features = features
        self._resources = dict(configs.resources)
        self._quotas = dict(quotas)

    def _put_resource(self, resource: ConfigResource, entries: Mapping[str, str]) -> None:
        if self._resources is None:
            self._resources = dict(self._configs.resources)
        if entries:
            self._resources[resource] = entries
        else:
            self._resources.pop(resource, None)
        self.changed_configs.add(resource)
