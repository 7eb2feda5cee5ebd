"""The channel to the controller: values in, values out.

No protobuf type gets past this module.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator
from typing import TypeVar

from jbodlab.controller_api import requests
from jbodlab.controller_api.translate import from_proto, to_proto
from jbodlab.controller_api.transport import RpcTransport

ResponseT = TypeVar("ResponseT")


class ControllerChannel:
    """Calls to the active controller; made and used on a running event loop.

    Args:
        transport: The way to the controller; closed with the channel.
    """

    def __init__(self, transport: RpcTransport) -> None:
        self._transport = transport

    async def close(self) -> None:
        """Close the connection; calls in flight fail."""
        await self._transport.close()

    async def call(self, request: requests.Request[ResponseT], timeout_s: float) -> ResponseT:
        """Have the controller carry out a request; error codes in the response are the caller's.

        Raises:
            ControllerUnavailableError: no response came within the deadline.
            DecodeError: the response makes no sense.
        """
        message = await self._transport.unary(request.method(), to_proto(request), timeout_s)
        response: ResponseT = from_proto(message)
        return response

    async def metadata_stream(
        self, request: requests.MetadataStreamRequest
    ) -> AsyncGenerator[requests.MetadataStreamResponse, None]:
        """Yield committed metadata from an offset on, for as long as the controller lives.

        Only the reader can say how long silence may last, so this is the one call without a
        deadline. Close the iterator (`contextlib.aclosing`) to end the stream.

        Raises:
            ControllerUnavailableError: the stream broke.
            DecodeError: a response makes no sense.
        """
        stream = self._transport.stream("MetadataStream", to_proto(request))
        async with contextlib.aclosing(stream):
            async for message in stream:
                response: requests.MetadataStreamResponse = from_proto(message)
                yield response
