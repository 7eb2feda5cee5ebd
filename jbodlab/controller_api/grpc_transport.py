"""Calls to the controller over gRPC.

A controller that comes back after a restart is found within half a second, because the pause
between two attempts to connect stays that short; a call made while there is no connection fails at
once. No gRPC error gets past this module.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from typing import Any

import grpc
import grpc.aio
from google.protobuf.message_factory import GetMessageClass

from jbodlab.controller_api.messages import SERVICE
from jbodlab.controller_api.rpc_tls import RpcKeys
from jbodlab.vocabulary.errors import ControllerUnavailableError

MESSAGE_SIZE_BYTES_MAX = 64 * 1024 * 1024
RECONNECT_BACKOFF_MS = 50
RECONNECT_BACKOFF_MS_MAX = 500

OPTIONS = (
    ("grpc.max_receive_message_length", MESSAGE_SIZE_BYTES_MAX),
    ("grpc.max_send_message_length", MESSAGE_SIZE_BYTES_MAX),
    ("grpc.initial_reconnect_backoff_ms", RECONNECT_BACKOFF_MS),
    ("grpc.min_reconnect_backoff_ms", RECONNECT_BACKOFF_MS),
    ("grpc.max_reconnect_backoff_ms", RECONNECT_BACKOFF_MS_MAX),
    # A controller whose machine vanished says nothing; without this a call to it would hang until
    # its deadline and the stream for ever.
    ("grpc.keepalive_time_ms", 5_000),
    ("grpc.keepalive_timeout_ms", 3_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    # Channels of one process would share connections, and with them their reconnect pauses.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
)


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


def channel_credentials(keys: RpcKeys) -> grpc.ChannelCredentials:
    """Return what a channel needs to call a controller with certificates."""
    return grpc.ssl_channel_credentials(
        root_certificates=keys.roots,
        private_key=keys.key.reveal(),
        certificate_chain=keys.chain,
    )


def _tls_problem(details: str) -> str:
    if "Hostname Verification" in details:
        return ": its certificate does not name that host"
    if "CERTIFICATE_VERIFY_FAILED" in details:
        return ": its certificate is not trusted"
    if "Socket closed" in details:
        return ": it closed the connection; it may refuse the certificate of this broker"
    return ""


class GrpcTransport:
    """A channel to the controller; made and used on a running event loop.

    Args:
        address: `host:port` of the controller.
        keys: Returns the keys of a new channel; None where nothing is encrypted.
    """

    def __init__(self, address: str, keys: Callable[[], RpcKeys] | None = None) -> None:
        self.address = address
        self._keys = keys
        self._open()

        self._calls: Counter[grpc.aio.Channel] = Counter()
        """Calls in progress, by their channels."""

    def _open(self) -> None:
        self._made_of = None if self._keys is None else self._keys()
        if self._made_of is None:
            self._channel = grpc.aio.insecure_channel(self.address, options=OPTIONS)
        else:
            credentials = channel_credentials(self._made_of)
            self._channel = grpc.aio.secure_channel(self.address, credentials, options=OPTIONS)
        self._stub = ControllerStub(self._channel)

    @contextlib.asynccontextmanager
    async def _newest_stub(self) -> AsyncIterator[ControllerStub]:
        """Yield a stub of a channel with the newest keys; a channel keeps those it was made with.

        An old channel is closed after its last call.
        """
        if self._keys is not None and self._keys() is not self._made_of:
            old = self._channel
            self._open()
            if not self._calls[old]:
                await old.close()
        channel = self._channel
        self._calls[channel] += 1
        try:
            yield self._stub
        finally:
            self._calls[channel] -= 1
            if not self._calls[channel]:
                del self._calls[channel]
                if channel is not self._channel:
                    await channel.close()

    async def unary(self, method: str, message: Any, timeout_s: float) -> Any:
        """Call a method; returns its response."""
        async with self._newest_stub() as stub:
            with self._translated_errors(method):
                return await getattr(stub, method)(message, timeout=timeout_s)

    async def stream(self, method: str, message: Any) -> AsyncGenerator[Any, None]:
        """Call a method that goes on responding; closing the generator ends the call."""
        async with self._newest_stub() as stub:
            with self._translated_errors(method):
                call = getattr(stub, method)(message)
                try:
                    async for response in call:
                        yield response
                finally:
                    call.cancel()

    async def close(self) -> None:
        """Close the connection; calls in flight fail."""
        for channel in {self._channel, *self._calls}:
            await channel.close()

    @contextlib.contextmanager
    def _translated_errors(self, method: str) -> Iterator[None]:
        try:
            yield
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.UNAVAILABLE:
                # The details name another address of the host each time, so that the same trouble
                # would look new at every attempt.
                reason = f"no connection to the controller at {self.address}"
                if self._keys is not None:
                    reason += _tls_problem(error.details() or "")
            else:
                reason = f"{error.code().name}: {error.details()}"
            raise ControllerUnavailableError(f"{method}: {reason}") from error
        except (grpc.aio.UsageError, grpc.aio.InternalError) as error:
            # The channel was closed under the call.
            raise ControllerUnavailableError(f"{method}: {error}") from error
