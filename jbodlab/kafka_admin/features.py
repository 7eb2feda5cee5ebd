"""Features of the cluster, and of the release that a broker is."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from jbodlab.kafka_admin.errors import check
from jbodlab.kafka_wire.api_key import ApiKey

if TYPE_CHECKING:
    from jbodlab.kafka_admin.client import AdminClient


class Features(NamedTuple):
    """Levels of features by name.

    Attributes:
        finalized: Those that the cluster uses.
        supported: The highest that the broker knows.
    """

    finalized: Mapping[str, int]
    supported: Mapping[str, int]


async def describe_features(client: AdminClient) -> Features:
    """Return the features that one broker tells.

    Raises:
        RequestError: the broker refuses to say.
    """
    values = {"client_software_name": "jbodlab", "client_software_version": "0"}
    response = await client.call(ApiKey.API_VERSIONS, values)
    check(response)
    return Features(
        finalized={one.name: one.max_version_level for one in response.finalized_features or ()},
        supported={one.name: one.max_version for one in response.supported_features or ()},
    )


async def raise_feature(client: AdminClient, name: str, level: int, timeout_s: float) -> None:
    """Have the cluster use a higher level of a feature.

    Raises:
        RequestError: that is not possible now.
    """
    values = {
        "timeout": timedelta(seconds=timeout_s),
        "feature_updates": [{"feature": name, "max_version_level": level, "upgrade_type": 1}],
        "validate_only": False,
    }
    check(await client.call(ApiKey.UPDATE_FEATURES, values, timeout_s=timeout_s))
