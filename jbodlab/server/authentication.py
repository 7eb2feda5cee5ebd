"""Logging in on a connection: which requests a client may send before it has, and whose they are.

The states are those of `org.apache.kafka.common.security.authenticator.SaslServerAuthenticator`
(KIP-43, KIP-152, KIP-368); nothing here touches a socket or a clock.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Protocol

import msgspec

from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.security.oauthbearer import OAUTHBEARER
from jbodlab.security.plain import PLAIN, PlainServer
from jbodlab.security.scram import MECHANISMS, Decoys, Find, ScramServer
from jbodlab.security.secret import Secret
from jbodlab.server.listener_counts import (
    FAILURE,
    NO_MECHANISM,
    SUCCESS,
    ListenerCounts,
    LoginKind,
)
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import AuthenticationError, CloseConnectionError, KafkaError

logger = logging.getLogger(__name__)

TOKENS_MAX = 4
API_VERSIONS_MAX = 4
"""Requests of a client that has not logged in."""

REAUTHENTICATION_S_MIN = 1.0
"""Shortest time between two renewals of a connection; the first may come at once (KafkaChannel)."""


class LoginSession(Protocol):
    """The session of a connection, as far as a failed login goes."""

    peer: str
    listener_name: str
    closes: bool
    authentication: Authentication | None


class Exchange(Protocol):
    """One login."""

    user: str
    """The user, once the login has succeeded."""
    lifetime_s: float
    """How long what the user has shown is good."""

    def answer(self, token: bytes) -> bytes:
        """Return the answer to a token.

        Raises:
            AuthenticationError: the login failed.
        """


class SaslSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How clients log in on one listener.

    Attributes:
        mechanisms: Names of those that are enabled.
        passwords: Of the users of PLAIN.
        find: Looks up a user of SCRAM.
        decoys: Stand for unknown users of SCRAM.
        random_bytes: Draws nonces.
        token_login: Begins a login by OAUTHBEARER; None where it is not enabled.
        sessions_s: How long a login holds (`connections.max.reauth.ms`), by its mechanism; for
            ever where it is 0, or not there.
        failure_delay_s: Before the answer to a failed login.
        max_receive_bytes: Largest request before the login.
    """

    mechanisms: tuple[str, ...]
    passwords: Mapping[str, Secret[str]]
    find: Find
    decoys: Decoys
    random_bytes: Callable[[int], bytes]
    token_login: Callable[[], Exchange] | None = None
    sessions_s: Mapping[str, float] = msgspec.field(default_factory=dict)
    failure_delay_s: float = 0.1
    max_receive_bytes: int = 524_288

    def begin(self, mechanism: str) -> Exchange:
        """Return a new login."""
        if mechanism == PLAIN:
            return PlainServer(self.passwords)
        if mechanism == OAUTHBEARER and self.token_login is not None:
            return self.token_login()
        return ScramServer(MECHANISMS[mechanism], self.find, self.decoys, self.random_bytes)


class State(Enum):
    """States of a connection; the value is the message that it waits for."""

    START = "a handshake"
    TOKENS = "tokens in requests"
    RAW_TOKENS = "tokens without requests"
    OPEN = "requests"


