"""PLAIN: the server's side of a login (RFC 4616).

Source: `org.apache.kafka.common.security.plain.internals.PlainSaslServer`.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping

from jbodlab.security.secret import Secret
from jbodlab.vocabulary.errors import AuthenticationError

PLAIN = "PLAIN"
"""Name of the mechanism."""

USER_BYTES_MAX = 255
PASSWORD_BYTES_MAX = 1024
PARTS = 3


class PlainServer:
    """One login: the client sends one token, the answer to which is empty.

    Args:
        users: The passwords.
    """

    def __init__(self, users: Mapping[str, Secret[str]]) -> None:
        self._users = users
        self._has_ended = False
        self.user = ""
        """The user, once the login has succeeded."""
        self.lifetime_s = float("inf")

    def answer(self, token: bytes) -> bytes:
        """Check a token: authorization id, user and password, between them a NUL.

        Raises:
            AuthenticationError: the login failed; the text is for the log, not for the client.
        """
        if self._has_ended:
            raise AuthenticationError("a message after the end of the login")
        self._has_ended = True
        parts = token.split(b"\0")
        if len(parts) != PARTS:
            raise AuthenticationError(f"a token of {len(parts)} parts, expected {PARTS}")
        authorization, name, password = parts
        if not name or not password:
            raise AuthenticationError("a token without a user or without a password")
        if len(name) > USER_BYTES_MAX or len(password) > PASSWORD_BYTES_MAX:
            raise AuthenticationError("a user or password that is too long")
        try:
            user = name.decode()
            password.decode()
        except UnicodeDecodeError:
            raise AuthenticationError("a token that is not UTF-8") from None
        if authorization not in (b"", name):
            raise AuthenticationError(f"user {user} asks to be another one")
        expected = self._users.get(user)
        # An unknown user takes as long as a wrong password, which has no NUL.
        wanted = bytes(len(password)) if expected is None else expected.reveal().encode()
        if not hmac.compare_digest(password, wanted):
            raise AuthenticationError(f"wrong password of {user}, or there is no such user")
        self.user = user
        return b""
