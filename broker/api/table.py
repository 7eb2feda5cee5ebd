"""Every API of a broker: the `APIS` of the modules in the rooms of `broker.api`."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType

from broker.api import admin, cluster, data, directories, groups, transactions
from broker.api.api_versions import ApiVersionsApi
from broker.api.parts import ApiParts
from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.server.api import Api
from jbodlab.server.resources import nothing


def _modules() -> Iterator[ModuleType]:
    for room in (admin, cluster, data, directories, groups, transactions):
        for found in iter_modules(room.__path__, f"{room.__name__}."):
            yield import_module(found.name)


_API_VERSIONS: Api[ApiParts] = Api(
    key=ApiKey.API_VERSIONS,
    versions=(0, 4),
    resources=nothing,
    handler=lambda parts: ApiVersionsApi(APIS.values(), parts.cache, parts.kraft_version),
)

_found = [api for module in _modules() for api in getattr(module, "APIS", ())]
APIS: dict[ApiKey, Api[ApiParts]] = {
    api.key: api for api in sorted((_API_VERSIONS, *_found), key=lambda api: api.key)
}
"""Every API served, by key; source of the versions: Apache Kafka 4.0 to 4.3."""
