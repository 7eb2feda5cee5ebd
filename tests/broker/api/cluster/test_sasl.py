"""Logging in, byte by byte on real sockets: the cases S01 to S21 of a broker's listener."""

from __future__ import annotations

import asyncio
import base64
import gc
import struct
import time
import tracemalloc
from collections.abc import AsyncIterator, Coroutine
from typing import Any

import pytest
from kio.schema.api_versions.v3.request import ApiVersionsRequest
from kio.schema.metadata.v9.request import MetadataRequest
from kio.schema.sasl_authenticate.v2.request import SaslAuthenticateRequest
from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest

from broker.api.handlers import ClientApis
from broker.replica.waiting.append_entries import AppendResult
from jbodlab.kafka_wire import api_table
from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.kafka_wire.codec import encode
from jbodlab.kafka_wire.headers import request_header
from jbodlab.peers.client import KafkaConnection
from jbodlab.runtime import log_lines
from jbodlab.runtime.machine import system_environment
from jbodlab.runtime.metrics import render
from jbodlab.security.acl import ANONYMOUS
from jbodlab.security.scram import (
    Decoys,
    ScramCredential,
    ScramMechanism,
    credential,
    salted_password,
)
from jbodlab.security.secret import Secret
from jbodlab.server import waiting_logins
from jbodlab.server.authentication import Exchange, SaslSettings
from jbodlab.server.bounds import Bounds
from jbodlab.server.listener import Listener
from jbodlab.server.listener_counts import listener_metrics
from jbodlab.server.session import Session
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import AuthenticationError
from jbodlab.vocabulary.ids import TopicPartition
from tests.broker.api.calls import batch, produce_to
from tests.broker.api.conftest import Cluster, client_apis
from tests.jbodlab.security.scram_client import Client as ScramClient
from tests.waiting import called

DEADLINE_S = 10.0
NONE, UNSUPPORTED, ILLEGAL, FAILED = (
    ErrorCode.NONE,
    ErrorCode.UNSUPPORTED_SASL_MECHANISM,
    ErrorCode.ILLEGAL_SASL_STATE,
    ErrorCode.SASL_AUTHENTICATION_FAILED,
)
SALT = b"saltsalt"
SESSIONS_S = dict.fromkeys(("PLAIN", "SCRAM-SHA-256"), 600.0)
BOB = b"\0bob\0pw"


class Stage:
    """A listener on which clients have to log in."""

    def __init__(self, apis: ClientApis, **settings: Any) -> None:
        self.sessions: list[Session] = []
        self._clients: list[KafkaConnection | asyncio.StreamWriter] = []
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
        client = await KafkaConnection.open(
            "127.0.0.1", self.listener.port, client_id="c", timeout_s=DEADLINE_S
        )
        self._clients.append(client)
        return client

    async def logged_in(self, token: bytes = BOB) -> KafkaConnection:
        client = await self.connect()
        await handshake(client)
        await send_token(client, token)
        return client

    async def socket(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.listener.port)
        self._clients.append(writer)
        return reader, writer

    def close_clients(self) -> None:
        for each in self._clients:
            each.close()


def logging_in(**settings: Any) -> pytest.MarkDecorator:
    """Give the listener of a test these settings."""
    return pytest.mark.parametrize("stage", [settings], indirect=True, ids=["-".join(settings)])


@pytest.fixture
async def stage(request: pytest.FixtureRequest, cluster: Cluster) -> AsyncIterator[Stage]:
    apis = client_apis(cluster, auto_create_topics=False)
    stage = Stage(apis, **getattr(request, "param", {}))
    await stage.listener.start()
    try:
        yield stage
    finally:
        stage.close_clients()
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


async def test_s01_bytes_of_plain(stage: Stage) -> None:
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


async def test_s02_api_versions_first(stage: Stage) -> None:
    """A version of the future gets the range, and the client asks again."""
    reader, writer = await stage.socket()
    writer.write(bytes.fromhex("0000000c 0012 0063 00000001 0001 63 00"))
    async with asyncio.timeout(DEADLINE_S):
        size = struct.unpack(">i", await reader.readexactly(4))[0]
        body = await reader.readexactly(size)
    assert body[4:6] == b"\0\x23"
    client = await stage.connect()
    for _ in range(2):
        keys = {each.api_key for each in (await versions(client)).api_keys}
        assert {ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE} <= keys
    assert (await handshake(client)).error_code == NONE


