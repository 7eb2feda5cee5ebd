"""Kafka's features: the levels that Kafka 4.3 knows, and those that are supported here.

Source: `org.apache.kafka.server.common.Feature`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from jbodlab.metadata.records import metadata_version

METADATA_VERSION_MINIMUM = 7

KRAFT_VERSION = "kraft.version"
"""With its level 1 the log of the controllers names the voters, KIP-853."""

GROUP_VERSION = "group.version"
"""Its level 1 is the protocol of KIP-848."""
TRANSACTION_VERSION = "transaction.version"
"""Its level 1 has flexible records of transactions, its level 2 is the protocol of KIP-890."""

ELR_VERSION = "eligible.leader.replicas.version"
"""Its level 1 has eligible leader replicas, KIP-966."""

_DEFAULT_FROM: Mapping[str, int] = {
    GROUP_VERSION: 22,
    TRANSACTION_VERSION: 24,
    ELR_VERSION: 26,
}
"""Level of metadata.version from which a new cluster has the highest level of a feature."""


class LevelRange(NamedTuple):
    """Lowest and highest level of a feature, both inclusive."""

    low: int
    high: int

    def __str__(self) -> str:
        return str(self.low) if self.low == self.high else f"{self.low}-{self.high}"


NOTHING = LevelRange(0, 0)
"""The supported levels of an unknown feature: level 0 only."""

LEVEL_MAX: Mapping[str, int] = {
    KRAFT_VERSION: 1,
    TRANSACTION_VERSION: 2,
    GROUP_VERSION: 1,
    ELR_VERSION: 1,
    "share.version": 1,
    "streams.version": 1,
}
"""Highest levels that Kafka knows, in the order in which its tools print them."""

NOT_BUILT: Mapping[str, str] = {
    "share.version": "share groups are",
    "streams.version": "streams groups are",
}
"""Features that are not implemented; each text is the beginning of "... not supported".

Their levels only permit what clients may ask. A log of Apache Kafka keeps them, so that its cluster
with default levels runs here and there again; nobody raises them.
"""

REQUIRED_LEVEL: Mapping[tuple[str, int], int] = {
    (KRAFT_VERSION, 1): 21,
    (ELR_VERSION, 1): metadata_version.ELR_LEVEL,
}
"""Level of metadata.version that the level of a feature requires."""

SUPPORTED: Mapping[str, LevelRange] = {
    metadata_version.FEATURE_NAME: LevelRange(METADATA_VERSION_MINIMUM, metadata_version.LATEST),
    **{name: LevelRange(0, high) for name, high in LEVEL_MAX.items()},
}
"""The levels in the registrations of brokers and controllers, by feature."""


def unmet_requirement(name: str, level: int, metadata_level: int) -> str:
    """Return why a feature level does not go with a metadata.version; empty if it does."""
    required = REQUIRED_LEVEL.get((name, level), 0)
    if metadata_level >= required:
        return ""
    return (
        f"{name} could not be set to {level} because it depends on metadata.version={required} "
        f"({metadata_version.name_of(required)})"
    )


def default_levels(metadata_level: int) -> dict[str, int]:
    """Return the levels, other than 0, that a new cluster has beside its metadata.version."""
    return {
        name: SUPPORTED[name].high
        for name, first in _DEFAULT_FROM.items()
        if metadata_level >= first
    }
