"""Tokens of OAUTHBEARER: which are good, and what a client learns of one that is not."""

from __future__ import annotations

import base64
import hmac
import json
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, Key, KeySet, OctKey, RSAKey

from jbodlab.security.oauthbearer import (
    INVALID_TOKEN,
    TOKEN_BYTES_MAX,
    OAuthBearerServer,
    TokenSettings,
    key_set,
)
from jbodlab.vocabulary.errors import AuthenticationError

NOW = 1_000_000
SKEW = 30
SETTINGS = TokenSettings(
    url="file:///keys",
    issuer="https://issuer",
    audiences=("kafka", "others"),
    subject_claim="sub",
    clock_skew_s=SKEW,
    refresh_s=60,
)
RSA = RSAKey.generate_key(2048, {"kid": "rsa"})
EC = ECKey.generate_key("P-256", {"kid": "ec"})
STRANGER = RSAKey.generate_key(2048, {"kid": "rsa"})
PUBLIC = json.dumps({"keys": [RSA.as_dict(private=False), EC.as_dict(private=False)]}).encode()
CLAIMS = {"iss": "https://issuer", "aud": "kafka", "sub": "alice", "iat": NOW, "exp": NOW + 600}


class Stage:
    def __init__(self) -> None:
        self.asked = 0
        self.server = OAuthBearerServer(SETTINGS, key_set(PUBLIC), self.ask, lambda: NOW)

    def ask(self) -> None:
        self.asked += 1


def token(key: Key = RSA, alg: str = "RS256", **changes: Any) -> str:
    claims = {key: value for key, value in {**CLAIMS, **changes}.items() if value is not None}
    return jwt.encode({"alg": alg, "kid": key.kid}, claims, key, algorithms=[alg])


def message(token: str, header: str = "n,,", more: str = "") -> bytes:
    return f"{header}\x01auth=Bearer {token}{more}\x01\x01".encode()


@pytest.mark.parametrize(
    "sent",
    [
        message(token()),
        message(token(EC, "ES256")),
        message(token(aud=["else", "others"])),
        message(token(), header="n,a=alice,"),
        message(token(), more="\x01extension=value"),
        message(token(exp=NOW - SKEW + 1)),
        message(token(iat=NOW + SKEW)),
        message(token(nbf=NOW + SKEW)),
    ],
    ids=range(8),
)
def test_a_good_token_logs_its_subject_in(sent: bytes) -> None:
    stage = Stage()
    assert stage.server.answer(sent) == b""
    assert stage.server.user == "alice"


def test_the_session_ends_with_the_token() -> None:
    stage = Stage()
    stage.server.answer(message(token(exp=NOW + 77)))
    assert stage.server.lifetime_s == 77


def unsigned() -> str:
    header = base64.urlsafe_b64encode(b'{"alg":"none"}').decode().rstrip("=")
    return f"{header}.{token().split('.')[1]}."


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (token(exp=NOW - SKEW), "expired_token"),
        (token(iat=NOW + SKEW + 1), "invalid_claim"),
        (token(nbf=NOW + SKEW + 1), "invalid_claim"),
        (token(exp=None), "missing_claim"),
        (token(iat=None), "missing_claim"),
        (token(iss=None), "missing_claim"),
        (token(aud=None), "missing_claim"),
        (token(iss="https://other"), "invalid_claim"),
        (token(aud="else"), "invalid_claim"),
        (token(sub=None), "without the claim sub"),
        (token(sub=7), "invalid_claim"),
        (token(sub=""), "without the claim sub"),
        (token(STRANGER), "bad_signature"),
        (unsigned(), "unsupported_algorithm"),
        (token() + "A", "bad_signature"),
        ("only-one-part", "a token that"),
        ("a.b.c", "a token that"),
    ],
    ids=range(17),
)
def test_a_bad_token_is_named_invalid_and_then_fails(bad: str, reason: str) -> None:
    stage = Stage()
    assert stage.server.answer(message(bad)) == INVALID_TOKEN
    assert not stage.server.user
    with pytest.raises(AuthenticationError, match=reason) as raised:
        stage.server.answer(b"\x01")
    assert bad not in str(raised.value)


def test_the_public_key_is_no_secret_of_a_signature() -> None:
    """A token signed by HMAC with the public key as its secret is not good."""
    signed = token(OctKey.generate_key(256, {"kid": "rsa"}), "HS256").rpartition(".")[0]
    pem = RSA.as_pem(private=False)
    signature = hmac.digest(pem, signed.encode(), "sha256")
    forged = f"{signed}.{base64.urlsafe_b64encode(signature).decode().rstrip('=')}"
    assert Stage().server.answer(message(forged)) == INVALID_TOKEN


def test_a_token_of_an_unknown_key_asks_for_the_keys() -> None:
    stage = Stage()
    other = RSAKey.generate_key(2048, {"kid": "new"})
    assert stage.server.answer(message(token(other))) == INVALID_TOKEN
    assert stage.asked == 1


@pytest.mark.parametrize(("key", "alg"), [(RSA, "RS256"), (EC, "ES256"), (RSA, "PS256")])
def test_a_token_that_names_no_key_is_good_by_any_of_them(key: Key, alg: str) -> None:
    stage = Stage()
    signed = jwt.encode({"alg": alg}, CLAIMS, key, algorithms=[alg])
    assert stage.server.answer(message(signed)) == b""
    assert (stage.server.user, stage.asked) == ("alice", 0)


def test_a_token_that_names_no_key_and_is_signed_by_none_is_not_good() -> None:
    stage = Stage()
    signed = jwt.encode({"alg": "RS256"}, CLAIMS, STRANGER, algorithms=["RS256"])
    assert stage.server.answer(message(signed)) == INVALID_TOKEN
    assert stage.asked == 1


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"n,,",
        b"n,,\x01auth=Bearer \x01\x01",
        message(token(), header="y,,"),
        message(token(), header="p=tls-unique,,"),
        message(token())[:-1],
        message("a" * TOKEN_BYTES_MAX),
        b"n,,\x01auth=Basic YTpi\x01\x01",
    ],
    ids=range(8),
)
def test_a_message_that_is_none_of_the_mechanism_fails(sent: bytes) -> None:
    with pytest.raises(AuthenticationError, match="n,,auth=Bearer"):
        Stage().server.answer(sent)


def test_who_asks_to_be_another_user_fails() -> None:
    with pytest.raises(AuthenticationError, match="another one"):
        Stage().server.answer(message(token(), header="n,a=bob,"))


def test_only_public_keys_that_sign_are_taken() -> None:
    encrypts = RSAKey.generate_key(2048, {"kid": "e", "use": "enc"}).as_dict(private=False)
    secret = OctKey.generate_key(256, {"kid": "s"}).as_dict(private=True)
    keys = [encrypts, secret, EC.as_dict(private=False)]
    found = key_set(json.dumps({"keys": keys}).encode())
    assert isinstance(found, KeySet)
    assert [key.kid for key in found.keys] == ["ec"]


@pytest.mark.parametrize(
    "text", [b"", b"[]", b"{}", b'{"keys": []}', b'{"keys": [7]}', b'{"keys": [{"kty": "RSA"}]}']
)
def test_a_text_without_keys_is_no_key_set(text: bytes) -> None:
    with pytest.raises(ValueError, match="no set of public keys"):
        key_set(text)