async def test_s03_request_before_auth(stage: Stage) -> None:
    """Before the handshake no answer, after it the answer of the API itself."""
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
@logging_in(failure_delay_s=0.1)
async def test_s04_unknown_mechanism(stage: Stage, mechanism: str) -> None:
    client, loop = await stage.connect(), asyncio.get_running_loop()
    begun_s = loop.time()
    response = await handshake(client, mechanism)
    # The clock of the loop goes by milliseconds.
    assert loop.time() - begun_s >= 0.099
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
async def test_s07_plain_tokens(stage: Stage, token: bytes) -> None:
    """One text for all failures, and the connection ends."""
    client = await stage.connect()
    await handshake(client)
    response = await send_token(client, token)
    assert response.error_code == FAILED
    assert response.error_message == "Authentication failed: Invalid username or password"
    assert await is_closed(client)


async def test_s07_an_authorization_id_that_is_the_user(stage: Stage) -> None:
    client = await stage.connect()
    await handshake(client)
    assert (await send_token(client, b"bob\0bob\0pw")).error_code == NONE
    assert (await metadata(client)).brokers


async def test_a_login_by_scram(stage: Stage) -> None:
    """Two tokens; the session has the user's name."""
    client, scram = await stage.connect(), ScramClient()
    await handshake(client, "SCRAM-SHA-256")
    first = await send_token(client, scram.first())
    last = await send_token(client, scram.final(first.auth_bytes))
    assert last.error_code == NONE
    assert last.auth_bytes.startswith(b"v=")
    assert (await metadata(client)).brokers
    assert stage.sessions[0].user == "user"


async def refusal(stage: Stage, mechanism: str, user: str) -> tuple[int, str, float]:
    """Log in by a wrong password; returns code, text, and the seconds until they came."""
    client, loop = await stage.connect(), asyncio.get_running_loop()
    await handshake(client, mechanism)
    token = f"\0{user}\0wrong".encode()
    if mechanism != "PLAIN":
        scram = ScramClient(user=user)
        server_first = (await send_token(client, scram.first())).auth_bytes
        token = scram.final(server_first, "wrong")
    begun_s = loop.time()
    last = await send_token(client, token)
    took_s = loop.time() - begun_s
    assert await is_closed(client)
    return int(last.error_code), last.error_message, took_s


@pytest.mark.parametrize(
    ("mechanism", "known"), [("PLAIN", "bob"), ("SCRAM-SHA-256", "user")], ids=["plain", "scram"]
)
@logging_in(failure_delay_s=0.1)
async def test_s05_wrong_password(stage: Stage, mechanism: str, known: str) -> None:
    """Nobody learns from code, text or delay which users there are."""
    found = await asyncio.gather(
        *(refusal(stage, mechanism, user) for user in (known, "nobody") * 8)
    )
    assert len({(code, text) for code, text, _ in found}) == 1
    assert found[0][0] == FAILED
    assert min(took_s for *_, took_s in found) >= 0.099


