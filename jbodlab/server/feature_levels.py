"""Features in a response to ApiVersions: what a server supports, and what the cluster has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jbodlab.metadata.records.features import KRAFT_VERSION, SUPPORTED
from jbodlab.server.response_structs import ResponseStructs

ZERO_SINCE_VERSION = 4
"""Since when features with 0 as the lowest level are told (KIP-1022)."""


def feature_fields(
    structs: ResponseStructs,
    version: int,
    levels: Mapping[str, int],
    epoch: int,
    kraft_version: int = 0,
) -> dict[str, Any]:
    """Return the fields of the response.

    Args:
        structs: Of ApiVersions.
        version: Of the request.
        levels: The finalized ones.
        epoch: Offset of the metadata that they are of.
        kraft_version: The finalized level of kraft.version, which no FeatureLevelRecord has; 0 is
            left out.
    """
    finalized = {**levels, **({KRAFT_VERSION: kraft_version} if kraft_version else {})}
    return {
        "supported_features": tuple(
            structs.SupportedFeatureKey(name=name, min_version=low, max_version=high)
            for name, (low, high) in SUPPORTED.items()
            # Clients of older versions take 0 for a mistake.
            if version >= ZERO_SINCE_VERSION or low > 0
        ),
        "finalized_features_epoch": epoch,
        "finalized_features": tuple(
            structs.FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in finalized.items()
        ),
    }
