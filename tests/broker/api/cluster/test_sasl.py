"""Logging in, byte by byte on real sockets: the cases S01 to S21 of a broker's listener."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from kio.schema.api_versions.v3.request import ApiVersionsRequest
from kio.schema.metadata.v9.request import MetadataRequest
from kio.schema.sasl_authenticate.v2.request import SaslAuthenticateRequest
from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest

from broker.api.handlers import ClientApis
from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.peers.client import KafkaConnection
from jbodlab.runtime.machine import system_environment
from jbodlab.security.acl import ANONYMOUS
from jbodlab.security.scram import (
    Decoys,
    ScramCredential,
    ScramMechanism,
    credential,
    salted_password,
)
from jbodlab.security.secret import Secret
from jbodlab.server.authentication import SaslSettings
from jbodlab.server.bounds import Bounds
from jbodlab.server.listener import Listener
from jbodlab.server.session import Session
from jbodlab.vocabulary.error_code import ErrorCode
from tests.broker.api.conftest import Cluster, client_apis
from tests.jbodlab.security.test_scram import Client as ScramClient

DEADLINE_S = 10.0
NONE, UNSUPPORTED, ILLEGAL, FAILED = (
    ErrorCode.NONE,
    ErrorCode.UNSUPPORTED_SASL_MECHANISM,
    ErrorCode.ILLEGAL_SASL_STATE,
    ErrorCode.SASL_AUTHENTICATION_FAILED,
)
SALT = b"saltsalt"
BOB = b"\0bob\0pw"


class Stage:
    """A listener on which clients have to log in."""

    def __init__(self, apis: ClientApis, **settings: Any) -> None:
        self.sessions: list[Session] = []
        self.now_s = 1000.0
        self.dispatcher = apis.dispatcher
        self.users = {"user": ScramMechanism.SCRAM_SHA_256}
        sasl = SaslSettings(
            **{
                "mechanisms": ("PLAIN", "SCRAM-SHA-256"),
                "passwords": {"bob": Secret("pw"), "eve": Secret("other")},
                "find": self.find,
                "decoys": Decoys(secret=b"s"),
                "random_bytes": lambda count: bytes(count),
                "failure_delay_s": 0.01,
                **settings,
            }
        )
        self.listener = Listener(
            "CLIENTS", "127.0.0.1", 0, self, Bounds(system_environment()), sasl
        )
        self.is_pipelined = apis.dispatcher.is_pipelined
        self.admit = apis.dispatcher.admit

    def find(self, mechanism: ScramMechanism, user: str) -> ScramCredential | None:
        if self.users.get(user) != mechanism:
            return None
        return credential(mechanism, salted_password(mechanism, "pencil", SALT, 4096), SALT, 4096)

    def handle(self, frame: memoryview, session: Session) -> Any:
        if session not in self.sessions:
            self.sessions.append(session)
        return self.dispatcher.handle(frame, session)

    async def connect(self) -> KafkaConnection:
        return await KafkaConnection.open(
            "127.0.0.1", self.listener.port, client_id="c", timeout_s=DEADLINE_S
        )

    async def socket(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.listener.port)


@asynccontextmanager
async def staged(cluster: Cluster, **settings: Any) -> AsyncIterator[Stage]:
    apis = client_apis(cluster, auto_create_topics=False)
    stage = Stage(apis, **settings)
    await stage.listener.start()
    try:
        yield stage
    finally:
        await stage.listener.close()
        await apis.close()


async def handshake(client: KafkaConnection, mechanism: str = "PLAIN", version: int = 1) -> Any:
    request = SaslHandshakeRequest(mechanism=mechanism)
    return await client.call(ApiKey.SASL_HANDSHAKE, version, request)


async def send_token(client: KafkaConnection, token: bytes) -> Any:
    request = SaslAuthenticateRequest(auth_bytes=token)
    return await client.call(ApiKey.SASL_AUTHENTICATE, 2, request)


async def versions(client: KafkaConnection) -> Any:
    request = ApiVersionsRequest(client_software_name="x", client_software_version="1")
    return await client.call(ApiKey.API_VERSIONS, 3, request)


async def metadata(client: KafkaConnection) -> Any:
    request = MetadataRequest(
        topics=(),
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )
    return await client.call(ApiKey.METADATA, 9, request)


async def is_closed(client: KafkaConnection) -> bool:
    """Return whether the broker has closed a connection: a request gets no answer."""
    try:
        await versions(client)
    except ConnectionError:
        return True
    return False


async def until_end(reader: asyncio.StreamReader) -> bytes:
    async with asyncio.timeout(DEADLINE_S):
        try:
            return await reader.read(-1)
        except ConnectionError:
            return b""


async def test_s01_bytes_of_plain(cluster: Cluster) -> None:
    """S01."""
    async with staged(cluster) as stage:
        reader, writer = await stage.socket()
        for sent, answer in (
            (
                "00000012 0011 0001 00000001 0001 63 0005 504c41494e",
                "00000020 00000001 0000 00000002 0005 504c41494e 000d 534352414d2d5348412d323536",
            ),
            (
                "00000015 0024 0002 00000002 0001 63 00 08 00626f62007077 00",
                "00000012 00000002 00 0000 00 01 0000000000000000 00",
            ),
        ):
            writer.write(bytes.fromhex(sent))
            expected = bytes.fromhex(answer)
            async with asyncio.timeout(DEADLINE_S):
                assert await reader.readexactly(len(expected)) == expected
        assert stage.sessions[0].user == "bob"
        writer.close()


async def test_s02_api_versions_first(cluster: Cluster) -> None:
    """S02: a version of the future gets the range, and the client asks again."""
    async with staged(cluster) as stage:
        reader, writer = await stage.socket()
        writer.write(bytes.fromhex("0000000c 0012 0063 00000001 0001 63 00"))
        async with asyncio.timeout(DEADLINE_S):
            size = struct.unpack(">i", await reader.readexactly(4))[0]
            body = await reader.readexactly(size)
        assert body[4:6] == b"\0\x23"
        writer.close()
        client = await stage.connect()
        for _ in range(2):
            keys = {each.api_key for each in (await versions(client)).api_keys}
            assert {ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE} <= keys
        assert (await handshake(client)).error_code == NONE
        client.close()


async def test_s03_request_before_auth(cluster: Cluster) -> None:
    """S03: before the handshake no answer, after it the answer of the API itself."""
    async with staged(cluster) as stage:
        client = await stage.connect()
        with pytest.raises(ConnectionError):
            await metadata(client)

        client = await stage.connect()
        await handshake(client)
        response = await metadata(client)
        assert not response.brokers
        assert await is_closed(client)
        assert {each.user for each in stage.sessions} == {ANONYMOUS}


@pytest.mark.parametrize("mechanism", ["OAUTHBEARER", "GSSAPI", "plain", "", "SCRAM-SHA-512"])
async def test_s04_unknown_mechanism(cluster: Cluster, mechanism: str) -> None:
    """S04."""
    async with staged(cluster) as stage:
        client = await stage.connect()
        response = await handshake(client, mechanism)
        assert response.error_code == UNSUPPORTED
        assert response.mechanisms == ("PLAIN", "SCRAM-SHA-256")
        assert await is_closed(client)


@pytest.mark.parametrize(
    "token",
    [
        b"\0bob\0wrong",
        b"\0nobody\0pw",
        b"bob\0pw",
        b"\0bob\0pw\0",
        b"\0\0pw",
        b"\0bob\0",
        b"eve\0bob\0pw",
        b"\0bob\0\xff",
        b"",
        b"\0bob\0" + b"p" * 2000,
    ],
)
async def test_s07_plain_tokens(cluster: Cluster, token: bytes) -> None:
    """S05, S07: one text for all failures, and the connection ends."""
    async with staged(cluster) as stage:
        client = await stage.connect()
        await handshake(client)
        response = await send_token(client, token)
        assert response.error_code == FAILED
        assert response.error_message == "Authentication failed: Invalid username or password"
        assert await is_closed(client)


async def test_s07_an_authorization_id_that_is_the_user(cluster: Cluster) -> None:
    """S07."""
    async with staged(cluster) as stage:
        client = await stage.connect()
        await handshake(client)
        assert (await send_token(client, b"bob\0bob\0pw")).error_code == NONE
        assert (await metadata(client)).brokers
        client.close()


async def test_a_login_by_scram(cluster: Cluster) -> None:
    """S08: two tokens; the session has the user's name."""
    async with staged(cluster) as stage:
        client, scram = await stage.connect(), ScramClient()
        await handshake(client, "SCRAM-SHA-256")
        first = await send_token(client, scram.first())
        last = await send_token(client, scram.final(first.auth_bytes))
        assert last.error_code == NONE
        assert last.auth_bytes.startswith(b"v=")
        assert (await metadata(client)).brokers
        assert stage.sessions[0].user == "user"
        client.close()


