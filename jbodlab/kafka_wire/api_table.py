"""The codecs of each API and version, made of the schemas of kio and of our own two APIs.

They are made when a version is first used: a client speaks one version of each API, and the classes
of all of them together would take more memory than the rest of the broker. Which versions a server
answers is said by its `jbodlab.server.api.Api` values.
"""

from __future__ import annotations

from dataclasses import fields
from functools import cache
from importlib import import_module
from typing import NamedTuple, get_args

from jbodlab.kafka_wire import fetch_response, produce_response
from jbodlab.kafka_wire.api_key import ApiKey as ApiKey
from jbodlab.kafka_wire.codec import Encoder, ResponseEncoder, encoder, in_one_piece
from jbodlab.kafka_wire.headers import no_tags
from jbodlab.kafka_wire.layout import EntityClass, unwrap
from jbodlab.kafka_wire.reader import EntityReader, reader
from jbodlab.vocabulary.errors import UnsupportedVersionError

OWN_MESSAGES = {
    ApiKey.REVIVE_LOG_DIR: "jbodlab.kafka_wire.revive_log_dir",
    ApiKey.DESCRIBE_LOG_DIR_STATES: "jbodlab.kafka_wire.describe_log_dir_states",
}
"""Modules of the APIs that Kafka does not have, and kio therefore not either."""


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


class ApiCodec(NamedTuple):
    """The codecs of one version of an API, as a server needs them."""

    read: EntityReader
    encode: ResponseEncoder
    header_end: bytes
    """Of a response, behind the correlation id."""


_loaded: dict[tuple[int, int], ApiCodec] = {}


def loaded(api_key: int, api_version: int) -> ApiCodec | None:
    """Return the codec of a version that was loaded: to make one takes some ms."""
    return _loaded.get((api_key, api_version))


def load(api_key: int, api_version: int, max_items: int) -> ApiCodec:
    """Make the codec of a version; raises as `request_reader`."""
    codec = ApiCodec(
        request_reader(api_key, api_version, max_items),
        response_encoder(api_key, api_version),
        no_tags(api_key, api_version),
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


@cache
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
