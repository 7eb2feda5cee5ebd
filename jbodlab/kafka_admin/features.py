"""Features of the cluster, and of the release that a broker is."""

from __future__ import annotations

from collections.abc import Mapping
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
