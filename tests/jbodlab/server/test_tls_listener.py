"""A listener that encrypts, byte by byte on real sockets: the cases T01 to T21 of a listener."""

from __future__ import annotations

import asyncio
import datetime
import gc
import logging
import ssl
import struct
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import uvloop

from jbodlab.config.tls_keys import listener_tls
from jbodlab.runtime.machine import MachineThreads, system_environment
from jbodlab.security import tls_files
from jbodlab.security.acl import ANONYMOUS
from jbodlab.security.scram import Decoys
from jbodlab.security.tls_settings import SUITES, TlsSettings
from jbodlab.server.authentication import SaslSettings
from jbodlab.server.bounds import Bounds
from jbodlab.server.connection import Connection
from jbodlab.server.helper_thread import HelperThread
from jbodlab.server.listener import Listener
from jbodlab.server.listener_counts import TOO_MANY_LOGINS
from jbodlab.server.listener_tls import ListenerTls
from jbodlab.server.open_connections import ConnectionLimits
from jbodlab.server.session import Session
from jbodlab.server.tls_watch import TlsWatch, certificate_metrics
from jbodlab.vocabulary.limits import ACCEPTED_MAX, LOGINS_MAX
from tests.certificates import DAY, SERVER_ONLY, Authority, Issued, now
from tests.waiting import runner_on

DEADLINE_S = 10.0
TLS_1_2, TLS_1_3 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3


