"""Each API in each version: requests of the smallest values, and the codes of answers."""

from __future__ import annotations

import datetime
from dataclasses import fields
from typing import Any, get_args, get_origin
from uuid import UUID

import pytest

from broker.api.table import APIS
from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.kafka_wire.layout import is_struct, tag_of, unwrap

VERSIONS = [
    pytest.param(key, version, id=f"{key.name}-{version}")
    for key, api in APIS.items()
    for version in api.accepted_versions
]
TOPIC_ID = UUID(int=7)
VALUES: dict[str, Any] = {
    "string": "name", "bytes": b"", "records": None, "bool": True, "uuid": None,
    "timedelta_i32": datetime.timedelta(seconds=1), "timedelta_i64": datetime.timedelta(0),
}  # fmt: skip


class NoReplicas:
    """Every call fails in a way that nobody expected."""

    def __getattr__(self, name: str) -> Any:
        def fail(*_: Any) -> Any:
            raise ZeroDivisionError

        return fail


def request_of_ones(entity_class: Any) -> Any:
    """A request in which every array has one item and every number is 1."""
    values = {}
    for field in fields(entity_class):
        annotation, optional = unwrap(field.type)
        kind = field.metadata.get("kafka_type")
        if tag_of(field) is not None:
            continue
        if get_origin(annotation) is tuple:
            item = unwrap(get_args(annotation)[0])[0]
            values[field.name] = (
                request_of_ones(item) if is_struct(item) else VALUES.get(kind or "", 1),
            )
        elif is_struct(annotation):
            values[field.name] = None if optional else request_of_ones(annotation)
        elif field.name == "transactional_id":
            values[field.name] = None if optional else "name"
        elif field.name == "session_id":
            values[field.name] = 0
        else:
            values[field.name] = VALUES.get(kind or "", 1)
    return entity_class(**values)


def error_codes(entity: Any) -> set[int]:
    codes = set()
    for field in fields(entity):
        value = getattr(entity, field.name)
        if field.metadata.get("kafka_type") == "error_code":
            codes.add(int(value))
        elif isinstance(value, tuple):
            for item in value:
                if is_struct(item):
                    codes |= error_codes(item)
    return codes


OF_EVERY_CLIENT = {
    ApiKey.API_VERSIONS,
    ApiKey.SASL_HANDSHAKE,
    ApiKey.SASL_AUTHENTICATE,
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
    ApiKey.PUSH_TELEMETRY,
}
"""For which a client needs no rights."""
