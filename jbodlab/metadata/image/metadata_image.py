"""The whole metadata of a cluster at one offset of its log.

An image is never mutated, so all code may keep it and compare it with any other image. Two images
share the parts that have not changed between them.

Source: `org.apache.kafka.image.MetadataImage`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from jbodlab.metadata.image.cluster_image import ClusterImage
from jbodlab.metadata.image.security_image import SecurityImage
from jbodlab.metadata.image.settings_image import ConfigsImage, FeaturesImage, Quotas
from jbodlab.metadata.image.topics_image import TopicsImage
from jbodlab.vocabulary.ids import LeaderEpoch, Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataImage:
    """State after all records up to and with ``offset``."""

    offset: Offset = Offset(-1)
    """Last offset contained; -1 before the first record."""
    epoch: LeaderEpoch = LeaderEpoch(-1)
    """Leader epoch of the record at that offset."""
    timestamp_ms: int = -1
    """Append time of that record, ms since 1970."""
    cluster: ClusterImage = field(default_factory=ClusterImage)
    topics: TopicsImage = field(default_factory=TopicsImage)
    configs: ConfigsImage = field(default_factory=ConfigsImage)
    features: FeaturesImage = field(default_factory=FeaturesImage)
    quotas: Quotas = field(default_factory=dict)
    security: SecurityImage = field(default_factory=SecurityImage)
    next_producer_id: int = 0
    """First id of the next block of producer ids; 0 before the first block."""


EMPTY = MetadataImage()
"""Before the first record."""
