"""Features and the levels of them that this controller works with.

Source: `org.apache.kafka.controller.FeatureControlManager`, KIP-584, KIP-778.
"""

from __future__ import annotations

from collections.abc import Mapping

from jbodlab.metadata.records import metadata_version
from jbodlab.metadata.records.cluster_records import BrokerFeature
from jbodlab.metadata.records.config_records import FeatureLevelRecord
from jbodlab.metadata.records.features import (
    METADATA_VERSION_MINIMUM,
    NOTHING,
    SUPPORTED,
)
from jbodlab.metadata.records.frame import VersionedRecord
from jbodlab.metadata.records.metadata_version import FEATURE_NAME, LATEST
from jbodlab.vocabulary.errors import FormatError


def supported_features() -> tuple[BrokerFeature, ...]:
    """Return what a controller's registration says of its features."""
    return tuple(
        BrokerFeature(name=name, min_supported_version=low, max_supported_version=high)
        for name, (low, high) in sorted(SUPPORTED.items())
    )


def check_levels(levels: Mapping[str, int]) -> None:
    """Check the features of a log, or of its bootstrap records.

    Raises:
        FormatError: a level is not supported here; with what to do.
    """
    for name, level in levels.items():
        low, high = SUPPORTED.get(name, NOTHING)
        if not low <= level <= high:
            raise FormatError(
                f"finalized level {level} of feature {name} is not supported by this "
                f"controller, only levels {low} to {high}; {_remedy(name, level)}"
            )


def level_records(levels: Mapping[str, int]) -> list[VersionedRecord]:
    """Return the records that set features to these levels."""
    return [
        VersionedRecord(FeatureLevelRecord(name=name, feature_level=level), 0)
        for name, level in levels.items()
    ]


def _remedy(name: str, level: int) -> str:
    """Return what an operator can do about a level that is too high."""
    release = metadata_version.name_of(LATEST)
    if name != FEATURE_NAME:
        return f"set it to 0 with Kafka's kafka-features.sh downgrade --feature {name}=0"
    if level < METADATA_VERSION_MINIMUM:
        return "raise it with Kafka's kafka-features.sh upgrade"
    known = {each.level for each in metadata_version.LEVELS}
    if level in known and metadata_version.downgrade_is_safe(level, LATEST):
        return f"lower it with Kafka's kafka-features.sh downgrade --metadata {release}"
    return f"it cannot be lowered: reformat with --release-version {release}"
