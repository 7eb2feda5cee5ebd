"""The server's side of TLS on one connection, without a socket: bytes in, bytes out.

    received bytes -> receive -> handshake until `is_open`, then read_into -> plain bytes
    plain bytes    -> write   -> take -> bytes to send

After every call, also one that raises, `take` has what is to be sent: an error leaves the alert
there that tells the client.

The libraries' own layer connects after the handshake only, so that half-open connections would be
in no count, and sends no alert to a client that it refuses.
"""

from __future__ import annotations

import ssl
from typing import cast

from jbodlab.vocabulary.errors import JbodlabError

HANDSHAKE = 0x16
"""Type of a client's first record."""

HANDSHAKE_BYTES_MAX = 128 << 10
"""A client with a chain of certificates sends some KiB."""

_REASONS = {
    "WRONG_VERSION_NUMBER": "not_tls",
    "HTTP_REQUEST": "not_tls",
    "HTTPS_PROXY_REQUEST": "not_tls",
    "UNSUPPORTED_PROTOCOL": "protocol_version",
    "NO_SHARED_CIPHER": "no_shared_cipher",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "no_certificate",
    "CERTIFICATE_VERIFY_FAILED": "certificate",
}


class TlsError(JbodlabError):
    """A connection cannot go on.

    Attributes:
        reason: Kind of the failure, for counting; one of few.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class TlsLayer:
    """TLS of one connection, which owns it.

    Args:
        context: Of the listener.
    """

    __slots__ = ("_first_bytes", "_incoming", "_object", "_outgoing", "has_ended", "is_open")

    def __init__(self, context: ssl.SSLContext) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._object = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._first_bytes = 0
        """How many have come before the end of the handshake."""
        self.is_open = False
        """Whether the handshake is done."""
        self.has_ended = False
        """Whether the client has said that it sends nothing more."""

    def receive(self, data: memoryview) -> None:
        """Take what has come.

        Raises:
            TlsError: it is no TLS, or too much before the end of the handshake.
        """
        if not self.is_open:
            if not self._first_bytes and data[0] != HANDSHAKE:
                raise TlsError("not_tls", f"no TLS: starts with {bytes(data[:8])!r}")
            self._first_bytes += len(data)
            if self._first_bytes > HANDSHAKE_BYTES_MAX:
                raise TlsError("too_large", f"a handshake of over {HANDSHAKE_BYTES_MAX} bytes")
        self._incoming.write(data)

    def handshake(self) -> bool:
        """Go on with the handshake; returns whether it is done.

        Raises:
            TlsError: it failed.
        """
        try:
            self._object.do_handshake()
        except ssl.SSLWantReadError:
            return False
        except ssl.SSLError as error:
            raise _failure(error) from error
        self.is_open = True
        return True

    @property
    def certificate(self) -> bytes | None:
        """The client's certificate in DER; None if it has shown none."""
        return self._object.getpeercert(binary_form=True)

    def read_into(self, buffer: memoryview) -> int:
        """Fill a buffer as far as there are plain bytes; returns how many.

        Raises:
            TlsError: what has come is damaged.
        """
        filled = 0
        try:
            while filled < len(buffer):
                count = self._fill(buffer[filled:])
                if not count:
                    self.has_ended = True
                    break
                filled += count
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            self.has_ended = True
        except ssl.SSLError as error:
            raise _failure(error) from error
        return filled

    def _fill(self, buffer: memoryview) -> int:
        # With a buffer it returns how much it has read; its types do not say so.
        return cast(int, self._object.read(len(buffer), buffer))

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Encrypt; `take` has all of it then.

        Raises:
            TlsError: the connection is broken.
        """
        try:
            self._object.write(data)
        except ssl.SSLError as error:
            raise _failure(error) from error

    def take(self) -> bytes:
        """Return what is to be sent, and forget it."""
        return self._outgoing.read()

    def end(self) -> None:
        """Say that nothing more comes; that of the client is not waited for."""
        try:
            self._object.unwrap()
        except ssl.SSLError:
            # The client has not said so yet, or is broken.
            return


def _failure(error: ssl.SSLError) -> TlsError:
    name = error.reason or type(error).__name__
    told = getattr(error, "verify_message", "") or name.replace("_", " ").lower()
    if "ALERT" in name:
        return TlsError("alert", f"the client sends an alert: {told}")
    return TlsError(_REASONS.get(name, "handshake"), told)