def judge(exchange: Exchange, tokens: list[bytes]) -> float:
    """Return the seconds of this thread until a login has failed."""
    *first, last = tokens
    for token in first:
        exchange.answer(token)
    begun_s = time.thread_time()
    with pytest.raises(AuthenticationError):
        exchange.answer(last)
    return time.thread_time() - begun_s


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_s05_times_do_not_tell_users_apart(mechanism: str) -> None:
    known = credential(ScramMechanism.SCRAM_SHA_256, bytes(32), SALT, 4096)
    settings = SaslSettings(
        mechanisms=(mechanism,),
        passwords={"alice": Secret("password")},
        find=lambda _, user: known if user == "alice" else None,
        decoys=Decoys(secret=b"s"),
        random_bytes=bytes,
    )
    took_s: dict[str, list[float]] = {"alice": [], "carol": []}
    for number in range(200):
        # The first user finds other things in the caches.
        for user in sorted(took_s, reverse=number % 2 == 1):
            times = took_s[user]
            exchange = settings.begin(mechanism)
            tokens = [f"\0{user}\0passwore".encode()]
            if mechanism != "PLAIN":
                scram = ScramClient(user=user)
                server_first = exchange.answer(scram.first())
                exchange = settings.begin(mechanism)
                proof = base64.b64encode(bytes(32)).decode()
                tokens = [scram.first(), scram.final(server_first, p=proof)]
            times.append(judge(exchange, tokens))
    # Of the quick ones: what else runs on the machine makes others slow.
    one, other = (sorted(times)[len(times) // 10] for times in took_s.values())
    assert abs(one - other) < 0.2 * max(one, other) + 1e-6


async def test_s06_raw_flow(stage: Stage) -> None:
    """Tokens without requests after the first version of the handshake."""
    client = await stage.connect()
    await handshake(client, version=0)
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
async def test_s15_huge_token(stage: Stage, size: int) -> None:
    """Closed at once, whatever was announced, and nothing is set aside for it."""
    _, first = await stage.socket()
    first.close()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(5):
            reader, writer = await stage.socket()
            writer.write(struct.pack(">i", size) + b"\0\x24\0\2\0\0\0\1")
            assert await until_end(reader) == b""
            writer.close()
        assert tracemalloc.get_traced_memory()[1] - before < 1_000_000
    finally:
        tracemalloc.stop()


async def test_s17_token_after_success(stage: Stage) -> None:
    """Refused, and the connection stays."""
    client = await stage.logged_in()
    assert (await send_token(client, BOB)).error_code == ILLEGAL
    assert (await handshake(client)).error_code == ILLEGAL
    assert (await metadata(client)).brokers


async def test_a_listener_without_authentication(client: KafkaConnection) -> None:
    assert (await handshake(client)).error_code == ILLEGAL
    assert (await send_token(client, BOB)).error_code == ILLEGAL
    assert (await metadata(client)).brokers


@logging_in(sessions_s=SESSIONS_S)
async def test_logins_are_counted_by_mechanism_and_result(stage: Stage) -> None:
    client = await stage.connect()
    await handshake(client)
    assert stage.listener.waiting_logins == 1
    await send_token(client, BOB)
    assert (stage.listener.waiting_logins, stage.listener.open_connections) == (0, 1)
    turned_back(stage, 2.0)
    await handshake(client)
    await send_token(client, BOB)
    stranger, refused = await stage.connect(), await stage.connect()
    await handshake(stranger, "not one of ours")
    await handshake(refused)
    await send_token(refused, b"\0bob\0wrong")

    assert stage.listener.counts.logins == {
        ("PLAIN", "success", False): 1,
        ("PLAIN", "success", True): 1,
        ("PLAIN", "failure", False): 1,
        ("none", "failure", False): 1,
    }
    text = render(listener_metrics([stage.listener]))
    assert (
        'jbodlab_authentications_total{listener="CLIENTS",mechanism="PLAIN",result="failure"} 1'
        in text
    )
    assert "not one of ours" not in text


@logging_in(sessions_s={"SCRAM-SHA-256": 3.0})
async def test_a_session_lasts_as_long_as_its_mechanism_says(stage: Stage) -> None:
    by_plain, by_scram = await stage.connect(), await stage.connect()
    await handshake(by_plain)
    plain = await send_token(by_plain, BOB)
    await handshake(by_scram, "SCRAM-SHA-256")
    login = ScramClient()
    first = await send_token(by_scram, login.first())
    scram = await send_token(by_scram, login.final(first.auth_bytes))

    assert (plain.error_code, scram.error_code) == (NONE, NONE)
    assert plain.session_lifetime.total_seconds() == 0
    assert scram.session_lifetime.total_seconds() == 3
    turned_back(stage, 4.0)
    assert (await metadata(by_plain)).brokers
    assert await is_closed(by_scram)


@logging_in(sessions_s=SESSIONS_S)
async def test_s19_renew_under_load(stage: Stage, cluster: Cluster) -> None:
    """Requests in flight are answered first, in order; the connection stays."""
    client = await stage.connect()
    await handshake(client)
    assert (await send_token(client, BOB)).session_lifetime.total_seconds() == 600
    turned_back(stage, 2.0)
    partition = TopicPartition("t", 0)
    cluster.publish_topic("t")
    held = asyncio.get_running_loop().create_future()
    cluster.replicas.results["append"] = held
    answered: list[str] = []

    async def noted(name: str, call: Coroutine[Any, Any, Any]) -> Any:
        answer = await call
        answered.append(name)
        return answer

    names = [f"produce {number}" for number in range(8)]
    produced = [
        asyncio.create_task(
            noted(name, client.call(ApiKey.PRODUCE, 12, produce_to((partition, batch()))))
        )
        for name in names
    ]
    await called(cluster.replicas.calls)
    renewed = asyncio.create_task(noted("handshake", handshake(client)))
    await asyncio.sleep(0.05)
    assert not answered
    held.set_result([AppendResult(topic_partition=partition, base_offset=7)])

    assert (await renewed).error_code == NONE
    assert (await noted("token", send_token(client, BOB))).error_code == NONE
    answers = await asyncio.gather(*produced)
    assert answered == [*names, "handshake", "token"]
    for answer in answers:
        assert int(answer.responses[0].partition_responses[0].error_code) == 0
    assert len(cluster.replicas.calls) == 8
    assert (await metadata(client)).brokers
    assert len(stage.sessions) == 1


@logging_in(sessions_s=SESSIONS_S)
async def test_the_first_renewal_may_come_at_once_and_others_1_s_apart(stage: Stage) -> None:
    client = await stage.connect()
    codes = []
    for wait_s in (0.0, 0.0, 0.0, 1.0):
        turned_back(stage, wait_s)
        codes.append((await handshake(client)).error_code)
        if codes[-1] == NONE:
            await send_token(client, BOB)
    assert codes == [NONE, NONE, ILLEGAL, NONE]


@logging_in(sessions_s=SESSIONS_S)
async def test_s20_renew_wrongly(stage: Stage) -> None:
    """By another user or mechanism, twice in a second, with a request in between."""

    client = await stage.logged_in()
    assert (await handshake(client)).error_code == NONE
    assert (await send_token(client, b"\0eve\0other")).error_code == FAILED
    assert stage.sessions[-1].user == "bob"
    assert await is_closed(client)

    client = await stage.logged_in()
    assert (await handshake(client, "SCRAM-SHA-256")).error_code == FAILED
    assert await is_closed(client)

    client = await stage.logged_in()
    assert (await handshake(client)).error_code == NONE
    assert not (await metadata(client)).brokers
    assert await is_closed(client)

    client = await stage.logged_in()
    assert (await handshake(client)).error_code == NONE
    assert (await send_token(client, BOB)).error_code == NONE
    assert (await handshake(client)).error_code == ILLEGAL
    assert (await metadata(client)).brokers


@pytest.mark.parametrize("version", [0, 1])
@logging_in(sessions_s=SESSIONS_S)
async def test_s21_session_expired(stage: Stage, cluster: Cluster, version: int) -> None:
    """Nothing is served after the end of the session but a new login."""
    cluster.publish_topic("t")
    client = await stage.logged_in()
    turned_back(stage, 601.0)
    await handshake(client)
    await send_token(client, BOB)
    assert (await metadata(client)).brokers

    reader, writer = await stage.socket()
    writer.write(b"\0\0\0\x12\0\x11\0%c\0\0\0\1\0\1c\0\5PLAIN" % version)
    await reader.readexactly(struct.unpack(">i", await reader.readexactly(4))[0])
    raw = struct.pack(">i", len(BOB)) + BOB
    if version:
        raw = bytes.fromhex("00000016 0024 0001 00000002 0001 63 00000007") + BOB
    writer.write(raw)
    await reader.readexactly(struct.unpack(">i", await reader.readexactly(4))[0])
    assert stage.sessions[-1].user == "bob"
    turned_back(stage, 601.0)
    writer.write(produce_frame())
    assert await until_end(reader) == b""
    assert not cluster.replicas.calls


def produce_frame() -> bytes:
    request = produce_to((TopicPartition("t", 0), batch()))
    body = encode(api_table.request_class(ApiKey.PRODUCE, 12), request)
    frame = request_header(ApiKey.PRODUCE, 12, 3, "c") + body
    return struct.pack(">i", len(frame)) + frame


def turned_back(stage: Stage, seconds: float) -> None:
    """Let the sessions be older than they are."""
    for session in stage.sessions:
        assert session.authentication is not None
        session.authentication._since_s -= seconds
        session.authentication._until_s -= seconds
        session.authentication._renewed_s -= seconds


async def test_too_many_tokens_and_requests_for_versions(stage: Stage) -> None:
    client = await stage.connect()
    for _ in range(4):
        await versions(client)
    assert await is_closed(client)


@pytest.mark.parametrize("sends", [True, False])
async def test_s16_slow_auth(stage: Stage, monkeypatch: pytest.MonkeyPatch, sends: bool) -> None:
    """Bytes do not extend the deadline of a step of a login."""
    assert waiting_logins.LOGIN_S_MAX == 10.0
    monkeypatch.setattr(waiting_logins, "LOGIN_S_MAX", 0.3)
    monkeypatch.setattr(waiting_logins, "LOGIN_LOOK_S", 0.05)
    good = await stage.logged_in()
    reader, writer = await stage.socket()
    begun_s = asyncio.get_running_loop().time()
    writer.write(bytes.fromhex("00000012 0011 0001 00000001 0001 63 0005 504c41494e"))
    await reader.readexactly(struct.unpack(">i", await reader.readexactly(4))[0])
    end = asyncio.create_task(until_end(reader))
    # Of a token that never comes.
    size = [b"\0", b"\0", b"\x10", b"\0"]
    while not end.done():
        if sends:
            writer.write(size.pop(0) if size else b"\0")
        await asyncio.sleep(0.01)
    assert await end == b""
    assert asyncio.get_running_loop().time() - begun_s >= 0.25
    assert stage.listener.counts.rejected == {"login_timeout": 1}
    assert (await metadata(good)).brokers


@logging_in(find=lambda *_: None)
async def test_s18_login_storm(stage: Stage) -> None:
    """Wrong logins, all at once, keep the loop for a moment each."""
    sockets = [await stage.socket() for _ in range(50)]
    for reader, writer in sockets:
        await asked(reader, writer, 17, b"\0\x0dSCRAM-SHA-256")
    longest_s, storming = 0.0, True

    async def watch() -> None:
        nonlocal longest_s
        while storming:
            begun_s = time.thread_time()
            await asyncio.sleep(0)
            longest_s = max(longest_s, time.thread_time() - begun_s)

    async def storm(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> int:
        first = await asked(reader, writer, 36, sized(b"n,,n=user,r=x"))
        nonce = first[first.index(b"r=") + 2 :].partition(b",")[0]
        final = b"c=biws,r=%s,p=%s" % (nonce, base64.b64encode(bytes(32)))
        last = await asked(reader, writer, 36, sized(final))
        return int.from_bytes(last[4:6], "big")

    # The collector does not look at all that other tests have left in this process.
    gc.freeze()
    try:
        watching = asyncio.create_task(watch())
        codes = await asyncio.gather(*(storm(*each) for each in sockets))
        storming = False
        await watching
    finally:
        gc.unfreeze()
    assert codes == [FAILED] * 50
    assert longest_s < 0.05


def sized(token: bytes) -> bytes:
    return struct.pack(">i", len(token)) + token


async def asked(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, key: int, body: bytes
) -> bytes:
    """Send a request of version 1; returns the answer, from the correlation id on."""
    writer.write(sized(struct.pack(">hhi", key, 1, 1) + b"\0\1c" + body))
    return await reader.readexactly(struct.unpack(">i", await reader.readexactly(4))[0])


async def test_a_failed_login_is_told_once_a_minute_and_begins_no_line_of_its_own(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        client = await stage.connect()
        await handshake(client)
        await send_token(client, b"\0b\nb\0wrong")
        client.close()
    assert stage.listener.counts.logins == {("PLAIN", "failure", False): 3}
    (record,) = (each for each in caplog.records if "login failed" in each.message)
    line = log_lines.OneLine().format(record)
    assert line == "a login failed: wrong password of b\\nb, or there is no such user"


async def test_where_too_many_have_not_logged_in_the_silent_ones_make_room(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting_logins, "LOGINS_MAX", 4)
    good = await stage.logged_in()
    silent = [await stage.connect() for _ in range(3)]
    slow = await stage.connect()

    newest = asyncio.create_task(stage.logged_in())
    for _ in range(4):
        await asyncio.sleep(0.3)
        await versions(slow)

    assert (await metadata(await newest)).brokers
    assert [await is_closed(each) for each in silent] == [True, True, True]
    await handshake(slow)
    assert (await send_token(slow, BOB)).error_code == NONE
    assert (await metadata(good)).brokers
    assert stage.listener.counts.rejected == {"too_many_logins": 3}


async def test_all_clients_that_log_in_at_the_same_instant_are_served(stage: Stage) -> None:
    clients = await asyncio.gather(*(stage.logged_in() for _ in range(200)))

    for each in clients:
        assert (await metadata(each)).brokers
        each.close()
    assert stage.listener.counts.rejected == {}


async def test_half_requests_of_unknown_clients_take_so_much_memory_only(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting_logins, "LOGIN_BYTES_MAX", 1 << 20)
    monkeypatch.setattr(waiting_logins, "LOGIN_LOOK_S", 0.1)
    begun = [await stage.socket() for _ in range(6)]
    for _, writer in begun:
        writer.write(struct.pack(">ihhi", 500_000, 18, 3, 1) + bytes(200_000))

    assert [await until_end(reader) for reader, _ in begun] == [b""] * 6

    assert stage.listener.counts.rejected == {"too_many_logins": 6}


async def test_s22_user_deleted(stage: Stage) -> None:
    """Sessions that hold no longer are closed, others go on."""
    clients = [await stage.logged_in(token) for token in (BOB, b"\0eve\0other")]
    stage.listener.close_sessions(lambda login: login.user == "bob")
    assert [await is_closed(each) for each in clients] == [True, False]
