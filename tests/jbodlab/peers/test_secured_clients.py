"""The own client over TLS and after a login, on real sockets."""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import datetime
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from kio.schema.metadata.v1.request import MetadataRequest

from jbodlab.config.tls_keys import client_tls, listener_tls
from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.peers import peer_pool
from jbodlab.peers.client import KafkaConnection, PeerRefusedError
from jbodlab.peers.client_security import ClientSecurity, Login
from jbodlab.peers.peer_pool import PeerPool
from jbodlab.runtime.machine import system_environment
from jbodlab.security import tls_files
from jbodlab.security.scram import (
    MECHANISMS,
    Decoys,
    ScramCredential,
    ScramMechanism,
    credential,
    salted_password,
)
from jbodlab.security.scram_client import ScramClient
from jbodlab.security.secret import Secret
from jbodlab.server.authentication import SaslSettings
from jbodlab.server.bounds import Bounds
from jbodlab.server.listener import Listener
from jbodlab.server.listener_tls import ListenerTls
from jbodlab.vocabulary.errors import AuthenticationError
from tests.broker.api.conftest import Cluster, client_apis
from tests.certificates import DAY, Authority, Issued, now

DEADLINE_S = 10.0
SALT = b"saltsalt"


@pytest.fixture(scope="module")
def ca() -> Authority:
    return Authority()


def find(mechanism: ScramMechanism, user: str) -> ScramCredential | None:
    if user != "a,b=c":
        return None
    return credential(mechanism, salted_password(mechanism, "pencil", SALT, 4096), SALT, 4096)


@asynccontextmanager
async def serving(
    tmp_path: Path,
    issued: Issued,
    *,
    session_s: float = 0.0,
    logs_in: bool = True,
    client_auth: str = "none",
) -> AsyncIterator[Listener]:
    cluster = Cluster()
    cluster.publish_brokers(1)
    apis = client_apis(cluster, auto_create_topics=False)
    settings = listener_tls(
        {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(issued.write(tmp_path / "server.pem")),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": Authority("of clients").pem,
            "ssl.client.auth": client_auth,
        },
        "",
        logs_in=logs_in,
    )
    sasl = SaslSettings(
        mechanisms=("PLAIN", *MECHANISMS),
        passwords={"bob": Secret("pw")},
        find=find,
        decoys=Decoys(secret=b"s"),
        random_bytes=os.urandom,
        failure_delay_s=0.01,
        sessions_s=dict.fromkeys(("PLAIN", *MECHANISMS), session_s),
    )
    listener = Listener(
        "CLIENTS",
        "127.0.0.1",
        0,
        apis.dispatcher,
        Bounds(system_environment()),
        sasl if logs_in else None,
        ListenerTls("CLIENTS", settings, now),
    )
    await listener.start()
    try:
        yield listener
    finally:
        await listener.close()
        await apis.close()


def security(ca: Authority, login: Login | None = None) -> ClientSecurity:
    settings = client_tls({"ssl.truststore.type": "PEM", "ssl.truststore.certificates": ca.pem})
    context = tls_files.client_context(settings, tls_files.read(settings, now()))
    return ClientSecurity(tls=lambda: context, login=login, random_bytes=os.urandom)


async def metadata(connection: KafkaConnection) -> Any:
    return await connection.call(ApiKey.METADATA, 1, MetadataRequest(topics=()))


LOGINS = [
    Login(mechanism="PLAIN", user="bob", password=Secret("pw")),
    *(Login(mechanism=each, user="a,b=c", password=Secret("pencil")) for each in MECHANISMS),
]


@pytest.mark.parametrize("login", LOGINS, ids=[each.mechanism for each in LOGINS])
async def test_own_clients_log_in_over_tls_by_each_mechanism(
    tmp_path: Path, ca: Authority, login: Login
) -> None:
    async with serving(tmp_path, ca.issue()) as listener:
        pool = PeerPool("c", DEADLINE_S, security(ca, login))
        async with pool.borrowed(("localhost", listener.port)) as connection:
            assert [each.node_id for each in (await metadata(connection)).brokers] == [1]
        pool.close()


@pytest.mark.parametrize("login", LOGINS, ids=[each.mechanism for each in LOGINS])
async def test_a_refused_login_names_the_user_and_no_password(
    tmp_path: Path, ca: Authority, login: Login
) -> None:
    wrong = Login(mechanism=login.mechanism, user=login.user, password=Secret("wrong-secret"))
    async with serving(tmp_path, ca.issue()) as listener:
        with pytest.raises(ConnectionRefusedError, match="cannot log in at localhost") as caught:
            await KafkaConnection.open(
                "localhost",
                listener.port,
                client_id="c",
                timeout_s=DEADLINE_S,
                security=security(ca, wrong),
            )
        assert login.user in str(caught.value)
        assert "wrong-secret" not in str(caught.value)


