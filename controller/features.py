"""Features and the levels of them that this controller works with.

Features whose behaviour is not there have no entry: only level 0 of them is supported.
"""

from __future__ import annotations

from collections.abc import Mapping

from jbodlab.errors import FormatError
from jbodlab.records.cluster_records import BrokerFeature
from jbodlab.records.metadata_version import FEATURE_NAME, LATEST

METADATA_VERSION_MINIMUM = 7

SUPPORTED: Mapping[str, tuple[int, int]] = {FEATURE_NAME: (METADATA_VERSION_MINIMUM, LATEST)}
"""Lowest and highest supported level by feature."""


def supported_features() -> tuple[BrokerFeature, ...]:
    """Return what a controller's registration says of its features."""
    return tuple(
        BrokerFeature(name=name, min_supported_version=low, max_supported_version=high)
        for name, (low, high) in SUPPORTED.items()
    )


def check_levels(levels: Mapping[str, int]) -> None:
    """Check the finalized levels of a log, or those that its bootstrap records will set.

    Raises:
        FormatError: one of them is not supported.
    """
    for name, level in levels.items():
        low, high = SUPPORTED.get(name, (0, 0))
        if not low <= level <= high:
            raise FormatError(
                f"finalized level {level} of feature {name} is not supported by this controller, "
                f"which knows {low} to {high}"
            )