def framed(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


class EchoHandler:
    """Answers a frame with itself, or with so many bytes as it asks for; keeps the sessions."""

    def __init__(self) -> None:
        self.sessions: list[Session] = []
        self.frames: list[bytes] = []

    def is_pipelined(self, frame: memoryview) -> bool:
        return False

    def admit(self, start: memoryview, size_bytes: int) -> None:
        pass

    def handle(self, frame: memoryview, session: Session) -> Any:
        self.sessions.append(session)
        self.frames.append(bytes(frame[:64]))
        if frame[:4] == b"size":
            size = int(bytes(frame[4:]))
            return (struct.pack(">i", size), bytes(size))
        return (framed(bytes(frame)),)


class Stage:
    """An authority, a listener, and clients of both kinds."""

    def __init__(
        self, folder: Path, ca: Authority, limits: ConnectionLimits | None = None, **properties: str
    ) -> None:
        self.folder = folder
        self.ca = ca
        self.handler = EchoHandler()
        ends = properties.pop("follows_certificates", "") == "yes"
        self.server = ca.issue("broker-1", is_rsa=properties.pop("rsa", "") == "yes")
        self.server.write(folder / "server.pem")
        ca.write(folder / "ca.pem")
        self.properties = {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(folder / "server.pem"),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(folder / "ca.pem"),
            **{key.replace("_", "."): value for key, value in properties.items()},
        }
        self.tls = ListenerTls("CLIENTS", self.settings(), now, follows_certificates=ends)
        bounds = Bounds(system_environment(), limits)
        self.listener = Listener("CLIENTS", "127.0.0.1", 0, self.handler, bounds, tls=self.tls)
        self.helper = HelperThread(MachineThreads(), "certificates")

    def settings(self) -> TlsSettings:
        return listener_tls(self.properties, "listener.name.clients.", logs_in=False)

    def context(self, user: Issued | None = None, ca: Authority | None = None) -> ssl.SSLContext:
        context = ssl.create_default_context(cadata=(ca or self.ca).pem)
        if user is not None:
            context.load_cert_chain(user.write(self.folder / "user.pem"))
        return context

    async def connect(
        self, context: ssl.SSLContext
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(
            "127.0.0.1", self.listener.port, ssl=context, server_hostname="localhost"
        )

    async def raw(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.listener.port)

    async def principal(self, context: ssl.SSLContext) -> str:
        """Send a request; returns for whom it was."""
        reader, writer = await self.connect(context)
        try:
            assert await exchange(reader, writer, b"who am I?") == b"who am I?"
            return self.handler.sessions[-1].user
        finally:
            await closed(writer)

    async def refusal(self, context: ssl.SSLContext) -> str:
        """Connect and read; returns why that fails."""
        try:
            reader, writer = await self.connect(context)
            try:
                writer.write(framed(b"who am I?"))
                assert await reader.read(1) == b""
            finally:
                await closed(writer)
        except (ssl.SSLError, ConnectionError) as error:
            return getattr(error, "reason", None) or type(error).__name__
        return "closed"


async def exchange(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, payload: bytes
) -> bytes:
    writer.write(framed(payload))
    size = struct.unpack(">i", await reader.readexactly(4))[0]
    return await reader.readexactly(size)


async def closed(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(ssl.SSLError, ConnectionError):
        await writer.wait_closed()


@pytest.fixture(scope="module")
def ca() -> Authority:
    return Authority()


runner = runner_on(uvloop.new_event_loop, asyncio.new_event_loop)


def listening(**properties: str) -> pytest.MarkDecorator:
    """Give the listener of a test these settings."""
    name = next(iter(properties.values()))
    return pytest.mark.parametrize("stage", [properties], indirect=True, ids=[name])


@pytest.fixture
async def stage(
    request: pytest.FixtureRequest, tmp_path: Path, ca: Authority
) -> AsyncIterator[Stage]:
    made = Stage(tmp_path, ca, **getattr(request, "param", {}))
    await made.listener.start()
    try:
        async with asyncio.timeout(3 * DEADLINE_S):
            yield made
            # After every case a good client is served, and nothing is left.
            assert await made.principal(made.context(ca.issue("good")))
            for _ in range(200):
                if not made.listener._connections:
                    break
                await asyncio.sleep(0.01)
            assert not made.listener._connections
            assert not made.listener.waiting_logins
    finally:
        made.helper.close()
        await made.listener.close()


@pytest.mark.parametrize(
    "words",
    [b"\x00\x00\x00\x0e\x00\x12\x00\x00\x00\x00\x00\x01\x00\x04test", b"GET / HTTP/1.1\r\n\r\n"],
)
async def test_t01_plaintext_to_tls_port_is_closed_at_once_and_counted(
    stage: Stage, words: bytes
) -> None:
    reader, writer = await stage.raw()
    writer.write(words)

    async with asyncio.timeout(0.5):
        got = await reader.read()

    assert got == b"" or got[0] == 0x15
    assert stage.tls.failures == {"not_tls": 1}
    assert not stage.handler.frames
    await closed(writer)


@pytest.mark.parametrize("logs_in", [False, True])
async def test_t02_tls_to_a_plaintext_port_is_closed_at_once(
    tmp_path: Path, ca: Authority, *, logs_in: bool
) -> None:
    stage = Stage(tmp_path, ca)
    sasl = SaslSettings(
        mechanisms=("PLAIN",),
        passwords={},
        find=lambda *_: None,
        decoys=Decoys(secret=b"s"),
        random_bytes=bytes,
    )
    bounds = Bounds(system_environment())
    plain = Listener("PLAIN", "127.0.0.1", 0, stage.handler, bounds, sasl if logs_in else None)
    await plain.start()
    hello = client_hello(stage)
    assert struct.unpack(">i", hello[:4])[0] > 369_000_000
    for words in (hello, b"GET / HTTP/1.1\r\n\r\n"):
        reader, writer = await asyncio.open_connection("127.0.0.1", plain.port)
        writer.write(words)
        async with asyncio.timeout(0.5):
            with suppress(ConnectionError):
                assert await reader.read() == b""
        await closed(writer)
    assert not stage.handler.frames
    await plain.close()
    stage.helper.close()


async def test_t03_a_half_handshake_is_closed_at_the_deadline_and_bytes_do_not_extend_it(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jbodlab.server.waiting_logins.LOGIN_S_MAX", 0.4)
    monkeypatch.setattr("jbodlab.server.waiting_logins.LOGIN_LOOK_S", 0.1)
    hello = client_hello(stage)
    silent, drips = await stage.raw(), await stage.raw()
    silent[1].write(hello[:40])
    loop = asyncio.get_running_loop()
    start_s = loop.time()
    drips[1].write(hello[:1])

    async def drip() -> None:
        for each in hello[1:]:
            drips[1].write(bytes([each]))
            await asyncio.sleep(0.05)

    dripping = asyncio.create_task(drip())
    for reader, _ in (silent, drips):
        with suppress(ConnectionError):
            assert await reader.read() == b""
    assert 0.3 < loop.time() - start_s < 2.0
    dripping.cancel()
    await closed(silent[1])
    await closed(drips[1])


def client_hello(stage: Stage) -> bytes:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = stage.context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


async def test_t04_a_good_client_is_served_within_a_flood_of_half_handshakes(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jbodlab.server.waiting_logins.LOGINS_MAX", 200)
    hello = client_hello(stage)
    flood = await asyncio.gather(*(stage.raw() for _ in range(500)))
    for _, writer in flood:
        writer.write(hello[:60])
    loop = asyncio.get_running_loop()

    start_s = loop.time()
    assert await stage.principal(stage.context()) == ANONYMOUS

    assert loop.time() - start_s < 4.0
    assert stage.listener.waiting_logins < 200 + ACCEPTED_MAX
    assert stage.listener.counts.rejected[TOO_MANY_LOGINS]
    # The oldest half ones are closed.
    with suppress(ConnectionError):
        assert await flood[0][0].read() == b""
    for _, writer in flood:
        await closed(writer)


@pytest.mark.parametrize("room", [LOGINS_MAX, 20])
async def test_all_clients_that_connect_at_the_same_instant_are_served(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    """Also where there is room for a few logins only: the others wait for it."""
    monkeypatch.setattr("jbodlab.server.waiting_logins.LOGINS_MAX", room)
    context = stage.context()

    async def client(number: int) -> bytes:
        reader, writer = await stage.connect(context)
        answer = await exchange(reader, writer, b"client %d" % number)
        await closed(writer)
        return answer

    answers = await asyncio.gather(*map(client, range(200)))

    assert answers == [b"client %d" % number for number in range(200)]
    assert stage.listener.counts.rejected == {}
    assert stage.tls.failures == {}


async def test_a_client_that_waits_for_its_turn_is_not_silent(
    tmp_path: Path, ca: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jbodlab.server.waiting_logins.LOGIN_S_MAX", 0.3)
    monkeypatch.setattr("jbodlab.server.waiting_logins.LOGIN_LOOK_S", 0.05)
    stage = Stage(tmp_path, ca, limits=ConnectionLimits(total=1))
    await stage.listener.start()
    reader, writer = await stage.connect(stage.context())
    assert await exchange(reader, writer, b"first ...") == b"first ..."
    second = asyncio.create_task(stage.principal(stage.context()))
    await asyncio.sleep(1.0)
    assert not second.done()
    await closed(writer)
    assert await second == ANONYMOUS
    assert stage.listener.counts.rejected == {}
    stage.helper.close()
    await stage.listener.close()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
async def test_t05_old_protocol_versions_get_an_alert(
    stage: Stage, version: ssl.TLSVersion
) -> None:
    context = stage.context()
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version = context.maximum_version = version

    assert await stage.refusal(context) == "TLSV1_ALERT_PROTOCOL_VERSION"
    assert stage.tls.failures == {"protocol_version": 1}


@pytest.mark.parametrize(
    ("suite", "stage"),
    [(suite, {"rsa": "" if "ECDSA" in suite else "yes"}) for suite in SUITES],
    indirect=["stage"],
    ids=[*SUITES],
)
async def test_t05_each_allowed_suite_of_1_2_is_served(stage: Stage, suite: str) -> None:
    context = stage.context()
    context.minimum_version = context.maximum_version = TLS_1_2
    context.set_ciphers(SUITES[suite])
    reader, writer = await stage.connect(context)

    assert await exchange(reader, writer, b"0123456789") == b"0123456789"
    assert writer.get_extra_info("cipher")[0] == SUITES[suite]
    await closed(writer)


async def test_t05_1_3_is_served(stage: Stage) -> None:
    reader, writer = await stage.connect(stage.context())

    assert await exchange(reader, writer, b"0123456789") == b"0123456789"
    assert writer.get_extra_info("ssl_object").version() == "TLSv1.3"
    await closed(writer)


@pytest.mark.parametrize("version", [TLS_1_2, TLS_1_3])
@listening(ssl_client_auth="required")
async def test_t06_a_missing_client_certificate_gets_an_alert(
    stage: Stage, version: ssl.TLSVersion
) -> None:
    expected = {
        TLS_1_2: "SSLV3_ALERT_HANDSHAKE_FAILURE",
        TLS_1_3: "TLSV13_ALERT_CERTIFICATE_REQUIRED",
    }
    context = stage.context()
    context.minimum_version = context.maximum_version = version

    assert await stage.refusal(context) == expected[version]
    assert stage.tls.failures == {"no_certificate": 1}
    assert not stage.handler.frames


@listening(ssl_client_auth="required")
async def test_t07_a_foreign_client_certificate_is_refused(stage: Stage) -> None:
    foreign = Authority("another CA").issue("mallory")
    pretended = Authority("CA").issue("mallory")

    assert await stage.refusal(stage.context(foreign)) == "TLSV1_ALERT_UNKNOWN_CA"
    assert await stage.refusal(stage.context(pretended)) in (
        "TLSV1_ALERT_UNKNOWN_CA",
        "TLSV1_ALERT_DECRYPT_ERROR",
        "SSLV3_ALERT_BAD_CERTIFICATE",
    )
    assert stage.tls.failures == {"certificate": 2}
    assert not stage.handler.frames


@listening(ssl_client_auth="REQUIRED")
async def test_t08_dates_of_client_certificates_are_checked(stage: Stage) -> None:
    expired = stage.ca.issue("alice", valid_from=-3 * DAY, valid_to=-DAY)
    early = stage.ca.issue("alice", valid_from=DAY, valid_to=2 * DAY)

    assert await stage.refusal(stage.context(expired)) == "SSLV3_ALERT_CERTIFICATE_EXPIRED"
    assert await stage.refusal(stage.context(early)) == "SSLV3_ALERT_BAD_CERTIFICATE"
    assert not stage.handler.frames


@pytest.mark.parametrize(
    "stage",
    [
        {"ssl_client_auth": "requested", "follows_certificates": "yes"},
        {"ssl_client_auth": "requested", "follows_certificates": "no"},
    ],
    indirect=True,
    ids=["ends", "stays"],
)
async def test_a_connection_ends_with_the_clients_certificate_where_that_is_asked_for(
    stage: Stage, request: pytest.FixtureRequest
) -> None:
    # Certificates know whole seconds.
    reader, writer = await stage.connect(
        stage.context(stage.ca.issue("alice", valid_to=datetime.timedelta(seconds=2)))
    )
    assert await exchange(reader, writer, b"before it") == b"before it"
    has_ended = asyncio.create_task(reader.read(1))
    await asyncio.sleep(2.2)

    if "ends" in request.node.callspec.id:
        assert await asyncio.wait_for(has_ended, DEADLINE_S) == b""
        assert not stage.listener._connections
    else:
        assert not has_ended.done()
        has_ended.cancel()
    await closed(writer)


@listening(follows_certificates="yes")
async def test_a_connection_ends_with_the_listeners_certificate_where_that_is_asked_for(
    stage: Stage,
) -> None:
    reader, writer = await stage.connect(stage.context())
    assert await exchange(reader, writer, b"before it") == b"before it"
    stage.ca.issue("broker-1").write(stage.folder / "server.pem")

    for _ in range(2):
        await stage.tls.context.look(stage.helper.run)

    assert await asyncio.wait_for(reader.read(1), DEADLINE_S) == b""
    await closed(writer)


@listening(follows_certificates="yes", ssl_client_auth="requested")
async def test_a_connection_that_is_closed_keeps_no_timer(stage: Stage) -> None:
    gc.collect()
    before = connections()
    assert await stage.principal(stage.context(stage.ca.issue("alice"))) == "CN=alice"
    for _ in range(200):
        if not stage.listener._connections:
            break
        await asyncio.sleep(0.01)
    gc.collect()
    assert connections() <= before


def connections() -> set[int]:
    """The ids of all that there are, those of other tests in this process included."""
    return {id(each) for each in gc.get_objects() if isinstance(each, Connection)}


@listening(ssl_client_auth="requested")
async def test_t09_a_requested_certificate_may_be_missing_but_not_bad(stage: Stage) -> None:
    assert await stage.principal(stage.context()) == ANONYMOUS
    assert await stage.principal(stage.context(stage.ca.issue("alice"))) == "CN=alice"
    foreign = Authority("another CA").issue("mallory")
    assert await stage.refusal(stage.context(foreign)) == "TLSV1_ALERT_UNKNOWN_CA"


@listening(ssl_client_auth="required")
async def test_t10_a_certificate_for_servers_only_is_refused(stage: Stage) -> None:
    server = stage.ca.issue("alice", purposes=SERVER_ONLY)

    assert "ALERT" in await stage.refusal(stage.context(server))
    assert stage.tls.failures == {"certificate": 1}


@listening(
    ssl_client_auth="required",
    ssl_principal_mapping_rules="RULE:^CN=(Broker-.*|good)$/$1/L",
)
async def test_t11_who_is_named_by_no_mapping_rule_is_closed_and_counted(stage: Stage) -> None:
    assert await stage.principal(stage.context(stage.ca.issue("Broker-7"))) == "broker-7"
    await stage.refusal(stage.context(stage.ca.issue("alice")))
    assert stage.tls.failures == {"no_principal": 1}
    assert len(stage.handler.frames) == 1


async def test_t14_a_new_certificate_is_shown_to_new_connections_and_old_ones_go_on(
    stage: Stage,
) -> None:
    reader, writer = await stage.connect(stage.context())
    assert await exchange(reader, writer, b"before it") == b"before it"
    renewed = stage.ca.issue("broker-1", hosts=("localhost", "127.0.0.1", "more.example"))
    renewed.write(stage.folder / "server.pem")

    await stage.tls.context.look(stage.helper.run)
    assert stage.tls.context.reloads == {}
    await stage.tls.context.look(stage.helper.run)

    assert stage.tls.context.reloads == {"taken": 1}
    assert await exchange(reader, writer, b"after it!") == b"after it!"
    _, other = await stage.connect(stage.context())
    assert other.get_extra_info("ssl_object").getpeercert(True) == renewed.der
    assert stage.tls.context.certificate is not None
    expiry = renewed.certificate.not_valid_after_utc
    assert stage.tls.context.certificate.not_after == expiry
    await closed(writer)
    await closed(other)


async def test_t15_a_half_written_key_store_is_not_used_and_said_once(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    renewed = stage.ca.issue("broker-1")
    path = stage.folder / "server.pem"
    path.write_text(renewed.private_key() + stage.server.chain)
    for _ in range(5):
        await stage.tls.context.look(stage.helper.run)
    assert stage.tls.context.reloads == {"failed": 1}
    assert [each.levelname for each in caplog.records] == ["ERROR"]
    assert "private key is not that of the certificate" in caplog.text
    assert await stage.principal(stage.context()) == ANONYMOUS

    renewed.write(path)
    for _ in range(2):
        await stage.tls.context.look(stage.helper.run)

    assert stage.tls.context.reloads == {"failed": 1, "taken": 1}


@pytest.mark.parametrize(
    ("is_allowed", "stage"),
    [
        (False, {"ssl_allow_dn_changes": "false", "ssl_allow_san_changes": "false"}),
        (True, {"ssl_allow_dn_changes": "true", "ssl_allow_san_changes": "true"}),
    ],
    indirect=["stage"],
    ids=["refused", "allowed"],
)
async def test_t16_another_subject_or_a_missing_name_is_refused_unless_allowed(
    stage: Stage, *, is_allowed: bool
) -> None:

    for renewed in (
        stage.ca.issue("broker-2"),
        stage.ca.issue("broker-2" if is_allowed else "broker-1", hosts=("localhost",)),
    ):
        renewed.write(stage.folder / "server.pem")
        for _ in range(2):
            await stage.tls.context.look(stage.helper.run)
    assert stage.tls.context.reloads == ({"taken": 2} if is_allowed else {"failed": 2})


@listening(ssl_client_auth="required")
async def test_t17_an_authority_that_is_no_longer_trusted_lets_nobody_in(stage: Stage) -> None:
    def resumed(stage: Stage, context: ssl.SSLContext, session: Any) -> bool | None:
        """Try to take up a session in memory; None where it is refused."""
        layer = tls_files.server_context(stage.settings(), tls_files.read(stage.settings(), now()))
        to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = context.wrap_bio(
            to_client, to_server, server_hostname="localhost", session=session
        )
        server = layer.wrap_bio(to_server, to_client, server_side=True)
        for _ in range(4):
            for each in (client, server):
                with suppress(ssl.SSLWantReadError):
                    try:
                        each.do_handshake()
                    except ssl.SSLError:
                        return None
        return client.session_reused

    alice = stage.ca.issue("alice")
    for version in (TLS_1_2, TLS_1_3):
        context = stage.context(alice)
        context.minimum_version = context.maximum_version = version
        other = Authority("new CA")
        other.write(stage.folder / "ca.pem")
        reader, writer = await stage.connect(context)
        assert await exchange(reader, writer, b"whoami???") == b"whoami???"
        session = writer.get_extra_info("ssl_object").session
        await closed(writer)
        assert not session.has_ticket
        for _ in range(2):
            await stage.tls.context.look(stage.helper.run)

        assert stage.tls.context.reloads["taken"]
        assert resumed(stage, context, session) is None
        stage.ca.write(stage.folder / "ca.pem")
        for _ in range(2):
            await stage.tls.context.look(stage.helper.run)


@pytest.mark.parametrize("at_once", [1, 2, 10])
async def test_t19_a_reader_that_stops_costs_one_answer_and_delays_nobody(
    stage: Stage, at_once: int
) -> None:
    reader, writer = await stage.connect(stage.context())
    for _ in range(0, 10, at_once):
        writer.write(framed(b"size10000000") * at_once)
        await asyncio.sleep(0.05)
    loop = asyncio.get_running_loop()
    start_s = loop.time()
    assert await stage.principal(stage.context()) == ANONYMOUS
    assert loop.time() - start_s < 0.5
    [slow] = stage.listener._connections
    waiting = slow._transport.get_write_buffer_size()
    assert waiting <= 10_000_000 + (1 << 20)
    assert len([each for each in stage.handler.frames if each.startswith(b"size")]) <= 2

    for _ in range(10):
        size = struct.unpack(">i", await reader.readexactly(4))[0]
        assert await reader.readexactly(size) == bytes(size)
    await closed(writer)


async def test_t20_a_connection_cut_in_a_frame_leaves_nothing(stage: Stage) -> None:
    _, writer = await stage.connect(stage.context())
    writer.write(framed(b"half of a frame")[:10])
    await asyncio.sleep(0.1)
    writer.transport.abort()
    await asyncio.sleep(0.1)

    assert not stage.handler.frames
    assert not stage.listener._connections


async def test_large_requests_come_in_whole(stage: Stage) -> None:
    reader, writer = await stage.connect(stage.context())
    payload = bytes(range(256)) * 20_000

    assert await exchange(reader, writer, payload) == payload
    for count in (1, 8, 100, 16_384, 65_535, 65_536, 70_000):
        assert await exchange(reader, writer, b"x" * (8 + count)) == b"x" * (8 + count)
    await closed(writer)


def test_a_listener_with_an_expired_certificate_is_not_made(tmp_path: Path, ca: Authority) -> None:
    expired = ca.issue("broker-1", valid_from=-3 * DAY, valid_to=-DAY)
    settings = listener_tls(
        {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(expired.write(tmp_path / "server.pem")),
        },
        "",
        logs_in=False,
    )
    with pytest.raises(Exception, match=r"ssl\.keystore\.location: its certificate has expired"):
        ListenerTls("CLIENTS", settings, now)
    later = ListenerTls("CLIENTS", settings, lambda: now() - 2 * DAY)
    assert later.context.seconds_left() == pytest.approx(86_400, abs=60)


async def test_t21_a_certificate_that_expires_is_warned_of_before(
    tmp_path: Path, ca: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    soon = ca.issue("broker-1", valid_to=DAY)
    settings = listener_tls(
        {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(soon.write(tmp_path / "server.pem")),
        },
        "",
        logs_in=False,
    )
    listener = ListenerTls("CLIENTS", settings, now)
    watch = TlsWatch([listener.context], system_environment().threads, 0.01)
    watch.start()
    async with asyncio.timeout(10):
        while not caplog.messages:  # noqa: ASYNC110 - a line of the log is no event
            await asyncio.sleep(0.01)
    await asyncio.sleep(0.1)
    await watch.stop()

    (line,) = caplog.messages
    assert line.startswith("a certificate expires at")
    expiry = next(each for each in certificate_metrics([listener.context]))
    ((_, labels, seconds),) = expiry.samples
    assert labels == {"listener": "CLIENTS"}
    assert 0 < seconds <= 86_400
