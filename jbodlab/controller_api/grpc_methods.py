"""The two ends of the controller's service in gRPC: its methods, as the descriptor has them."""

from __future__ import annotations

from typing import Any

import grpc
from google.protobuf.message_factory import GetMessageClass

from jbodlab.controller_api.messages import SERVICE


class ControllerStub:
    """Calls the methods of a controller, each an attribute of its name.

    Args:
        channel: The way there, of `grpc` or `grpc.aio`.
    """

    def __init__(self, channel: Any) -> None:
        for method in SERVICE.methods:
            begin = channel.unary_stream if method.server_streaming else channel.unary_unary
            call = begin(
                f"/{SERVICE.full_name}/{method.name}",
                request_serializer=GetMessageClass(method.input_type).SerializeToString,
                response_deserializer=GetMessageClass(method.output_type).FromString,
            )
            setattr(self, method.name, call)

    def __getattr__(self, name: str) -> Any:
        """Name what is no method; also says to type checkers that there are some."""
        raise AttributeError(f"the controller's service has no method {name}")


def add_to_server(servicer: Any, server: Any) -> None:
    """Let a server of `grpc` or `grpc.aio` answer calls by the methods of an object.

    Calls of a method that the object has not are answered as not implemented.
    """
    handlers = {}
    for method in SERVICE.methods:
        if (answer := getattr(servicer, method.name, None)) is None:
            continue
        make = (
            grpc.unary_stream_rpc_method_handler
            if method.server_streaming
            else grpc.unary_unary_rpc_method_handler
        )
        handlers[method.name] = make(
            answer,
            request_deserializer=GetMessageClass(method.input_type).FromString,
            response_serializer=GetMessageClass(method.output_type).SerializeToString,
        )
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(SERVICE.full_name, handlers),)
    )
