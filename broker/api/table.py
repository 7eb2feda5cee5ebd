"""Every API of a broker: of the handlers in the rooms of `broker.api`, and of `forwarded`."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType

from broker.api import admin, cluster, data, directories, groups, transactions
from broker.api.admin.forwarded import APIS as FORWARDED_APIS
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

_found = [getattr(each, "api", None) for module in _modules() for each in vars(module).values()]
_served = [api for api in (_API_VERSIONS, *FORWARDED_APIS, *_found) if isinstance(api, Api)]
APIS: dict[ApiKey, Api[ApiParts]] = {
    api.key: api for api in sorted(_served, key=lambda api: api.key)
}
"""Every API served, by key; source of the versions: Apache Kafka 4.0 to 4.3."""
