"""Changes of the metadata as requests to Kafka's controllers, and as those to ours."""

from __future__ import annotations

import hashlib
from datetime import timedelta
from typing import Any, NamedTuple

from jbodlab.controller_api import requests
from jbodlab.kafka_wire.api_table import ApiKey, item_class, request_class
from jbodlab.server.request_values import Given, value_of

USER, QUOTA = "user", "producer_byte_rate"
GROUP = 32
"""Type of the resource that a group's settings are for."""
SCRAM_SHA_256, ITERATIONS = 1, 4_096
TIMEOUT = timedelta(seconds=2)


class Change(NamedTuple):
    """A request for one change.

    Attributes:
        message: As Kafka's controllers take it.
        request: As ours do.
    """

    key: ApiKey
    version: int
    message: Any
    request: Any


def quota(user: str, rate: float) -> Change:
    """Return the change of a user's quota."""
    ops = ({"key": QUOTA, "value": rate, "remove": False},)
    entries = ({"entity": ({"entity_type": USER, "entity_name": user},), "ops": ops},)
    return _change(
        ApiKey.ALTER_CLIENT_QUOTAS,
        1,
        requests.AlterClientQuotasRequest,
        {"entries": entries, "validate_only": False},
    )


def setting(group: str, value_ms: int) -> Change:
    """Return the change of a group's setting."""
    name = "consumer.session.timeout.ms"
    config = {"name": name, "config_operation": 0, "value": str(value_ms)}
    resource = {"resource_type": GROUP, "resource_name": group, "configs": (config,)}
    return _change(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        1,
        requests.IncrementalAlterConfigsRequest,
        {"resources": (resource,), "validate_only": False},
    )


def credential(user: str, number: int) -> Change:
    """Return the change of a user's password."""
    salted = hashlib.sha256(str(number).encode()).digest()
    upsertion = {
        "name": user,
        "mechanism": SCRAM_SHA_256,
        "iterations": ITERATIONS,
        "salt": salted[:16],
        "salted_password": salted,
    }
    return _change(
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        0,
        requests.AlterUserScramCredentialsRequest,
        {"deletions": (), "upsertions": (upsertion,)},
    )


def new_topic(name: str) -> Change:
    """Return the creation of a topic."""
    topic = {
        "name": name,
        "num_partitions": 3,
        "replication_factor": 1,
        "assignments": (),
        "configs": ({"name": "retention.ms", "value": "1000000"},),
    }
    return _change(
        ApiKey.CREATE_TOPICS,
        7,
        requests.CreateTopicsRequest,
        {"topics": (topic,), "timeout": TIMEOUT, "validate_only": False},
    )


def removed_topic(name: str) -> Change:
    """Return the removal of a topic."""
    return _change(
        ApiKey.DELETE_TOPICS,
        6,
        requests.DeleteTopicsRequest,
        {"topics": ({"name": name, "topic_id": None},), "timeout": TIMEOUT},
    )


def is_done(answer: Any) -> bool:
    """Return whether an answer of either says that all is done."""
    errors = [
        int(each.error_code)
        for name in dir(answer)
        if not name.startswith("_") and isinstance(parts := getattr(answer, name), tuple)
        for each in (answer, *parts)
        if hasattr(each, "error_code")
    ]
    return bool(errors) and not any(errors)


def _change(key: ApiKey, version: int, own: type, fields: Given) -> Change:
    message = _message(request_class(key, version), fields)
    return Change(key, version, message, value_of(own, message, {}))


def _message(kind: Any, fields: Given) -> Any:
    """Return a message of kio; a tuple of mappings is one of its structs."""
    return kind(
        **{
            name: tuple(_message(item_class(kind, name), each) for each in value)
            if isinstance(value, tuple)
            else value
            for name, value in fields.items()
        }
    )
