"""The codecs of each API and version, made of the schemas of kio and of our own two APIs.

They are made when a version is first used: a client speaks one version of each API, and the classes
of all of them together would take more memory than the rest of the broker. Which versions a server
answers is said by its `jbodlab.server.api.Api` values.
"""

from __future__ import annotations

from dataclasses import fields
from enum import IntEnum
from functools import cache
from importlib import import_module
from typing import NamedTuple, Self, get_args

from jbodlab.kafka_wire import fetch_response, produce_response
from jbodlab.kafka_wire.codec import Encoder, ResponseEncoder, encoder, in_one_piece
from jbodlab.kafka_wire.layout import EntityClass, unwrap
from jbodlab.kafka_wire.reader import EntityReader, reader
from jbodlab.vocabulary.errors import UnsupportedVersionError

NEVER_FLEXIBLE = 1 << 15
"""Of an API whose versions have no tagged fields yet."""


class ApiKey(IntEnum):
    """The API keys in use, under Kafka's names, and since which version bodies are flexible."""

    def __new__(cls, key: int, flexible_from: int = NEVER_FLEXIBLE) -> Self:
        """Make a member; `flexible_from` is a fact of the protocol."""
        member = int.__new__(cls, key)
        member._value_ = key
        member._flexible_from = flexible_from
        return member

    _flexible_from: int

    PRODUCE = 0, 9
    FETCH = 1, 12
    LIST_OFFSETS = 2, 6
    METADATA = 3, 9
    OFFSET_COMMIT = 8, 8
    OFFSET_FETCH = 9, 6
    FIND_COORDINATOR = 10, 3
    JOIN_GROUP = 11, 6
    HEARTBEAT = 12, 4
    LEAVE_GROUP = 13, 4
    SYNC_GROUP = 14, 4
    DESCRIBE_GROUPS = 15, 5
    LIST_GROUPS = 16, 3
    SASL_HANDSHAKE = 17, NEVER_FLEXIBLE
    API_VERSIONS = 18, 3
    CREATE_TOPICS = 19, 5
    DELETE_TOPICS = 20, 4
    DELETE_RECORDS = 21, 2
    INIT_PRODUCER_ID = 22, 2
    OFFSET_FOR_LEADER_EPOCH = 23, 4
    ADD_PARTITIONS_TO_TXN = 24, 3
    ADD_OFFSETS_TO_TXN = 25, 3
    END_TXN = 26, 3
    WRITE_TXN_MARKERS = 27, 1
    TXN_OFFSET_COMMIT = 28, 3
    DESCRIBE_ACLS = 29, 2
    CREATE_ACLS = 30, 2
    DELETE_ACLS = 31, 2
    DESCRIBE_CONFIGS = 32, 4
    ALTER_CONFIGS = 33, 2
    ALTER_REPLICA_LOG_DIRS = 34, 2
    DESCRIBE_LOG_DIRS = 35, 2
    SASL_AUTHENTICATE = 36, 2
    CREATE_PARTITIONS = 37, 2
    DELETE_GROUPS = 42, 2
    ELECT_LEADERS = 43, 2
    INCREMENTAL_ALTER_CONFIGS = 44, 1
    ALTER_PARTITION_REASSIGNMENTS = 45, 0
    LIST_PARTITION_REASSIGNMENTS = 46, 0
    OFFSET_DELETE = 47, NEVER_FLEXIBLE
    DESCRIBE_CLIENT_QUOTAS = 48, 1
    ALTER_CLIENT_QUOTAS = 49, 1
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50, 0
    ALTER_USER_SCRAM_CREDENTIALS = 51, 0
    DESCRIBE_QUORUM = 55, 0
    UPDATE_FEATURES = 57, 0
    DESCRIBE_CLUSTER = 60, 0
    DESCRIBE_PRODUCERS = 61, 0
    UNREGISTER_BROKER = 64, 0
    DESCRIBE_TRANSACTIONS = 65, 0
    LIST_TRANSACTIONS = 66, 0
    CONSUMER_GROUP_HEARTBEAT = 68, 0
    CONSUMER_GROUP_DESCRIBE = 69, 0
    GET_TELEMETRY_SUBSCRIPTIONS = 71, 0
    PUSH_TELEMETRY = 72, 0
    LIST_CONFIG_RESOURCES = 74, 0
    DESCRIBE_TOPIC_PARTITIONS = 75, 0
    SHARE_GROUP_HEARTBEAT = 76, 0
    REVIVE_LOG_DIR = 10_000, 0
    """Not one of Kafka's; see `jbodlab.kafka_wire.revive_log_dir`."""
    DESCRIBE_LOG_DIR_STATES = 10_001, 0
    """Not one of Kafka's; see `jbodlab.kafka_wire.describe_log_dir_states`."""


OWN_MESSAGES = {
    ApiKey.REVIVE_LOG_DIR: "jbodlab.kafka_wire.revive_log_dir",
    ApiKey.DESCRIBE_LOG_DIR_STATES: "jbodlab.kafka_wire.describe_log_dir_states",
}
"""Modules of the APIs that Kafka does not have, and kio therefore not either."""

_FLEXIBLE_FROM = {int(key): key._flexible_from for key in ApiKey}


def is_flexible(api_key: int, api_version: int) -> bool:
    """Return whether bodies of this version are compact and tagged; False for unknown APIs."""
    return api_version >= _FLEXIBLE_FROM.get(api_key, NEVER_FLEXIBLE)


@cache
def request_reader(api_key: int, api_version: int, max_items: int) -> EntityReader:
    """Return what reads a request body, and refuses one with more items in all its arrays.

    Raises:
        UnsupportedVersionError: there is no such API or version.
    """
    return reader(request_class(api_key, api_version), max_items)


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


class Codec(NamedTuple):
    """What a server needs of one version of an API."""

    read: EntityReader
    encode: ResponseEncoder


_loaded: dict[tuple[int, int], Codec] = {}


def loaded(api_key: int, api_version: int) -> Codec | None:
    """Return the codec of a version that was loaded: to make one takes some ms."""
    return _loaded.get((api_key, api_version))


def load(api_key: int, api_version: int, max_items: int) -> Codec:
    """Make the codec of a version; raises as `request_reader`."""
    codec = Codec(
        request_reader(api_key, api_version, max_items), response_encoder(api_key, api_version)
    )
    return _loaded.setdefault((api_key, api_version), codec)


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
    try:
        key = ApiKey(api_key)
        path = OWN_MESSAGES.get(key) or f"kio.schema.{key.name.lower()}.v{api_version}.{module}"
        messages = import_module(path)
    except (ValueError, ModuleNotFoundError) as error:
        raise UnsupportedVersionError(f"unsupported API {api_key} version {api_version}") from error
    entity_class: EntityClass = getattr(messages, _camel_case(key.name) + suffix)
    return entity_class


def _camel_case(name: str) -> str:
    return name.title().replace("_", "")