@pytest.mark.parametrize(("user", "password"), [("user", "pencils"), ("nobody", "pencil")])
async def test_s05_wrong_password_by_scram(cluster: Cluster, user: str, password: str) -> None:
    """S05, S13."""
    async with staged(cluster) as stage:
        client, scram = await stage.connect(), ScramClient(user=user)
        await handshake(client, "SCRAM-SHA-256")
        first = await send_token(client, scram.first())
        last = await send_token(client, scram.final(first.auth_bytes, password))
        assert last.error_code == FAILED
        assert last.error_message.endswith("with SASL mechanism SCRAM-SHA-256")
        assert await is_closed(client)


async def test_s06_raw_flow(cluster: Cluster) -> None:
    """S06: tokens without requests after the first version of the handshake."""
    async with staged(cluster) as stage:
        client = await stage.connect()
        await handshake(client, version=0)
        client.close()
        for token, answer in ((BOB, b"\0\0\0\0"), (b"\0bob\0no", b"")):
            reader, writer = await stage.socket()
            writer.write(bytes.fromhex("000000120011000000000001000163 0005 504c41494e"))
            async with asyncio.timeout(DEADLINE_S):
                size = struct.unpack(">i", await reader.readexactly(4))[0]
                await reader.readexactly(size)
                writer.write(struct.pack(">i", len(token)) + token)
                assert await reader.read(4) == answer
            if answer:
                assert stage.sessions[-1].user == "bob"
                writer.write(bytes.fromhex("0000000b 0012 0000 00000007 0001 63"))
                async with asyncio.timeout(DEADLINE_S):
                    assert (await reader.readexactly(8))[4:] == b"\0\0\0\7"
            writer.close()


