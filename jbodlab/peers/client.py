"""A small asyncio client of the Kafka protocol: one connection, responses in request order.

Brokers fetch from each other with it. Responses are matched by correlation id. Any error of the
bytes, the deadline or the socket closes the connection, because later responses could not be
matched any more.
"""

from __future__ import annotations

import asyncio
import base64
import datetime
import ssl
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self, cast

from jbodlab.kafka_wire.api_table import (
    ApiKey,
    request_class,
    request_encoder,
    response_reader,
)
from jbodlab.kafka_wire.framing import MAX_FRAME_BYTES, SIZE, FrameDecoder
from jbodlab.kafka_wire.headers import read_response_header, request_header
from jbodlab.peers.client_security import ClientSecurity, Login, is_refusal, tls_problem
from jbodlab.runtime import tcp
from jbodlab.security import certificate
from jbodlab.security.plain import PLAIN
from jbodlab.security.scram import MECHANISMS
from jbodlab.security.scram_client import ScramClient
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import AuthenticationError, DecodeError
from jbodlab.vocabulary.limits import PEER_TIMEOUT_S

LAST_CORRELATION_ID = (1 << 31) - 1
NONCE_BYTES = 24
VERSIONS_VERSION = 3
"""Of the question which versions there are: each release since Apache Kafka 2.4 serves it."""
RENEWAL_SHARE = 0.85
"""Part of a login's time after which the next call renews it, as Kafka's clients do."""


class PeerRefusedError(ConnectionRefusedError):
    """One side does not know the other: its certificate is not trusted, or its login is refused."""