async def test_a_mechanism_that_is_not_enabled_is_named(tmp_path: Path, ca: Authority) -> None:
    login = Login(mechanism="PLAIN", user="bob", password=Secret("pw"))
    async with serving(tmp_path, ca.issue(), logs_in=False) as listener:
        with pytest.raises(ConnectionRefusedError, match=r"ILLEGAL_SASL_STATE: sasl\.mechanism"):
            await PeerPool("c", DEADLINE_S, security(ca, login)).open(("localhost", listener.port))


async def test_who_refuses_a_login_is_left_alone_longer_and_longer(
    tmp_path: Path, ca: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peer_pool, "REFUSED_S", 0.2)
    wrong = Login(mechanism="PLAIN", user="bob", password=Secret("wrong"))
    ours = security(ca, wrong)
    pool, loop = PeerPool("c", DEADLINE_S, ours), asyncio.get_running_loop()
    async with serving(tmp_path, ca.issue()) as listener:
        address = ("localhost", listener.port)
        end_s, asked = loop.time() + 1.2, set()
        while loop.time() < end_s:
            with pytest.raises(ConnectionRefusedError) as caught:
                await pool.open(address)
            asked.add(str(caught.value))
            await asyncio.sleep(0.01)
        # At 0, 0.2 and 0.6 seconds, and each time the same is said.
        assert 2 <= ours.refusals[f"localhost:{listener.port}"] <= 3
        assert len(asked) == 1


async def test_the_longest_pause_may_be_a_shorter_one(
    tmp_path: Path, ca: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peer_pool, "REFUSED_S", 0.1)
    ours = security(Authority("another"))
    pool, loop = PeerPool("c", DEADLINE_S, ours, refused_s_max=0.1), asyncio.get_running_loop()
    async with serving(tmp_path, ca.issue(), logs_in=False) as listener:
        address = ("localhost", listener.port)
        end_s = loop.time() + 1.0
        while loop.time() < end_s:
            with pytest.raises(ConnectionRefusedError):
                await pool.open(address)
            await asyncio.sleep(0.01)
        # At 0, 0.1, 0.3 and 0.7 seconds with twice the pause each time.
        assert ours.refusals[f"localhost:{listener.port}"] > 4


async def test_an_idle_connection_is_used_again_with_the_same_keys_only(
    tmp_path: Path, ca: Authority
) -> None:
    contexts = [each.tls() for each in (security(ca), security(ca)) if each.tls is not None]
    ours = ClientSecurity(tls=lambda: contexts[0], random_bytes=os.urandom)
    pool = PeerPool("c", DEADLINE_S, ours)
    used = []
    async with serving(tmp_path, ca.issue(), logs_in=False) as listener:
        for _ in range(3):
            async with pool.borrowed(("localhost", listener.port)) as connection:
                await metadata(connection)
                used.append(connection)
            if len(used) == 2:
                contexts.reverse()
    pool.close()
    assert used[0] is used[1]
    assert used[1] is not used[2]
    assert not used[1].is_open


async def test_a_connection_ends_with_the_servers_certificate_where_that_is_asked_for(
    tmp_path: Path, ca: Authority
) -> None:
    # Certificates know whole seconds.
    issued = ca.issue(valid_to=datetime.timedelta(seconds=2))
    stays = security(ca)
    ends = dataclasses.replace(stays, now=now)
    async with serving(tmp_path, issued, logs_in=False) as listener:
        address = ("localhost", listener.port)
        one, other = [await PeerPool("c", DEADLINE_S, each).open(address) for each in (stays, ends)]
        await metadata(other)
        await asyncio.sleep(2.2)

        assert one.is_open
        assert not other.is_open
        with pytest.raises(PeerRefusedError, match="has expired"):
            await metadata(other)
        one.close()


async def test_a_server_whose_certificate_has_expired_by_the_clients_clock_is_refused(
    tmp_path: Path, ca: Authority
) -> None:
    ours = dataclasses.replace(security(ca), now=lambda: now() + 3 * DAY)
    async with serving(tmp_path, ca.issue(), logs_in=False) as listener:
        with pytest.raises(PeerRefusedError, match="has expired"):
            await PeerPool("c", DEADLINE_S, ours).open(("localhost", listener.port))
        for _ in range(200):
            if not listener.open_connections:
                break
            await asyncio.sleep(0.01)
        assert not listener.open_connections


async def test_a_refused_certificate_is_a_refusal_though_it_is_told_after_the_handshake(
    tmp_path: Path, ca: Authority
) -> None:
    ours = security(ca)
    pool = PeerPool("c", DEADLINE_S, ours)
    async with serving(tmp_path, ca.issue(), logs_in=False, client_auth="required") as listener:
        address = ("localhost", listener.port)
        for _ in range(3):
            with pytest.raises(ConnectionRefusedError, match="it refuses the connection: "):
                async with pool.borrowed(address) as connection:
                    await metadata(connection)
    assert ours.refusals.total() == 1


