"""Protobuf messages <-> the values of `jbodlab.controller_api.requests`, both ways.

Each message of the service has a value of the same name. No protobuf type travels beyond the
modules that call these functions. What a peer may have got wrong is refused here, with a
`DecodeError` that names the field: an id that is not 16 bytes, an error code that Kafka has not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from jbodlab.controller_api import requests
from jbodlab.controller_api.mapper import make_functions
from jbodlab.controller_api.messages import SERVICE

_TO_PROTO: dict[type, Callable[[Any], Any]] = {}
_FROM_PROTO: dict[type, Callable[[Any], Any]] = {}


def to_proto(value: object) -> Any:
    """Return the protobuf message of a value of `jbodlab.controller_api.requests`."""
    return _TO_PROTO[type(value)](value)


def from_proto(message: Message) -> Any:
    """Return the value of `jbodlab.controller_api.requests` that a protobuf message stands for.

    Raises:
        DecodeError: an id is not 16 bytes, or an error code is not one of Kafka's.
    """
    return _FROM_PROTO[type(message)](message)


def _fill() -> None:
    for method in SERVICE.methods:
        for descriptor in (method.input_type, method.output_type):
            kind = getattr(requests, descriptor.name)
            functions = make_functions(kind, descriptor)
            _TO_PROTO[kind], _FROM_PROTO[GetMessageClass(descriptor)] = functions


_fill()
