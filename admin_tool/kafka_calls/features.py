"""Features of the cluster, and of the release that a broker is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from admin_tool.errors import RequestError
from admin_tool.kafka_calls.connection import Connection


class Features(NamedTuple):
    """Levels of features by name.

    Attributes:
        finalized: Those that the cluster uses.
        supported: The highest that the broker knows.
    """

    finalized: Mapping[str, int]
    supported: Mapping[str, int]


def describe_features(connection: Connection) -> Features:
    """Return the features that one broker tells.

    Raises:
        RequestError: the broker refuses to say.
    """
    from kafka.protocol.metadata import ApiVersionsRequest  # type: ignore[import-untyped]

    request = ApiVersionsRequest(client_software_name="jbodlab", client_software_version="0")
    response = connection.call(request)
    if response.error_code:
        raise RequestError(response.error_code)
    return Features(
        finalized={one.name: one.max_version_level for one in response.finalized_features or ()},
        supported={one.name: one.max_version for one in response.supported_features or ()},
    )
