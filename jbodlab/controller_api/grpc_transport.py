"""Calls to the controller over gRPC.

A controller that comes back after a restart is found within half a second, because the pause
between two attempts to connect stays that short; a call made while there is no connection fails at
once. No gRPC error gets past this module.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Any

import grpc
import grpc.aio
from google.protobuf.message_factory import GetMessageClass

from jbodlab.controller_api.messages import SERVICE
from jbodlab.controller_api.rpc_tls import RpcKeys
from jbodlab.controller_api.transport import HINT, OUTCOME_UNKNOWN, NotControllerError
from jbodlab.vocabulary.errors import ControllerUnavailableError

MESSAGE_SIZE_BYTES_MAX = 64 * 1024 * 1024
RECONNECT_BACKOFF_MS = 50
RECONNECT_BACKOFF_MS_MAX = 500
CONNECT_TIMEOUT_MS = 2_000
"""Longest time for one attempt to connect. A busy machine takes long to accept a connection, and a
shorter time would end each attempt; after a longer one the system would say less often to a machine
that is back that somebody wants a connection."""
REFUSED_S, REFUSED_S_MAX = 1.0, 4.0
"""First and longest pause after a refusal. The controller may have another certificate by then, and
a broker has to reach it within half a session."""

OPTIONS = (
    ("grpc.max_receive_message_length", MESSAGE_SIZE_BYTES_MAX),
    ("grpc.max_send_message_length", MESSAGE_SIZE_BYTES_MAX),
    ("grpc.initial_reconnect_backoff_ms", RECONNECT_BACKOFF_MS),
    # In spite of its name no pause.
    ("grpc.min_reconnect_backoff_ms", CONNECT_TIMEOUT_MS),
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


CLOSED = "Socket closed"
"""All that gRPC tells of a handshake that the other side has ended, and of a lost connection."""


NOT_CONNECTED = "failed to connect"
"""How gRPC begins to say that a call has not left, as nobody can be reached."""


def channel_credentials(keys: RpcKeys) -> grpc.ChannelCredentials:
    """Return what a channel needs to call a controller with certificates."""
    return grpc.ssl_channel_credentials(
        root_certificates=keys.roots,
        private_key=keys.key.reveal(),
        certificate_chain=keys.chain,
    )


def _tls_problem(details: str) -> str:
    """Return what is wrong with certificates; empty if nothing is known of it."""
    if "Hostname Verification" in details:
        return ": its certificate does not name that host"
    if "CERTIFICATE_VERIFY_FAILED" in details:
        return ": its certificate is not trusted"
    if CLOSED in details:
        return ": it closed the connection; it may refuse the certificate of this broker"
    return ""


class GrpcTransport:
    """A channel to the controller; made and used on a running event loop.

    A controller that refuses the certificate, or shows one that is not trusted, is left alone for a
    second, then for twice as long each time, up to 4 s; calls fail meanwhile as the last one did.
    New keys are tried at once.

    Args:
        address: `host:port` of the controller.
        keys: Returns the keys of a new channel; None where nothing is encrypted.
    """

    def __init__(self, address: str, keys: Callable[[], RpcKeys] | None = None) -> None:
        self.address = address
        self._keys = keys
        self._refusal = ""
        """Why the channel is of no use; empty while it is."""
        self._pause_s = 0.0
        self._again_s = 0.0
        """When another channel may be tried, on the clock of the loop."""
        self._is_closed = False
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
        self._is_connected = False
        """Whether the controller has answered since it was connected to last."""

    async def _renew_channel(self) -> None:
        """Open a channel with the newest keys, as each keeps those that it was made with.

        One that is old or was refused is closed after its last call, as it would go on to connect.

        Raises:
            ControllerUnavailableError: the controller has refused the keys, and is left alone.
        """
        if self._keys is None:
            return
        if self._keys() is not self._made_of:
            self._pause_s = self._again_s = 0.0
        elif not self._refusal:
            return
        if asyncio.get_running_loop().time() < self._again_s:
            raise ControllerUnavailableError(self._refusal, is_outcome_unknown=False)
        old, self._refusal = self._channel, ""
        self._open()
        if not self._calls[old]:
            await old.close()

    @contextlib.asynccontextmanager
    async def _newest_stub(self, method: str) -> AsyncIterator[ControllerStub]:
        """Yield a stub; errors of its calls are translated."""
        await self._renew_channel()
        channel = self._channel
        self._calls[channel] += 1
        try:
            yield self._stub
        except grpc.aio.AioRpcError as error:
            raise self._translated(error, method, channel) from error
        except (grpc.aio.UsageError, grpc.aio.InternalError) as error:
            # The channel was closed under the call.
            raise ControllerUnavailableError(f"{method}: {error}") from error
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if not self._is_closed or (task is not None and task.cancelling()):
                raise
            # gRPC cancels the calls of a channel that is closed; the task goes on.
            raise ControllerUnavailableError(f"{method}: the connection was closed") from error
        finally:
            self._calls[channel] -= 1
            if not self._calls[channel]:
                del self._calls[channel]
                if channel is not self._channel or self._refusal:
                    await channel.close()

    async def unary(self, method: str, message: Any, timeout_s: float) -> Any:
        """Call a method; returns its response."""
        async with self._newest_stub(method) as stub:
            response = await getattr(stub, method)(message, timeout=timeout_s)
            self._answered()
            return response

    async def stream(self, method: str, message: Any) -> AsyncGenerator[Any, None]:
        """Call a method that goes on responding; closing the generator ends the call."""
        async with self._newest_stub(method) as stub:
            call = getattr(stub, method)(message)
            try:
                async for response in call:
                    self._answered()
                    yield response
            finally:
                call.cancel()

    async def close(self) -> None:
        """Close the connection; calls in flight fail."""
        self._is_closed = True
        for channel in {self._channel, *self._calls}:
            await channel.close()

    def _answered(self) -> None:
        self._is_connected = True
        self._pause_s = 0.0

    def _translated(
        self, error: grpc.aio.AioRpcError, method: str, channel: grpc.aio.Channel
    ) -> ControllerUnavailableError:
        details, problem = error.details() or "", ""
        trailing = dict(error.trailing_metadata() or ())
        if HINT in trailing:
            self._answered()
            return NotControllerError(
                f"{method}: {details}",
                is_outcome_unknown=OUTCOME_UNKNOWN in trailing,
                hint=bytes(trailing[HINT]),
            )
        if error.code() is grpc.StatusCode.UNAVAILABLE:
            # The details name another address of the host each time, so that the same trouble
            # would look new at every attempt.
            reason = f"no connection to the controller at {self.address}"
            if self._keys is not None:
                problem = _tls_problem(details)
            reason += problem
        else:
            reason = f"{error.code().name}: {details}"
        text = f"{method}: {reason}"
        if channel is self._channel and self._is_refusal(error.code(), details, problem):
            self._leave_alone(text)
        return ControllerUnavailableError(text, is_outcome_unknown=NOT_CONNECTED not in details)

    def _is_refusal(self, code: grpc.StatusCode, details: str, problem: str) -> bool:
        if CLOSED in details and self._is_connected:
            # A connection that was made is lost, which is no refusal; the next failure is one.
            self._is_connected = False
            return False
        return bool(problem) or code is grpc.StatusCode.UNAUTHENTICATED

    def _leave_alone(self, refusal: str) -> None:
        """Begin a pause; what else was in progress on the same channel does not lengthen it."""
        if not self._refusal:
            self._refusal = refusal
            self._pause_s = min(REFUSED_S_MAX, max(REFUSED_S, 2 * self._pause_s))
            self._again_s = asyncio.get_running_loop().time() + self._pause_s
