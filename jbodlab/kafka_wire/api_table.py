"""The APIs that brokers serve: key, versions, first flexible version.

`advertised` is what ApiVersions answers, `accepted` what is really decoded. They differ twice:
Produce is advertised from 0 because librdkafka before 2.3 compresses only where it sees the old
versions, and Fetch 18 is left to brokers. The codecs of one API version are loaded when it is
first used: a client speaks one version of each API, and the classes of all of them together would
take more memory than the rest of the broker.
"""

from __future__ import annotations

from dataclasses import fields
from enum import IntEnum
from functools import cache
from importlib import import_module
from typing import get_args

import msgspec

from jbodlab.kafka_wire import fetch_response, produce_response
from jbodlab.kafka_wire.codec import Encoder, ResponseEncoder, encoder, in_one_piece
from jbodlab.kafka_wire.layout import EntityClass, unwrap
from jbodlab.kafka_wire.reader import EntityReader, reader
from jbodlab.vocabulary.errors import UnsupportedVersionError


class ApiKey(IntEnum):
    """The API keys in use, under Kafka's names."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    CREATE_PARTITIONS = 37
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_QUORUM = 55
    UPDATE_FEATURES = 57
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    UNREGISTER_BROKER = 64
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    SHARE_GROUP_HEARTBEAT = 76
    REVIVE_LOG_DIR = 10_000
    """Not one of Kafka's; see `jbodlab.kafka_wire.revive_log_dir`."""
    DESCRIBE_LOG_DIR_STATES = 10_001
    """Not one of Kafka's; see `jbodlab.kafka_wire.describe_log_dir_states`."""


MAX_REQUEST_BYTES = 4 << 20
"""Of any request but Produce: `MAX_REQUEST_ITEMS` topics with names of 80 letters.

Clients of Apache Kafka may send 100 MiB; nothing but records is ever that large.
"""

MAX_REQUEST_ITEMS = 50_000
"""Items of all arrays of a request together, nested ones included.

It is what a cluster of some 10,000 partitions needs where a request names all of them with their
replicas: one that reassigns them has a topic, a partition and three replicas for each.
"""

MAX_PRODUCE_ITEMS, MAX_FETCH_ITEMS = 10_000, 20_000
"""Both name what one broker leads; a Fetch of a follower names what it has in one directory."""

MAX_CHANGED_ITEMS = 20_000
"""Of what the controller changes in one step, 10,000 partitions at most."""

MAX_DESCRIBED_CONFIGS = 5_000
"""Each item is answered with some forty settings."""


NEVER_FLEXIBLE = 1 << 15
"""Of an API whose versions have no tagged fields yet."""


class Api(msgspec.Struct, frozen=True):
    """One API; both ranges are inclusive."""

    key: ApiKey
    advertised: tuple[int, int]
    flexible_from: int
    accepted: tuple[int, int]
    max_items: int
    """Most items in all arrays of a request together; one with more is no real request."""

    @property
    def schema_name(self) -> str:
        """Name of the API's package in `kio.schema`."""
        return self.key.name.lower()


def _api(
    key: ApiKey,
    low: int,
    high: int,
    flexible: int,
    *,
    accepted: tuple[int, int] | None = None,
    max_items: int = MAX_REQUEST_ITEMS,
) -> Api:
    return Api(key, (low, high), flexible, accepted or (low, high), max_items)


OWN_MESSAGES = {
    ApiKey.REVIVE_LOG_DIR: "jbodlab.kafka_wire.revive_log_dir",
    ApiKey.DESCRIBE_LOG_DIR_STATES: "jbodlab.kafka_wire.describe_log_dir_states",
}
"""Modules of the APIs that Kafka does not have, and kio therefore not either."""