@pytest.mark.parametrize("size", [600_000, -1, 0, 2**31 - 1])
async def test_s15_huge_token(cluster: Cluster, size: int) -> None:
    """S15: closed at once, whatever was announced."""
    async with staged(cluster) as stage:
        reader, writer = await stage.socket()
        writer.write(struct.pack(">i", size) + b"\0\x24\0\2\0\0\0\1")
        assert await until_end(reader) == b""
        writer.close()


async def test_s17_token_after_success(cluster: Cluster) -> None:
    """S17: refused, and the connection stays."""
    async with staged(cluster) as stage:
        client = await stage.connect()
        await handshake(client)
        await send_token(client, BOB)
        assert (await send_token(client, BOB)).error_code == ILLEGAL
        assert (await handshake(client)).error_code == ILLEGAL
        assert (await metadata(client)).brokers
        client.close()


async def test_a_listener_without_authentication(client: KafkaConnection) -> None:
    assert (await handshake(client)).error_code == ILLEGAL
    assert (await send_token(client, BOB)).error_code == ILLEGAL
    assert (await metadata(client)).brokers


async def test_s19_renew_under_load(cluster: Cluster) -> None:
    """S19, S20: a session with an end is renewed on the same connection, by the same user."""
    async with staged(cluster, session_s=600.0) as stage:
        for token, code in ((BOB, NONE), (b"\0eve\0other", FAILED)):
            client = await stage.connect()
            await handshake(client)
            response = await send_token(client, BOB)
            assert response.session_lifetime.total_seconds() == 600
            assert (await handshake(client)).error_code == ILLEGAL
            turned_back(stage, 2.0)
            assert (await handshake(client)).error_code == NONE
            assert (await send_token(client, token)).error_code == code
            assert stage.sessions[-1].user == "bob"
            assert await is_closed(client) == (code != NONE)
            client.close()