class KafkaConnection:
    """A connection to one broker."""

    def __init__(
        self, protocol: _ClientProtocol, client_id: str, tls: ssl.SSLContext | None = None
    ) -> None:
        self.tls = tls
        """Context of its encryption; None where there is none."""
        self._protocol = protocol
        self._client_id = client_id
        self._correlation_id = 0
        self._versions: Mapping[int, range] | None = None
        """None before it was asked."""
        self._session: _LoginSession | None = None
        """The login, where it does not hold for ever."""

    @classmethod
    async def open(
        cls,
        host: str,
        port: int,
        *,
        client_id: str,
        timeout_s: float,
        max_response_bytes: int = MAX_FRAME_BYTES,
        security: ClientSecurity | None = None,
    ) -> Self:
        """Connect, and log in where that is asked for.

        Args:
            host: Name or address; a certificate of the broker has to name it.
            port: Its port.
            client_id: Client id, as this client names itself.
            timeout_s: Longest wait.
            max_response_bytes: Of one response; more closes the connection.
            security: How to encrypt and to log in; None for neither.

        Raises:
            TimeoutError: no connection within `timeout_s` seconds.
            PeerRefusedError: one side does not know the other, or its certificate has expired.
            ConnectionError: refused, or the address does not answer.
            DecodeError: what answers there does not speak the protocol.
        """
        loop = asyncio.get_running_loop()
        tls = None if security is None or security.tls is None else security.tls()
        try:
            async with asyncio.timeout(timeout_s):
                transport, protocol = await loop.create_connection(
                    lambda: _ClientProtocol(max_response_bytes),
                    host,
                    port,
                    ssl=tls,
                    server_hostname=None if tls is None else host,
                )
                connection = cls(protocol, client_id, tls)
                if tls is not None and security is not None and security.now is not None:
                    protocol.end_at_expiry(transport.get_extra_info("ssl_object"), security.now())
                if security is not None and security.login is not None:
                    await connection.log_in(security.login, security.random_bytes)
                return connection
        except (ConnectionError, TimeoutError):
            raise
        except ssl.SSLError as error:
            problem = tls_problem(error)
            kind = PeerRefusedError if is_refusal(error) else ConnectionError
            raise kind(f"cannot connect to {host}:{port}: {problem}") from error
        except AuthenticationError as error:
            raise PeerRefusedError(f"cannot log in at {host}:{port}: {error}") from error
        except OSError as error:
            raise ConnectionError(f"cannot connect to {host}:{port}: {error}") from error

    async def versions(self, timeout_s: float = PEER_TIMEOUT_S) -> Mapping[int, range]:
        """Return the versions of requests that the other side serves, by API; it is asked once.

        Raises:
            DecodeError: it is older than what is supported, or as `exchange`.
            TimeoutError, ConnectionError: as `exchange`.
        """
        if self._versions is None:
            sent = request_class(ApiKey.API_VERSIONS, VERSIONS_VERSION)(
                client_software_name="jbodlab", client_software_version="0"
            )
            answer = await self.call(ApiKey.API_VERSIONS, VERSIONS_VERSION, sent, timeout_s)
            if int(answer.error_code):
                raise DecodeError("it is older than any Kafka broker that is supported")
            self._versions = {
                int(one.api_key): range(int(one.min_version), int(one.max_version) + 1)
                for one in answer.api_keys
            }
        return self._versions

    @property
    def is_open(self) -> bool:
        """Whether requests can still be sent."""
        return self._protocol.failure is None

    async def call(
        self,
        api_key: int,
        version: int,
        entity: Any,
        timeout_s: float = PEER_TIMEOUT_S,
        client_id: str | None = None,
    ) -> Any:
        """Send a request and return the kio entity of its response; see `exchange`."""
        if self._session is not None:
            await self._session.renew(self)
        sent: list[bytes] = []
        request_encoder(api_key, version)(entity, sent.append)
        body = await self.exchange(api_key, version, sent, timeout_s, client_id)
        return self._decoded(api_key, version, body)

    def _decoded(self, api_key: int, version: int, body: memoryview) -> Any:
        try:
            response, _ = response_reader(api_key, version)(body, 0)
        except DecodeError:
            self.close()
            raise
        return response

    async def log_in(self, login: Login, random_bytes: Callable[[int], bytes]) -> None:
        """Log in, at first or again (KIP-368); no other call may be in progress.

        Raises:
            AuthenticationError: the broker refuses the login.
            TimeoutError, ConnectionError, DecodeError: as `exchange`.
        """
        try:
            lifetime_s = await self._log_in(login, random_bytes)
        except AuthenticationError:
            self.close()
            raise
        if lifetime_s:
            end_s = asyncio.get_running_loop().time() + RENEWAL_SHARE * lifetime_s
            self._session = _LoginSession(login, random_bytes, end_s)

    async def _log_in(self, login: Login, random_bytes: Callable[[int], bytes]) -> float:
        handshake = request_class(ApiKey.SASL_HANDSHAKE, 1)
        answer = await self._ask(ApiKey.SASL_HANDSHAKE, 1, handshake(mechanism=login.mechanism))
        if int(answer.error_code):
            raise AuthenticationError(
                f"{ErrorCode(int(answer.error_code)).name}: sasl.mechanism is {login.mechanism}, "
                f"the broker has {', '.join(answer.mechanisms) or 'none'}"
            )
        if login.mechanism == PLAIN:
            password = login.password.reveal()
            _, lifetime_s = await self._send_token(login, f"\0{login.user}\0{password}".encode())
            return lifetime_s
        nonce = base64.b64encode(random_bytes(NONCE_BYTES)).decode()
        client = ScramClient(MECHANISMS[login.mechanism], login.user, login.password, nonce)
        answer, _ = await self._send_token(login, client.first())
        answer, lifetime_s = await self._send_token(login, client.final(answer))
        client.check(answer)
        return lifetime_s

    async def _send_token(self, login: Login, token: bytes) -> tuple[bytes, float]:
        """Send a token; returns the answer, and how many seconds the login holds, 0 for ever."""
        authenticate = request_class(ApiKey.SASL_AUTHENTICATE, 1)
        answer = await self._ask(ApiKey.SASL_AUTHENTICATE, 1, authenticate(auth_bytes=token))
        if int(answer.error_code):
            reason = answer.error_message or ErrorCode(int(answer.error_code)).name
            raise AuthenticationError(f"{reason} (user {login.user}, {login.mechanism})")
        return answer.auth_bytes, answer.session_lifetime.total_seconds()

    async def _ask(self, api_key: int, version: int, entity: Any) -> Any:
        body: list[bytes] = []
        request_encoder(api_key, version)(entity, body.append)
        frame = await self.exchange(api_key, version, body)
        return self._decoded(api_key, version, frame)

    async def exchange(
        self,
        api_key: int,
        version: int,
        body: Sequence[bytes],
        timeout_s: float = PEER_TIMEOUT_S,
        client_id: str | None = None,
    ) -> memoryview:
        """Send a request body and return the body of the response, read-only.

        Args:
            api_key: Which API.
            version: Of the request.
            body: Its pieces.
            timeout_s: Longest wait.
            client_id: Client id in this request; None for the client's own.

        Raises:
            TimeoutError: no response within `timeout_s` seconds.
            PeerRefusedError: the broker has refused the certificate of this client.
            ConnectionError: the connection is closed, or was while waiting.
            DecodeError: the response is too large, or belongs to no request.
        """
        self._correlation_id = self._correlation_id % LAST_CORRELATION_ID + 1
        sent = self._correlation_id
        head = request_header(
            api_key, version, sent, self._client_id if client_id is None else client_id
        )
        size = len(head) + sum(map(len, body))
        try:
            frame = await self._protocol.exchange([SIZE.pack(size) + head, *body], timeout_s)
            correlation_id, position = read_response_header(frame, api_key, version)
            if correlation_id != sent:
                raise DecodeError(
                    f"expected a response to request {sent}, got one to request {correlation_id}"
                )
        except (TimeoutError, DecodeError, asyncio.CancelledError):
            self.close()
            raise
        return frame[position:]

    def close(self) -> None:
        """Close the connection; a call that waits ends with ConnectionError."""
        self._protocol.close(ConnectionAbortedError("the connection was closed"))


