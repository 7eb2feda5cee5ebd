"""OAUTHBEARER: the server's side of a login by a signed token (RFC 7628, KIP-768).

Sources: `org.apache.kafka.common.security.oauthbearer.internals.OAuthBearerSaslServer`,
`BrokerJwtValidator`. Beyond Kafka, issuer and audience are always checked, and a token without a
signature is never taken.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from jbodlab.vocabulary.errors import AuthenticationError

if TYPE_CHECKING:
    from joserfc.jwk import Key, KeySet
    from joserfc.jwt import Token

OAUTHBEARER = "OAUTHBEARER"
"""Name of the mechanism."""

# Signatures by a key of which this side knows the public half only.
ALGORITHMS = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "Ed25519", "EdDSA"),
)
TOKEN_BYTES_MAX = 65_536
CLIENT_FIRST = re.compile(
    rb"n,(?:a=([^,]*))?,\x01auth=Bearer +([A-Za-z0-9._~+/=-]+)(?:\x01[A-Za-z]+=[^\x01]*)*\x01\x01"
)
INVALID_TOKEN = b'{"status":"invalid_token"}'


class TokenSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Which tokens are good.

    Attributes:
        url: Where the issuer's keys are; of scheme file or https.
        issuer: The issuer that they must name (`iss`).
        audiences: One of these has to be among those that they are for (`aud`).
        subject_claim: The claim that names the user.
        clock_skew_s: By how much the issuer's clock may differ.
        refresh_s: Time between two reads of the keys.
    """

    url: str
    issuer: str
    audiences: tuple[str, ...]
    subject_claim: str
    clock_skew_s: int
    refresh_s: float


def key_set(text: bytes) -> KeySet:
    """Read a JSON Web Key Set (RFC 7517); keys that are secret or encrypt are left out.

    Raises:
        ValueError: it is none, or has no key that signs.
    """
    from joserfc.errors import JoseError
    from joserfc.jwk import KeySet

    try:
        keys = [
            key
            for key in msgspec.json.decode(text)["keys"]
            if key.get("kty") in ("RSA", "EC", "OKP") and key.get("use", "sig") == "sig"
        ]
        return KeySet.import_key_set({"keys": keys})
    except (JoseError, LookupError, TypeError, AttributeError, msgspec.DecodeError) as error:
        raise ValueError(f"no set of public keys that sign ({type(error).__name__})") from None


class OAuthBearerServer:
    """One login: the client sends a token, and another message where it is not good.

    Args:
        settings: Which tokens are good.
        keys: Those of the issuer.
        unknown_key: Called where a token names another key.
        wall_s: Seconds since 1970.
    """

    def __init__(
        self,
        settings: TokenSettings,
        keys: KeySet,
        unknown_key: Callable[[], None],
        wall_s: Callable[[], float],
    ) -> None:
        self._settings, self._keys = settings, keys
        self._unknown_key, self._wall_s = unknown_key, wall_s
        self._failure: AuthenticationError | None = None
        self.user = ""
        """The user, once the login has succeeded."""
        self.lifetime_s = float("inf")
        """How long the token is good."""

    def answer(self, token: bytes) -> bytes:
        """Check a message; a token that is not good fails with the client's next message.

        Raises:
            AuthenticationError: the login failed; the text is for the log, not for the client.
        """
        if self._failure is not None:
            raise self._failure
        found = CLIENT_FIRST.fullmatch(token) if len(token) <= TOKEN_BYTES_MAX else None
        if found is None:
            raise AuthenticationError("a message that is not n,,auth=Bearer TOKEN, or is too long")
        try:
            claims = self._claims(found[2])
        except AuthenticationError as error:
            self._failure = error
            return INVALID_TOKEN
        user = claims[self._settings.subject_claim]
        if found[1] and found[1] != user.encode():
            raise AuthenticationError(f"user {user} asks to be another one")
        self.user, self.lifetime_s = user, max(0.0, claims["exp"] - self._wall_s())
        return b""

    def _claims(self, token: bytes) -> dict[str, Any]:
        from joserfc import jwt
        from joserfc.errors import InvalidKeyIdError, JoseError
        from joserfc.jws import JWSRegistry

        settings = self._settings
        rules = jwt.JWTClaimsRegistry(
            now=int(self._wall_s()),
            leeway=settings.clock_skew_s,
            iss={"essential": True, "value": settings.issuer},
            aud={"essential": True, "values": list(settings.audiences)},
            exp={"essential": True},
            iat={"essential": True},
        )
        registry = JWSRegistry(algorithms=ALGORITHMS, strict_check_header=False)
        try:
            claims = self._verified(lambda keys: jwt.decode(token, keys, registry=registry))
            rules.validate(claims)
        except JoseError as error:
            if isinstance(error, InvalidKeyIdError):
                self._unknown_key()
            # Its text may repeat what the client sent.
            raise AuthenticationError(f"a token that is not good: {error.error}") from None
        except (ValueError, TypeError, RecursionError) as error:
            raise AuthenticationError(f"a token that is none: {type(error).__name__}") from None
        user = claims.get(settings.subject_claim)
        if not isinstance(user, str) or not user:
            raise AuthenticationError(f"a token without the claim {settings.subject_claim}")
        return claims

    def _verified(self, decode: Callable[[KeySet | Key], Token]) -> dict[str, Any]:
        """Return the claims of a token; one that names no key may be signed by any of them."""
        from joserfc.errors import InvalidKeyIdError, JoseError

        try:
            return decode(self._keys).claims
        except InvalidKeyIdError as error:
            # The library tells a missing name only so.
            if "'None'" not in str(error):
                raise
            for key in self._keys.keys:
                with suppress(JoseError, ValueError, TypeError):
                    return decode(key).claims
            raise
