"""Serves calls of brokers over gRPC."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import ssl
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import grpc
import grpc.aio
from google.protobuf.message_factory import GetMessageClass

from jbodlab.controller_api.messages import SERVICE
from jbodlab.controller_api.rpc_tls import RpcKeys, RpcPeer, RpcServerTls
from jbodlab.controller_api.transport import (
    HINT,
    OUTCOME_UNKNOWN,
    Refusal,
    RpcRefusedError,
    RpcService,
)
from jbodlab.security.certificate import LATE_S
from jbodlab.vocabulary.endpoint import Endpoint
from jbodlab.vocabulary.errors import ConfigError
from jbodlab.vocabulary.limits import CALLS_MAX

Context = grpc.aio.ServicerContext[Any, Any]

MESSAGE_SIZE_BYTES_MAX = 64 << 20

OPTIONS = (
    ("grpc.max_receive_message_length", MESSAGE_SIZE_BYTES_MAX),
    ("grpc.max_send_message_length", MESSAGE_SIZE_BYTES_MAX),
    # Two controllers must never share a port.
    ("grpc.so_reuseport", 0),
    # Brokers may ping as often as they like.
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 100),
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
)


class GrpcServer:
    """One listener of a controller.

    Args:
        listener: Where to listen.
        tls: Keys of the controller and names of brokers; None where nothing is encrypted.

    Attributes:
        addresses: Addresses that it is bound to, as `host:port` with numeric hosts.

    Raises:
        ConfigError: an address cannot be bound, or the host is unknown.
    """

    def __init__(self, listener: Endpoint, tls: RpcServerTls | None = None) -> None:
        self.addresses = _addresses(listener)
        self._tls = tls
        self._server: grpc.aio.Server

    def bind(self, service: RpcService) -> None:
        """Take the port for a service."""
        self._server = grpc.aio.server(options=OPTIONS, maximum_concurrent_rpcs=CALLS_MAX)
        add_to_server(service, self._server, self._tls)
        credentials = None if self._tls is None else _credentials(self._tls)
        for address in self.addresses:
            _bind(self._server, address, credentials)

    async def start(self) -> None:
        """Answer calls from now on."""
        await self._server.start()

    async def stop(self, grace_s: float | None) -> None:
        """Answer no more; what is in progress gets so much time, None for none."""
        await self._server.stop(grace_s)


def add_to_server(
    service: RpcService, server: grpc.aio.Server, tls: RpcServerTls | None = None
) -> None:
    """Let a server answer the methods of the controller's service.

    Args:
        service: Answers them.
        server: Where they arrive.
        tls: Names of callers and what each may call; None for callers without names.
    """
    handlers = {}
    for method in SERVICE.methods:
        streams = method.server_streaming
        make: Any = (
            grpc.unary_stream_rpc_method_handler if streams else grpc.unary_unary_rpc_method_handler
        )
        handlers[method.name] = make(
            partial(_stream if streams else _unary, service, tls, method.name),
            request_deserializer=GetMessageClass(method.input_type).FromString,
            response_serializer=GetMessageClass(method.output_type).SerializeToString,
        )
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(SERVICE.full_name, handlers),)
    )


async def _unary(
    service: RpcService,
    tls: RpcServerTls | None,
    method: str,
    message: Any,
    context: Context,
) -> Any:
    try:
        _check(tls, method, message, context)
        return await service.unary(method, message)
    except RpcRefusedError as error:
        return await _refuse(context, error)


async def _stream(
    service: RpcService,
    tls: RpcServerTls | None,
    method: str,
    message: Any,
    context: Context,
) -> AsyncIterator[Any]:
    try:
        caller = _check(tls, method, message, context)
        async with contextlib.aclosing(service.stream(method, message)) as responses:
            async for response in _until_expiry(responses, caller, tls):
                yield response
    except RpcRefusedError as error:
        await _refuse(context, error)


async def _refuse(context: Context, error: RpcRefusedError) -> None:
    if error.refusal is not Refusal.NOT_CONTROLLER:
        await context.abort(grpc.StatusCode[error.refusal.name], str(error))
    trailing: list[tuple[str, str | bytes]] = [(HINT, error.hint)]
    if error.is_outcome_unknown:
        trailing.append((OUTCOME_UNKNOWN, "1"))
    await context.abort(grpc.StatusCode.UNAVAILABLE, str(error), tuple(trailing))


async def _until_expiry(
    responses: AsyncIterator[Any], caller: RpcPeer | None, tls: RpcServerTls | None
) -> AsyncIterator[Any]:
    """Yield responses for as long as the certificate of the caller is valid.

    Raises:
        RpcRefusedError: UNAUTHENTICATED, it has expired.
    """
    if caller is None or tls is None:
        async for response in responses:
            yield response
        return
    while True:
        left_s = (caller.until - tls.now()).total_seconds()
        try:
            async with asyncio.timeout(left_s + LATE_S):
                response = await anext(responses)
        except StopAsyncIteration:
            return
        except TimeoutError:
            raise caller.expired() from None
        yield response


def _check(tls: RpcServerTls | None, method: str, message: Any, context: Context) -> RpcPeer | None:
    """Return who calls; None where callers have no names.

    Raises:
        RpcRefusedError: the caller's certificate does not allow its call.
    """
    if tls is None:
        return None
    found = list(context.auth_context().get("x509_pem_cert") or ())
    if not found:
        raise RpcRefusedError(Refusal.UNAUTHENTICATED, "the caller has shown no certificate")
    der = ssl.PEM_cert_to_DER_cert(bytes(found[0]).decode())
    return tls.admitted(der, method, message)


def _credentials(tls: RpcServerTls) -> grpc.ServerCredentials:
    """Return what a port needs; each new connection gets the keys that are in use by then."""

    def configuration(keys: RpcKeys) -> grpc.ServerCertificateConfiguration:
        pair = (keys.key.reveal(), keys.chain)
        return grpc.ssl_server_certificate_configuration([pair], root_certificates=keys.roots)

    return grpc.dynamic_ssl_server_credentials(
        configuration(tls.keys()),
        lambda: configuration(tls.keys()),
        require_client_authentication=True,
    )


def _addresses(listener: Endpoint) -> list[str]:
    """Return what to bind for a listener, as `host:port` with numeric hosts.

    Each address is tried here, because gRPC is content when one of several can be bound, and does
    not say what is wrong with the others.

    Raises:
        ConfigError: an address cannot be bound, or the host is unknown.
    """
    host = listener.host or "0.0.0.0"
    where = f"{listener.name}://{listener.host}:{listener.port}"
    try:
        found = socket.getaddrinfo(
            host, listener.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except OSError as error:
        raise ConfigError("listeners", where, f"unknown host: {error}") from error
    addresses = []
    for family, _, _, _, address in found:
        try:
            _try(family, address)
        except OSError as error:
            if error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT) and len(found) > 1:
                # A name may have an address that this machine has not, such as ::1.
                continue
            raise ConfigError("listeners", where, f"cannot be bound: {error}") from error
        numeric = f"[{address[0]}]" if family == socket.AF_INET6 else str(address[0])
        if f"{numeric}:{listener.port}" not in addresses:
            addresses.append(f"{numeric}:{listener.port}")
    if not addresses:
        raise ConfigError("listeners", where, "no address of the host can be bound")
    return addresses


def _try(family: int, address: Any) -> None:
    with contextlib.closing(socket.socket(family, socket.SOCK_STREAM)) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        probe.bind(address)


def _bind(
    server: grpc.aio.Server, address: str, credentials: grpc.ServerCredentials | None
) -> None:
    try:
        if credentials is None:
            port = server.add_insecure_port(address)
        else:
            port = server.add_secure_port(address, credentials)
    except RuntimeError as error:
        raise ConfigError("listeners", address, f"cannot be bound: {error}") from error
    if port == 0:
        raise ConfigError("listeners", address, "cannot be bound")
