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
    NOT_BUILT,
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


def levels_to_lower(levels: Mapping[str, int]) -> dict[str, int]:
    """Return the features of a log, or of its bootstrap records, that must be lowered, and to what.

    Kafka formats with levels that stand for behaviour which is not built here. They can be taken
    back, as Kafka's own tool would do it.

    Raises:
        FormatError: a level is not supported and cannot be lowered here; with what to do.
    """
    lower = {}
    for name, level in levels.items():
        low, high = SUPPORTED.get(name, NOTHING)
        if low <= level <= high:
            continue
        if name not in NOT_BUILT:
            raise FormatError(
                f"finalized level {level} of feature {name} is not supported by this "
                "controller, only "
                f"levels {low} to {high}; {_remedy(name, level)}"
            )
        lower[name] = high
    return lower


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