APIS: dict[int, Api] = {
    api.key: api
    for api in (
        _api(ApiKey.PRODUCE, 0, 12, 9, accepted=(3, 12), max_items=MAX_PRODUCE_ITEMS),
        _api(ApiKey.FETCH, 4, 17, 12, accepted=(4, 18), max_items=MAX_FETCH_ITEMS),
        _api(ApiKey.LIST_OFFSETS, 1, 11, 6),
        _api(ApiKey.METADATA, 0, 13, 9),
        _api(ApiKey.OFFSET_COMMIT, 2, 10, 8),
        _api(ApiKey.OFFSET_FETCH, 1, 10, 6),
        _api(ApiKey.FIND_COORDINATOR, 0, 6, 3),
        _api(ApiKey.JOIN_GROUP, 0, 9, 6),
        _api(ApiKey.HEARTBEAT, 0, 4, 4),
        _api(ApiKey.LEAVE_GROUP, 0, 5, 4),
        _api(ApiKey.SYNC_GROUP, 0, 5, 4),
        _api(ApiKey.DESCRIBE_GROUPS, 0, 6, 5),
        _api(ApiKey.LIST_GROUPS, 0, 5, 3),
        _api(ApiKey.API_VERSIONS, 0, 4, 3),
        _api(ApiKey.CREATE_TOPICS, 2, 7, 5, max_items=MAX_CHANGED_ITEMS),
        _api(ApiKey.DELETE_TOPICS, 1, 6, 4, max_items=MAX_CHANGED_ITEMS),
        _api(ApiKey.DELETE_RECORDS, 0, 2, 2),
        _api(ApiKey.INIT_PRODUCER_ID, 0, 5, 2),
        _api(ApiKey.OFFSET_FOR_LEADER_EPOCH, 2, 4, 4),
        _api(ApiKey.DESCRIBE_ACLS, 1, 3, 2),
        _api(ApiKey.CREATE_ACLS, 1, 3, 2),
        _api(ApiKey.DELETE_ACLS, 1, 3, 2),
        _api(ApiKey.DESCRIBE_CONFIGS, 1, 4, 4, max_items=MAX_DESCRIBED_CONFIGS),
        _api(ApiKey.ALTER_CONFIGS, 0, 2, 2, max_items=MAX_CHANGED_ITEMS),
        _api(ApiKey.ALTER_REPLICA_LOG_DIRS, 1, 2, 2),
        _api(ApiKey.DESCRIBE_LOG_DIRS, 1, 5, 2),
        _api(ApiKey.CREATE_PARTITIONS, 0, 3, 2, max_items=MAX_CHANGED_ITEMS),
        _api(ApiKey.DELETE_GROUPS, 0, 2, 2),
        _api(ApiKey.ELECT_LEADERS, 0, 2, 2),
        _api(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1, 1, max_items=MAX_CHANGED_ITEMS),
        _api(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, 1, 0),
        _api(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, 0, 0),
        _api(ApiKey.OFFSET_DELETE, 0, 0, NEVER_FLEXIBLE),
        _api(ApiKey.DESCRIBE_CLIENT_QUOTAS, 0, 1, 1),
        _api(ApiKey.ALTER_CLIENT_QUOTAS, 0, 1, 1),
        _api(ApiKey.DESCRIBE_QUORUM, 0, 2, 0),
        _api(ApiKey.UPDATE_FEATURES, 0, 2, 0),
        _api(ApiKey.DESCRIBE_CLUSTER, 0, 2, 0),
        _api(ApiKey.DESCRIBE_PRODUCERS, 0, 0, 0),
        _api(ApiKey.UNREGISTER_BROKER, 0, 0, 0),
        _api(ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, 1, 0),
        _api(ApiKey.CONSUMER_GROUP_DESCRIBE, 0, 1, 0),
        _api(ApiKey.LIST_CONFIG_RESOURCES, 0, 1, 0),
        _api(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, 0, 0),
        # Refused: see `broker.api.groups.share_groups`.
        _api(ApiKey.SHARE_GROUP_HEARTBEAT, 1, 1, 0),
        _api(ApiKey.REVIVE_LOG_DIR, 0, 0, 0),
        _api(ApiKey.DESCRIBE_LOG_DIR_STATES, 0, 0, 0),
    )
}
"""Every API served, by key; source of the ranges: Apache Kafka 4.0 to 4.3."""


def is_flexible(api_key: int, api_version: int) -> bool:
    """Return whether bodies of this version are compact and tagged; False for unknown APIs."""
    api = APIS.get(api_key)
    return api is not None and api_version >= api.flexible_from


def is_served(api_key: int, api_version: int) -> bool:
    """Return whether a request of this API and version is answered."""
    api = APIS.get(api_key)
    return api is not None and api.accepted[0] <= api_version <= api.accepted[1]


@cache
def request_reader(api_key: int, api_version: int) -> EntityReader:
    """Return what reads a request body, and refuses one with too many items.

    Raises:
        UnsupportedVersionError: this API or version is not served.
    """
    return reader(request_class(api_key, api_version), APIS[api_key].max_items)


WRITTEN_BY_HAND = {
    ApiKey.PRODUCE: produce_response.response_encoder,
    ApiKey.FETCH: fetch_response.response_encoder,
}
"""Encoders of the responses that are sent for every batch; all others are generated."""


@cache
def response_encoder(api_key: int, api_version: int) -> ResponseEncoder:
    """Return what writes a response body; raises as `request_reader`."""
    make = WRITTEN_BY_HAND.get(ApiKey(api_key), in_one_piece)
    return make(response_class(api_key, api_version))


_loaded: set[tuple[int, int]] = set()


def is_loaded(api_key: int, api_version: int) -> bool:
    """Return whether requests are read and answered at once: to make the codecs takes some ms."""
    return (api_key, api_version) in _loaded


def load(api_key: int, api_version: int) -> None:
    """Make what reads a request and writes its response; raises as `request_reader`."""
    request_reader(api_key, api_version)
    response_encoder(api_key, api_version)
    _loaded.add((api_key, api_version))


def item_class(entity_class: EntityClass, field_name: str) -> EntityClass:
    """Return the class of the structs in an array of a message, or of another struct."""
    found = next(each for each in fields(entity_class) if each.name == field_name)
    annotation, _ = unwrap(found.type)
    return get_args(annotation)[0]


@cache
def request_encoder(api_key: int, api_version: int) -> Encoder:
    """Return what writes a request body, for clients; raises as `request_reader`."""
    return encoder(request_class(api_key, api_version))


@cache
def response_reader(api_key: int, api_version: int) -> EntityReader:
    """Return what reads a response body, for clients; raises as `request_reader`."""
    return reader(response_class(api_key, api_version))


def request_class(api_key: int, api_version: int) -> EntityClass:
    """Return the kio entity class of a request; raises as `request_reader`."""
    return _entity_class(api_key, api_version, "request", "Request")


def response_class(api_key: int, api_version: int) -> EntityClass:
    """Return the kio entity class of a response; raises as `request_reader`."""
    return _entity_class(api_key, api_version, "response", "Response")


def _entity_class(api_key: int, api_version: int, module: str, suffix: str) -> EntityClass:
    if not is_served(api_key, api_version):
        raise UnsupportedVersionError(f"unsupported API {api_key} version {api_version}")
    name = APIS[api_key].schema_name
    path = OWN_MESSAGES.get(ApiKey(api_key)) or f"kio.schema.{name}.v{api_version}.{module}"
    entity_class: EntityClass = getattr(import_module(path), _camel_case(name) + suffix)
    return entity_class


def _camel_case(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))