class _LoginSession:
    """A login that ends: the next call after most of its time logs in again first."""

    def __init__(self, login: Login, random_bytes: Callable[[int], bytes], renew_s: float) -> None:
        self._login = login
        self._random_bytes = random_bytes
        self._renew_s = renew_s
        self._lock = asyncio.Lock()

    async def renew(self, connection: KafkaConnection) -> None:
        """Log in again if it is time; other calls wait for that."""
        if asyncio.get_running_loop().time() < self._renew_s:
            return
        async with self._lock:
            if asyncio.get_running_loop().time() < self._renew_s:
                return
            try:
                await connection.log_in(self._login, self._random_bytes)
            except AuthenticationError as error:
                raise PeerRefusedError(f"cannot log in again: {error}") from error
            self._renew_s = float("inf")


class _ClientProtocol(asyncio.BufferedProtocol):
    """The socket's side: frames to the one call that waits."""

    def __init__(self, max_response_bytes: int) -> None:
        self._decoder = FrameDecoder(max_frame_bytes=max_response_bytes)
        self._transport: asyncio.Transport | None = None
        self._waiting: deque[asyncio.Future[memoryview]] = deque()
        self._expiry: asyncio.TimerHandle | None = None
        self.failure: Exception | None = None
        """Why nothing more can be sent; None while the connection is open."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        tcp.set_up(transport)

    def end_at_expiry(self, shown: ssl.SSLObject, now: datetime.datetime) -> None:
        """Close when the certificate that the other side has shown expires.

        Raises:
            PeerRefusedError: it has expired.
        """
        der = shown.getpeercert(binary_form=True)
        assert der is not None
        expired = PeerRefusedError("its certificate has expired")
        left_s = certificate.read(der).seconds_left(now)
        if left_s <= 0:
            self.close(expired)
            raise expired
        self._expiry = asyncio.get_running_loop().call_later(left_s, self.close, expired)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._decoder.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        if self.failure is not None:
            return
        try:
            for frame in self._decoder.received(nbytes):
                if not self._waiting or self._waiting[0].done():
                    raise DecodeError("the broker sent a response without a request")
                self._waiting.popleft().set_result(frame)
        except DecodeError as error:
            self.close(error)

    def connection_lost(self, exc: Exception | None) -> None:
        self.close(exc or ConnectionResetError("the broker closed the connection"))

    async def exchange(self, frame: Sequence[bytes], timeout_s: float) -> memoryview:
        """Send one request and wait for the frame that answers it; raises TimeoutError."""
        if self.failure is not None:
            raise self._as_raised()
        assert self._transport is not None
        loop = asyncio.get_running_loop()
        waiting: asyncio.Future[memoryview] = loop.create_future()
        self._waiting.append(waiting)
        self._transport.writelines(frame)
        timer = loop.call_later(timeout_s, _time_out, waiting)
        try:
            return await waiting
        finally:
            timer.cancel()

    def close(self, failure: Exception) -> None:
        if self.failure is None:
            self.failure = failure
        if self._expiry is not None:
            self._expiry.cancel()
        if self._transport is not None:
            self._transport.abort()
        abandoned, self._waiting = self._waiting, deque()
        for waiting in abandoned:
            if not waiting.done():
                waiting.set_exception(self._as_raised())
                # A call that Ctrl-C has ended does not wait any more, and asyncio would complain.
                waiting.exception()

    def _as_raised(self) -> Exception:
        if isinstance(self.failure, (ConnectionError, DecodeError)):
            return self.failure
        if isinstance(self.failure, ssl.SSLError) and is_refusal(self.failure):
            # A refusal of TLS 1.3 arrives only when the handshake is over for the client.
            return PeerRefusedError(tls_problem(self.failure))
        return ConnectionResetError(f"the connection failed: {self.failure}")


def _time_out(waiting: asyncio.Future[memoryview]) -> None:
    if not waiting.done():
        waiting.set_exception(TimeoutError())
