"""SCRAM: credentials and the server's side of a login.

Source: RFC 5802, RFC 7677 (SCRAM-SHA-256) and, for names that are taken as they are,
`org.apache.kafka.common.security.scram.internals`. Beyond Kafka the server checks the channel
binding of the client's final message, keeps the client's first message as it was received, and lets
the login of an unknown user fail at its end, so that nobody learns which users there are.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, NamedTuple

from jbodlab.vocabulary.errors import AuthenticationError

MIN_ITERATIONS = 4096
MAX_ITERATIONS = 16384
"""Limits of `AlterUserScramCredentials` (KIP-554)."""

MESSAGE_BYTES_MAX = 4096
SERVER_NONCE_BYTES = 24
"""Random bytes of the server's part of the nonce; RFC 5802 asks for 18 and more."""

GS2_HEADER = re.compile(r"n,(?:a=([^,]*))?,")
CLIENT_FIRST = re.compile(r"n=([^,]*),r=([^,]+)((?:,[A-Za-z]+=[^,]*)*)")
CLIENT_FINAL = re.compile(r"(c=([^,]*),r=([^,]*)(?:,[A-Za-z]+=[^,]*)*),p=([^,]*)")
PRINTABLE = re.compile(r"[\x21-\x2b\x2d-\x7e]+")


class ScramMechanism(IntEnum):
    """The mechanisms, under their codes in requests and records (KIP-554)."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def text(self) -> str:
        """Name in the SASL handshake and in settings."""
        return self.name.replace("_", "-")

    @property
    def hash_name(self) -> str:
        """Name of the hash function in `hashlib`."""
        return "sha256" if self is ScramMechanism.SCRAM_SHA_256 else "sha512"

    @property
    def digest_bytes(self) -> int:
        """Length of a key."""
        return hashlib.new(self.hash_name).digest_size

    def hash(self, data: bytes) -> bytes:
        """Return the hash of some bytes."""
        return hashlib.new(self.hash_name, data).digest()

    def mac(self, key: bytes, data: bytes) -> bytes:
        """Return the HMAC of some bytes."""
        return hmac.digest(key, data, self.hash_name)


MECHANISMS: Final[Mapping[str, ScramMechanism]] = {each.text: each for each in ScramMechanism}
"""The mechanisms by their names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramCredential:
    """The server's record of a user's password, for one mechanism.

    A reader of the keys can pose as the server, and with one overheard login as the user.
    """

    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int


def salted_password(
    mechanism: ScramMechanism, password: str, salt: bytes, iterations: int
) -> bytes:
    """Return a password, salted and hashed; takes milliseconds."""
    return hashlib.pbkdf2_hmac(mechanism.hash_name, password.encode(), salt, iterations)


def credential(
    mechanism: ScramMechanism, salted: bytes, salt: bytes, iterations: int
) -> ScramCredential:
    """Return the credential of a salted password (RFC 5802, section 3)."""
    client_key = mechanism.mac(salted, b"Client Key")
    return ScramCredential(
        salt=salt,
        stored_key=mechanism.hash(client_key),
        server_key=mechanism.mac(salted, b"Server Key"),
        iterations=iterations,
    )


SALT_ALPHABET = b"0123456789abcdefghijklmnopqrstuvwxyz"
"""Characters of the salts of Kafka's tools."""


class Shape(NamedTuple):
    """How the credentials of a store look to whoever logs in.

    Attributes:
        iterations: Of the hash.
        salt_bytes: Length of the salt.
        is_text: Whether salts have nothing but `SALT_ALPHABET`, or else any bytes.
    """

    iterations: int = MIN_ITERATIONS
    salt_bytes: int = 26
    is_text: bool = True


def usual_shape(shapes: Iterable[tuple[int, bytes]]) -> Shape:
    """Return what most credentials have, each given by iterations and salt."""
    found = Counter(
        Shape(iterations, len(salt), is_text=not salt.strip(SALT_ALPHABET))
        for iterations, salt in shapes
    )
    return max(found, key=lambda shape: (found[shape], shape), default=Shape())


def _usual(_: ScramMechanism) -> Shape:
    return Shape()


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoys:
    """Credentials for users that do not exist, each the same at every login.

    Attributes:
        secret: Known to the brokers only, and the same on all of them.
        shape: Tells what real users have.
    """

    secret: bytes = field(repr=False)
    shape: Callable[[ScramMechanism], Shape] = _usual

    def credential(self, mechanism: ScramMechanism, user: str) -> ScramCredential:
        """Return a credential that no password fits, and that looks like those of real users."""
        shape = self.shape(mechanism)
        drawn = hashlib.shake_256(self.secret + bytes([mechanism]) + user.encode())
        salt = drawn.digest(shape.salt_bytes)
        if shape.is_text:
            salt = bytes(SALT_ALPHABET[each % len(SALT_ALPHABET)] for each in salt)
        keys = hashlib.shake_256(b"keys" + drawn.digest(64)).digest(2 * mechanism.digest_bytes)
        return ScramCredential(
            salt=salt,
            stored_key=keys[: mechanism.digest_bytes],
            server_key=keys[mechanism.digest_bytes :],
            iterations=shape.iterations,
        )