async def test_other_keys_are_tried_at_once_and_an_answer_ends_the_pause(
    tmp_path: Path, ca: Authority
) -> None:
    known = [security(Authority("another")), security(ca)]
    contexts = [each.tls() for each in known if each.tls is not None]
    ours = ClientSecurity(tls=lambda: contexts[0], random_bytes=os.urandom)
    pool = PeerPool("c", DEADLINE_S, ours)
    async with serving(tmp_path, ca.issue(), logs_in=False) as listener:
        address = ("localhost", listener.port)
        for _ in range(3):
            with pytest.raises(ConnectionRefusedError, match="not accepted"):
                await pool.open(address)
        assert ours.refusals.total() == 1
        del contexts[0]
        for _ in range(2):
            async with pool.borrowed(address) as connection:
                await metadata(connection)
        pool.close()
    assert ours.refusals.total() == 1


@pytest.mark.parametrize("login", LOGINS, ids=[each.mechanism for each in LOGINS])
async def test_a_login_that_ends_is_renewed_between_calls_in_progress(
    tmp_path: Path, ca: Authority, login: Login
) -> None:
    async with serving(tmp_path, ca.issue(), session_s=1.4) as listener:
        pool = PeerPool("c", DEADLINE_S, security(ca, login))
        connection = await pool.open(("localhost", listener.port))
        loop = asyncio.get_running_loop()
        end_s = loop.time() + 4.0
        calls = 0
        while loop.time() < end_s:
            await asyncio.gather(*(metadata(connection) for _ in range(8)))
            calls += 1
            await asyncio.sleep(0.05)
        assert calls > 10
        assert connection.is_open
        connection.close()


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
async def test_t13_own_clients_refuse_a_certificate_for_another_name(
    tmp_path: Path, ca: Authority, host: str
) -> None:
    other = ca.issue(hosts=("broker-1.example", "10.0.0.1"))
    async with serving(tmp_path, other, logs_in=False) as listener:
        with pytest.raises(ConnectionError) as caught:
            await PeerPool("c", DEADLINE_S, security(ca)).open((host, listener.port))
    assert f"cannot connect to {host}:{listener.port}" in str(caught.value)
    assert "ssl.endpoint.identification.algorithm" in str(caught.value)


async def test_own_clients_refuse_an_unknown_authority_and_plain_text(
    tmp_path: Path, ca: Authority
) -> None:
    async with serving(tmp_path, Authority("other").issue(), logs_in=False) as listener:
        with pytest.raises(ConnectionError, match=r"not accepted: .*\(see ssl\.truststore"):
            await PeerPool("c", DEADLINE_S, security(ca)).open(("localhost", listener.port))
        plain = await PeerPool("c", DEADLINE_S).open(("localhost", listener.port))
        with pytest.raises(ConnectionError):
            await metadata(plain)


async def test_t21_own_clients_refuse_an_expired_certificate(
    tmp_path: Path, ca: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    expired = ca.issue(valid_from=-3 * DAY, valid_to=-DAY)
    earlier = now() - 2 * DAY
    monkeypatch.setattr(sys.modules[__name__], "now", lambda: earlier)
    async with serving(tmp_path, expired, logs_in=False) as listener:
        with pytest.raises(ConnectionError, match="certificate has expired"):
            await PeerPool("c", DEADLINE_S, security(ca)).open(("localhost", listener.port))


def test_the_scram_client_makes_the_bytes_of_the_rfc_and_checks_the_server() -> None:
    client = ScramClient(
        ScramMechanism.SCRAM_SHA_256, "user", Secret("pencil"), "rOprNGfwEbeRWgbNEkqO"
    )
    server_first = (
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )

    assert client.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert client.final(server_first).endswith(b",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    client.check(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")
    with pytest.raises(AuthenticationError, match="does not prove"):
        client.check(b"v=" + base64.b64encode(bytes(32)))


@pytest.mark.parametrize(
    "answer",
    [
        b"r=another,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
        b"r=nonce,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
        b"r=nonce2,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=999999999",
        b"r=nonce2,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=0",
        b"r=nonce2,s=*,i=4096",
        b"e=other-error",
        b"\xff",
    ],
)
def test_a_servers_message_that_does_not_belong_to_the_login_is_refused(answer: bytes) -> None:
    client = ScramClient(ScramMechanism.SCRAM_SHA_256, "user", Secret("pencil"), "nonce")
    with pytest.raises(AuthenticationError):
        client.final(answer)


def test_nothing_of_a_login_shows_its_password() -> None:
    assert "pencil" not in repr(LOGINS)
