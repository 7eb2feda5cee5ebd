"""SCRAM: the client's side of a login (RFC 5802)."""

from __future__ import annotations

import base64
import binascii
import hmac
import re

from jbodlab.security.scram import MAX_ITERATIONS, ScramMechanism, salted_password
from jbodlab.security.secret import Secret
from jbodlab.vocabulary.errors import AuthenticationError

SERVER_FIRST = re.compile(r"r=([^,]+),s=([^,]+),i=([0-9]{1,9})(?:,.*)?")
GS2_HEADER = "n,,"

ITERATIONS_MAX = 64 * MAX_ITERATIONS
"""A server that asks for more would keep its clients busy for seconds."""


class ScramClient:
    """One login: two messages to the server, each with an answer.

    Args:
        mechanism: The mechanism.
        user: The user.
        password: The password.
        nonce: Printable, without commas, and new for each login.
    """

    def __init__(
        self, mechanism: ScramMechanism, user: str, password: Secret[str], nonce: str
    ) -> None:
        self._mechanism = mechanism
        self._password = password
        self._nonce = nonce
        name = user.replace("=", "=3D").replace(",", "=2C")
        self._bare = f"n={name},r={nonce}"
        self._signature = b""

    def first(self) -> bytes:
        """Return the first message."""
        return f"{GS2_HEADER}{self._bare}".encode()

    def final(self, answer: bytes) -> bytes:
        """Return the second message, for the answer to the first one.

        Raises:
            AuthenticationError: the answer is none to it.
        """
        text = answer.decode(errors="replace")
        found = SERVER_FIRST.fullmatch(text)
        if found is None or not found[1].startswith(self._nonce) or found[1] == self._nonce:
            raise AuthenticationError("the server's first message does not belong to this login")
        iterations = int(found[3])
        if not 0 < iterations <= ITERATIONS_MAX:
            raise AuthenticationError(f"the server asks for {iterations} iterations")
        try:
            salt = base64.b64decode(found[2], validate=True)
        except (ValueError, binascii.Error):
            raise AuthenticationError("the server's salt is not base64") from None
        mechanism = self._mechanism
        salted = salted_password(mechanism, self._password.reveal(), salt, iterations)
        client_key = mechanism.mac(salted, b"Client Key")
        binding = base64.b64encode(GS2_HEADER.encode()).decode()
        without_proof = f"c={binding},r={found[1]}"
        message = f"{self._bare},{text},{without_proof}".encode()
        signature = mechanism.mac(mechanism.hash(client_key), message)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        self._signature = mechanism.mac(mechanism.mac(salted, b"Server Key"), message)
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def check(self, answer: bytes) -> None:
        """Check that the server knows the user, too.

        Raises:
            AuthenticationError: it does not.
        """
        expected = b"v=" + base64.b64encode(self._signature)
        if not self._signature or not hmac.compare_digest(answer.partition(b",")[0], expected):
            raise AuthenticationError("the server does not prove that it knows the user")