Find = Callable[[ScramMechanism, str], ScramCredential | None]
"""Returns the credential of a user; None if there is none."""


class ScramServer:
    """The server's side of one login: two messages of the client, two answers.

    Args:
        mechanism: The mechanism.
        find: Looks up the user.
        decoys: In place of what is not found.
        random_bytes: Draws the server's part of the nonce.
    """

    def __init__(
        self,
        mechanism: ScramMechanism,
        find: Find,
        decoys: Decoys,
        random_bytes: Callable[[int], bytes],
    ) -> None:
        self._mechanism = mechanism
        self._find = find
        self._decoys = decoys
        self._random_bytes = random_bytes
        self._first: _First | None = None
        self._has_ended = False
        self.user = ""
        """The user, once the login has succeeded."""
        self.lifetime_s = float("inf")

    def answer(self, token: bytes) -> bytes:
        """Return the answer to the client's next message; `user` is set by the last one.

        Raises:
            AuthenticationError: the login failed; the text is for the log, not for the client.
        """
        if self._has_ended:
            raise AuthenticationError("a message after the end of the login")
        if len(token) > MESSAGE_BYTES_MAX:
            raise AuthenticationError(f"a message of {len(token)} bytes")
        try:
            text = token.decode()
        except UnicodeDecodeError:
            raise AuthenticationError("a message that is not UTF-8") from None
        if self._first is None:
            self._first = self._begin(text)
            return self._first.server_first.encode()
        return self._end(self._first, text)

    def _begin(self, text: str) -> _First:
        header = GS2_HEADER.match(text)
        if header is None:
            raise AuthenticationError("a client-first-message without the header n,,")
        bare = text[header.end() :]
        found = CLIENT_FIRST.fullmatch(bare)
        if found is None:
            raise AuthenticationError("a client-first-message that is not n=USER,r=NONCE")
        user, nonce = _unescaped(found[1]), found[2]
        if not PRINTABLE.fullmatch(nonce):
            raise AuthenticationError("a nonce that is not printable")
        if header[1] and _unescaped(header[1]) != user:
            raise AuthenticationError(f"user {user} asks to be another one")
        if ",m=" in found[3]:
            raise AuthenticationError("a mandatory extension, m=")
        if ",tokenauth=true" in found[3]:
            raise AuthenticationError("delegation tokens are not supported")
        known = self._find(self._mechanism, user)
        stored = known or self._decoys.credential(self._mechanism, user)
        nonce += base64.b64encode(self._random_bytes(SERVER_NONCE_BYTES)).decode()
        salt = base64.b64encode(stored.salt).decode()
        return _First(
            user=user,
            is_known=known is not None,
            gs2_header=header[0],
            bare=bare,
            nonce=nonce,
            server_first=f"r={nonce},s={salt},i={stored.iterations}",
            credential=stored,
        )

    def _end(self, first: _First, text: str) -> bytes:
        # There is one attempt for each nonce.
        self._has_ended = True
        found = CLIENT_FINAL.fullmatch(text)
        if found is None:
            raise AuthenticationError("a client-final-message that is not c=...,r=NONCE,p=PROOF")
        without_proof, binding, nonce, proof_text = found.groups()
        expected = base64.b64encode(first.gs2_header.encode()).decode()
        if not hmac.compare_digest(binding.encode(), expected.encode()):
            raise AuthenticationError("the channel binding is not that of the first message")
        if not hmac.compare_digest(nonce.encode(), first.nonce.encode()):
            raise AuthenticationError("the nonce is not that of this login")
        mechanism, stored = self._mechanism, first.credential
        message = f"{first.bare},{first.server_first},{without_proof}".encode()
        proof = _proof(proof_text, mechanism.digest_bytes)
        signature = mechanism.mac(stored.stored_key, message)
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        is_proved = hmac.compare_digest(mechanism.hash(client_key), stored.stored_key)
        if not (is_proved and first.is_known):
            raise AuthenticationError(f"wrong password of {first.user}, or there is no such user")
        now = self._find(mechanism, first.user)
        if now is None or not hmac.compare_digest(now.stored_key, stored.stored_key):
            raise AuthenticationError(f"the credential of {first.user} has changed meanwhile")
        self.user = first.user
        server_signature = base64.b64encode(mechanism.mac(stored.server_key, message))
        return b"v=" + server_signature


@dataclass(frozen=True, slots=True, kw_only=True)
class _First:
    """Values that the first pair of messages has fixed."""

    user: str
    is_known: bool
    gs2_header: str
    bare: str
    """The client's message behind its header, as it was received."""
    nonce: str
    server_first: str
    credential: ScramCredential


def _proof(text: str, length: int) -> bytes:
    try:
        proof = base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        raise AuthenticationError("a proof that is not base64") from None
    if len(proof) != length:
        raise AuthenticationError(f"a proof of {len(proof)} bytes, expected {length}")
    return proof


def _unescaped(name: str) -> str:
    """Return a user's name: RFC 5802 writes `,` as `=2C` and `=` as `=3D`."""
    if re.search("=(?!2C|3D)", name):
        raise AuthenticationError("a name with = that is neither =2C nor =3D")
    if not name:
        raise AuthenticationError("an empty name")
    return name.replace("=2C", ",").replace("=3D", "=")