async def test_s20_renew_wrongly(cluster: Cluster) -> None:
    """S20: another mechanism; another request during the login."""
    async with staged(cluster, session_s=600.0) as stage:
        for mechanism, code in (("SCRAM-SHA-256", FAILED), ("PLAIN", NONE)):
            client = await stage.connect()
            await handshake(client)
            await send_token(client, BOB)
            turned_back(stage, 2.0)
            assert (await handshake(client, mechanism)).error_code == code
            if code == NONE:
                assert not (await metadata(client)).brokers
            assert await is_closed(client)


async def test_s21_session_expired(cluster: Cluster) -> None:
    """S21: nothing is served after the end of the session but a new login."""
    async with staged(cluster, session_s=600.0) as stage:
        client = await stage.connect()
        await handshake(client)
        await send_token(client, BOB)
        turned_back(stage, 601.0)
        with pytest.raises(ConnectionError):
            await metadata(client)

        client = await stage.connect()
        await handshake(client)
        await send_token(client, BOB)
        turned_back(stage, 601.0)
        await handshake(client)
        await send_token(client, BOB)
        assert (await metadata(client)).brokers
        client.close()


def turned_back(stage: Stage, seconds: float) -> None:
    """Let the sessions be older than they are."""
    for session in stage.sessions:
        assert session.authentication is not None
        session.authentication._since_s -= seconds
        session.authentication._until_s -= seconds


async def test_too_many_tokens_and_requests_for_versions(cluster: Cluster) -> None:
    async with staged(cluster) as stage:
        client = await stage.connect()
        for _ in range(4):
            await versions(client)
        assert await is_closed(client)


async def test_s16_slow_auth(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """S16: bytes do not extend the deadline of a login."""
    monkeypatch.setattr("jbodlab.server.waiting_logins.LOGIN_S_MAX", 0.2)
    async with staged(cluster) as stage:
        good = await stage.connect()
        await handshake(good)
        await send_token(good, BOB)
        reader, writer = await stage.socket()
        end = asyncio.create_task(until_end(reader))
        while not end.done():
            writer.write(b"\0")
            await asyncio.sleep(0.01)
        assert await end == b""
        assert (await metadata(good)).brokers
        writer.close()
        good.close()


async def test_where_too_many_have_not_logged_in_the_oldest_is_closed(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jbodlab.server.waiting_logins.LOGINS_PER_ADDRESS_MAX", 3)
    async with staged(cluster) as stage:
        good = await stage.connect()
        await handshake(good)
        await send_token(good, BOB)
        waiting = [await stage.connect() for _ in range(3)]
        for each in waiting:
            await versions(each)
        newest = await stage.connect()
        await versions(newest)
        assert [await is_closed(each) for each in waiting] == [True, False, False]
        assert (await metadata(good)).brokers
        for each in (good, newest, *waiting):
            each.close()


async def test_s22_user_deleted(cluster: Cluster) -> None:
    """S22: sessions that hold no longer are closed, others go on."""
    async with staged(cluster) as stage:
        clients = [await stage.connect() for _ in range(2)]
        for client, token in zip(clients, (BOB, b"\0eve\0other"), strict=True):
            await handshake(client)
            await send_token(client, token)
        stage.listener.close_sessions(lambda login: login.user == "bob")
        assert [await is_closed(each) for each in clients] == [True, False]
        clients[1].close()
