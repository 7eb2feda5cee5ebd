"""The keys of an issuer of tokens: read from files and https URLs, and again."""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from joserfc import jwt
from joserfc.jwk import RSAKey

from jbodlab.runtime.machine import system_environment
from jbodlab.security.oauthbearer import TokenSettings
from jbodlab.server import token_keys
from jbodlab.server.token_keys import TokenKeys
from jbodlab.vocabulary.errors import ConfigError
from tests.certificates import Authority

DEADLINE_S = 10.0
FIRST, SECOND = (RSAKey.generate_key(2048, {"kid": kid}) for kid in ("first", "second"))


def write(path: Path, *keys: RSAKey) -> str:
    path.write_text(json.dumps({"keys": [key.as_dict(private=False) for key in keys]}))
    return path.as_uri()


async def keys_of(url: str, refresh_s: float = 3600.0) -> TokenKeys:
    settings = TokenSettings(
        url=url,
        issuer="me",
        audiences=("kafka",),
        subject_claim="sub",
        clock_skew_s=0,
        refresh_s=refresh_s,
    )
    keys = TokenKeys("the.key", settings, system_environment())
    await keys.start()
    return keys


def is_good(keys: TokenKeys, key: RSAKey) -> bool:
    """Log in by a token of a key."""
    claims = {"iss": "me", "aud": "kafka", "sub": "alice", "iat": 1, "exp": 1 << 40}
    token = jwt.encode({"alg": "RS256", "kid": key.kid}, claims, key)
    return keys.login().answer(f"n,,\x01auth=Bearer {token}\x01\x01".encode()) == b""


async def good(keys: TokenKeys, key: RSAKey) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not is_good(keys, key):  # noqa: ASYNC110 - no event tells of it
            await asyncio.sleep(0.01)


async def test_a_token_of_a_new_key_has_the_keys_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(token_keys, "READS_S_MIN", 0.0)
    keys = await keys_of(write(tmp_path / "a key set.json", FIRST))
    assert is_good(keys, FIRST)
    write(tmp_path / "a key set.json", SECOND)
    await good(keys, SECOND)
    await keys.stop()


async def test_keys_are_read_again_from_time_to_time_and_stay_where_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(token_keys, "READS_S_MIN", 0.01)
    path = tmp_path / "keys"
    keys = await keys_of(write(path, FIRST), refresh_s=0.01)
    path.write_text("no keys")
    async with asyncio.timeout(DEADLINE_S):
        while "stay as they are" not in caplog.text:  # noqa: ASYNC110 - no event tells of it
            await asyncio.sleep(0.01)
    assert is_good(keys, FIRST)
    write(path, FIRST, SECOND)
    await good(keys, SECOND)
    await keys.stop()


async def test_unknown_keys_have_them_read_once_in_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = await keys_of(write(tmp_path / "keys", FIRST))
    reads: list[None] = []
    monkeypatch.setattr(keys, "_read", lambda: reads.append(None) or keys._keys)
    for _ in range(50):
        assert not is_good(keys, SECOND)
        await asyncio.sleep(0.001)
    assert len(reads) == 1
    await keys.stop()


@pytest.mark.parametrize("text", [None, "", '{"keys": []}'])
async def test_without_keys_there_is_no_start(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "keys"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ConfigError, match=r"the\.key"):
        await keys_of(path.as_uri())


@contextmanager
def issuer(tmp_path: Path, location: str | None = None) -> Iterator[str]:
    """Serve keys by https; with a location: send whoever asks to another place."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            text = (tmp_path / "keys").read_bytes()
            self.send_response(200 if location is None else 302)
            if location is not None:
                self.send_header("Location", location)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            pass

    authority = Authority()
    authority.write(tmp_path / "ca.pem")
    authority.issue("issuer").write(tmp_path / "issuer.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "issuer.pem")
    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"https://127.0.0.1:{server.server_port}/keys"
        finally:
            server.shutdown()
            thread.join()


async def test_keys_of_an_https_url_are_those_of_a_server_that_is_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "keys", FIRST)
    with issuer(tmp_path) as url:
        with pytest.raises(ConfigError, match="CERTIFICATE_VERIFY_FAILED"):
            await keys_of(url)
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
        keys = await keys_of(url)
        assert is_good(keys, FIRST)
        await keys.stop()


async def test_an_issuer_that_sends_elsewhere_in_plain_text_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "keys", FIRST)
    with issuer(tmp_path, "http://127.0.0.1:1/keys") as url:
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
        with pytest.raises(ConfigError, match="unknown url type: http"):
            await keys_of(url)