class Authentication:
    """The login of one connection, which owns it.

    Args:
        settings: Of the listener.
        opened: Called after the first login.
        counts: Of the listener.
    """

    def __init__(
        self, settings: SaslSettings, opened: Callable[[], None], counts: ListenerCounts
    ) -> None:
        self.settings = settings
        self._counts = counts
        self.state = State.START
        self.mechanism = ""
        """Of the login that goes on, or else of the last one."""
        self.user = ""
        """Name of the user that has logged in."""
        self._opened = opened
        self._exchange: Exchange | None = None
        self._tokens = 0
        self._api_versions = 0
        self._since_s = 0.0
        self._renewed_s = float("-inf")
        self._until_s = float("inf")

    @property
    def takes_raw_tokens(self) -> bool:
        """Whether the next bytes are a token, and no request (after SaslHandshake 0)."""
        return self.state is State.RAW_TOKENS

    @property
    def steps(self) -> int:
        """How many requests of a first login the client has made; there is a limit to each kind."""
        return self._api_versions + (self.state is not State.START) + self._tokens

    def admit(self, api_key: int, now_s: float) -> None:
        """Let a request pass.

        Raises:
            CloseConnectionError: it may not come now, and gets no answer.
            KafkaError: ILLEGAL_SASL_STATE, the answer, after which the connection is closed.
        """
        if self.state is State.OPEN:
            if now_s >= self._until_s and api_key != ApiKey.SASL_HANDSHAKE:
                raise CloseConnectionError(f"the session of {self.user} has ended")
        elif self.state is State.TOKENS:
            if api_key != ApiKey.SASL_AUTHENTICATE:
                raise KafkaError(
                    ErrorCode.ILLEGAL_SASL_STATE, "the login has begun and has not ended"
                )
        elif api_key == ApiKey.API_VERSIONS:
            self._api_versions += 1
            if self._api_versions > API_VERSIONS_MAX:
                raise CloseConnectionError("asks for versions again and again, without logging in")
        elif api_key != ApiKey.SASL_HANDSHAKE:
            raise CloseConnectionError(f"sends API {api_key} before it has logged in")

    def handshake(self, mechanism: str, version: int, now_s: float) -> None:
        """Begin a login.

        Raises:
            KafkaError: UNSUPPORTED_SASL_MECHANISM, or ILLEGAL_SASL_STATE where the connection needs
                no login now and stays open.
            AuthenticationError: an open session may not change its mechanism.
        """
        if self.state is State.OPEN:
            if self._until_s == float("inf"):
                raise KafkaError(ErrorCode.ILLEGAL_SASL_STATE, "the session does not end")
            if now_s - self._renewed_s < REAUTHENTICATION_S_MIN:
                raise KafkaError(ErrorCode.ILLEGAL_SASL_STATE, "the last renewal was just now")
            self._renewed_s = now_s
            if mechanism != self.mechanism:
                raise AuthenticationError(
                    f"{self.user} logs in again by {mechanism}, at first by {self.mechanism}"
                )
        if mechanism not in self.settings.mechanisms:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_SASL_MECHANISM, f"the mechanism {mechanism} is not enabled"
            )
        self.mechanism = mechanism
        self._exchange = self.settings.begin(mechanism)
        self._tokens = 0
        self.state = State.TOKENS if version >= 1 else State.RAW_TOKENS

    def token(self, token: bytes, now_s: float) -> bytes:
        """Take a token; the user has logged in once the state is OPEN.

        Raises:
            AuthenticationError: the login failed.
            KafkaError: ILLEGAL_SASL_STATE, there is no login; the connection stays open.
        """
        if self._exchange is None:
            raise KafkaError(ErrorCode.ILLEGAL_SASL_STATE, "there was no handshake")
        self._tokens += 1
        if self._tokens > TOKENS_MAX:
            raise AuthenticationError(f"more than {TOKENS_MAX} tokens")
        answer = self._exchange.answer(token)
        if self._exchange.user:
            self._open(self._exchange.user, self._exchange.lifetime_s, now_s)
        return answer

    @property
    def lifetime_ms(self) -> int:
        """How long the session lasts from its login on; 0 for ever or if there is none."""
        if self.state is not State.OPEN or self._until_s == float("inf"):
            return 0
        # The difference of two times of the clock has no exact milliseconds.
        return round((self._until_s - self._since_s) * 1000)

    def _open(self, user: str, lifetime_s: float, now_s: float) -> None:
        is_first = not self.user
        if self.user not in ("", user):
            raise AuthenticationError(f"{self.user} logs in again as {user}")
        self._count(SUCCESS)
        self.user = user
        self.state = State.OPEN
        self._exchange = None
        self._since_s = now_s
        session_s = self.settings.sessions_s.get(self.mechanism, 0.0)
        self._until_s = now_s + min(lifetime_s, session_s or float("inf"))
        if is_first:
            self._opened()

    def failed(self, line: tuple[str, str], now_s: float) -> bool:
        """Count a login that has failed; returns whether the log is to tell it, by this line."""
        self._count(FAILURE)
        return self._counts.told.tell(line, now_s)

    def _count(self, result: str) -> None:
        kind = LoginKind(self.mechanism or NO_MECHANISM, result, is_renewal=bool(self.user))
        self._counts.logins[kind] += 1


def refuse(
    session: LoginSession, login: Authentication, error: AuthenticationError, now_s: float
) -> None:
    """Have a connection closed whose login failed, and log why: not again within a minute."""
    session.closes = True
    reason = str(error)
    if login.failed((session.peer.rpartition(":")[0], reason), now_s):
        logger.info(
            "a login failed: %s",
            reason,
            extra={"peer": session.peer, "listener": session.listener_name},
        )
