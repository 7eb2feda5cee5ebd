"""Certificates between brokers and controllers, on real gRPC: the cases G01 and G02."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from broker.controller_link.broker_life_rules import BrokerLifeSettings
from jbodlab.config.tls_keys import client_tls
from jbodlab.controller_api import grpc_transport, messages
from jbodlab.controller_api.grpc_server import GrpcServer
from jbodlab.controller_api.grpc_transport import GrpcTransport
from jbodlab.controller_api.rpc_tls import (
    OF_ITSELF,
    OF_ONE_BROKER,
    RpcKeys,
    RpcServerTls,
    broker_principals,
    rpc_keys,
)
from jbodlab.controller_api.transport import RpcRefusedError
from jbodlab.security import tls_files
from jbodlab.security.mapping_rules import SUBJECT_ITSELF, parse
from jbodlab.vocabulary.endpoint import Endpoint
from jbodlab.vocabulary.errors import ConfigError, ControllerUnavailableError
from lab.machine.ports import HeldPorts
from tests.certificates import DAY, Authority, now, rpc_keys_of
from tests.jbodlab.security.names import CN, C, name

PRINCIPALS = broker_principals("User:CN=broker-{id}", SUBJECT_ITSELF)


@pytest.fixture(scope="module")
def ca() -> Authority:
    return Authority()


class Answering:
    """Answers every call with an empty response, and keeps what was called."""

    def __init__(self) -> None:
        self.called: list[str] = []

    async def unary(self, method: str, message: Any) -> Any:
        self.called.append(method)
        return getattr(messages, message.DESCRIPTOR.name.replace("Request", "Response"))()

    async def stream(self, method: str, message: Any) -> AsyncIterator[Any]:
        self.called.append(method)
        yield messages.MetadataStreamResponse()
        await asyncio.Event().wait()


class Stage:
    def __init__(self, ca: Authority, port: int) -> None:
        self.ca = ca
        self.service = Answering()
        self.port = port
        self.known = rpc_keys_of(ca.issue("controller"), ca)
        self.server_keys: Callable[[], RpcKeys] = lambda: self.known
        self.now = now()
        self.server = GrpcServer(
            Endpoint(name="CONTROLLER", host="127.0.0.1", port=port),
            RpcServerTls(
                keys=lambda: self.server_keys(), principals=PRINCIPALS, now=lambda: self.now
            ),
        )
        self.server.bind(self.service)  # type: ignore[arg-type]

    @contextlib.asynccontextmanager
    async def called_by(
        self, found: Callable[[], RpcKeys] | None, host: str = "localhost"
    ) -> AsyncIterator[GrpcTransport]:
        transport = GrpcTransport(f"{host}:{self.port}", found)
        try:
            yield transport
        finally:
            await transport.close()

    async def refusal(self, found: Callable[[], RpcKeys] | None, **options: Any) -> str:
        async with self.called_by(found, **options) as transport:
            with pytest.raises(ControllerUnavailableError) as caught:
                await transport.unary(
                    "BrokerRegistration", messages.BrokerRegistrationRequest(broker_id=1), 5.0
                )
        assert not self.service.called
        return str(caught.value)


@contextlib.asynccontextmanager
async def on_stage(ca: Authority) -> AsyncIterator[Stage]:
    with HeldPorts.hold(1) as held:
        stage = Stage(ca, held.numbers[0])
        await stage.server.start()
        try:
            yield stage
        finally:
            await stage.server.stop(None)


async def test_a_broker_with_its_certificate_is_served(ca: Authority) -> None:
    async with on_stage(ca) as stage:
        mine = rpc_keys_of(ca.issue("broker-1"), ca)
        async with stage.called_by(lambda: mine) as transport:
            request = messages.BrokerHeartbeatRequest(broker_id=1)
            await transport.unary("BrokerHeartbeat", request, 5.0)
            stream = transport.stream("MetadataStream", messages.MetadataStreamRequest(broker_id=1))
            async with contextlib.aclosing(stream):
                async for _ in stream:
                    break
        assert stage.service.called == ["BrokerHeartbeat", "MetadataStream"]


async def test_g01_who_has_no_certificate_of_the_authority_is_never_served(ca: Authority) -> None:
    async with on_stage(ca) as stage:
        other = Authority("another CA")
        foreign = rpc_keys_of(other.issue("broker-1"), ca)
        expired = rpc_keys_of(ca.issue("broker-1", valid_from=-3 * DAY, valid_to=-DAY), ca)
        distrusting = rpc_keys_of(ca.issue("broker-1"), other)
        assert "may refuse the certificate of this broker" in await stage.refusal(lambda: foreign)
        assert "may refuse the certificate of this broker" in await stage.refusal(lambda: expired)
        assert "its certificate is not trusted" in await stage.refusal(lambda: distrusting)
        assert "no connection to the controller" in await stage.refusal(None)


async def test_a_controller_of_another_name_is_not_told_anything(ca: Authority) -> None:
    async with on_stage(ca) as stage:
        stage.known = rpc_keys_of(ca.issue("controller", hosts=("elsewhere.example",)), ca)
        mine = rpc_keys_of(ca.issue("broker-1"), ca)
        assert "does not name that host" in await stage.refusal(lambda: mine)


@pytest.mark.parametrize("method", sorted(OF_ONE_BROKER - {"MetadataStream"}))
async def test_g02_a_certificate_speaks_for_one_broker_only(ca: Authority, method: str) -> None:
    async with on_stage(ca) as stage:
        second = rpc_keys_of(ca.issue("broker-2"), ca)
        async with stage.called_by(lambda: second) as transport:
            request = getattr(messages, f"{method}Request")(broker_id=1)
            with pytest.raises(ControllerUnavailableError, match="PERMISSION_DENIED"):
                await transport.unary(method, request, 5.0)
        assert not stage.service.called


async def test_g02_an_administrator_opens_no_stream_and_forwards_nothing(ca: Authority) -> None:
    async with on_stage(ca) as stage:
        admin = rpc_keys_of(ca.issue("admin"), ca)
        async with stage.called_by(lambda: admin) as transport:
            stream = transport.stream("MetadataStream", messages.MetadataStreamRequest(broker_id=1))
            with pytest.raises(ControllerUnavailableError, match="User:CN=admin is not broker 1"):
                await anext(stream)
            with pytest.raises(ControllerUnavailableError, match="User:CN=admin is no broker"):
                await transport.unary("CreateTopics", messages.CreateTopicsRequest(), 5.0)
        assert not stage.service.called


async def test_who_leads_the_metadata_log_is_told_to_brokers_and_to_the_controller_itself(
    ca: Authority,
) -> None:
    request = messages.DescribeQuorumRequest()
    async with on_stage(ca) as stage:
        for name in ("broker-1", "controller"):
            mine = rpc_keys_of(ca.issue(name), ca)
            async with stage.called_by(lambda mine=mine: mine) as transport:  # type: ignore[misc]
                await transport.unary("DescribeQuorum", request, 5.0)
        assert stage.service.called == ["DescribeQuorum"] * 2
        alice = rpc_keys_of(ca.issue("alice"), ca)
        async with stage.called_by(lambda: alice) as transport:
            with pytest.raises(ControllerUnavailableError, match="User:CN=alice is no broker"):
                await transport.unary("DescribeQuorum", request, 5.0)
        assert stage.service.called == ["DescribeQuorum"] * 2


async def test_new_keys_are_used_by_both_sides_without_a_restart(ca: Authority) -> None:
    async with on_stage(ca) as stage:
        found = [rpc_keys_of(ca.issue("broker-1"), ca)]
        request = messages.BrokerHeartbeatRequest(broker_id=1)
        async with stage.called_by(lambda: found[-1]) as transport:
            await transport.unary("BrokerHeartbeat", request, 5.0)
            stream = transport.stream("MetadataStream", messages.MetadataStreamRequest(broker_id=1))
            renewed = Authority("new CA")
            stage.known = rpc_keys_of(renewed.issue("controller"), renewed)
            found.append(rpc_keys_of(renewed.issue("broker-1"), renewed))
            await transport.unary("BrokerHeartbeat", request, 5.0)
            await stream.aclose()
        assert stage.service.called == ["BrokerHeartbeat"] * 2


async def test_the_stream_of_a_broker_is_cut_when_its_certificate_expires(ca: Authority) -> None:
    async with on_stage(ca) as stage:
        issued = ca.issue("broker-1")
        mine = rpc_keys_of(issued, ca)
        until = issued.certificate.not_valid_after_utc
        stage.now = until - datetime.timedelta(seconds=0.2)
        async with stage.called_by(lambda: mine) as transport:
            stream = transport.stream("MetadataStream", messages.MetadataStreamRequest(broker_id=1))
            await anext(stream)
            with pytest.raises(ControllerUnavailableError, match="certificate of User:CN=broker-1"):
                await asyncio.wait_for(anext(stream), 5)
        async with stage.called_by(lambda: mine) as transport:
            request = messages.BrokerHeartbeatRequest(broker_id=1)
            await transport.unary("BrokerHeartbeat", request, 5.0)
            stage.now = until + datetime.timedelta(seconds=1)
            with pytest.raises(ControllerUnavailableError, match=r"UNAUTHENTICATED: .* expired at"):
                await transport.unary("BrokerHeartbeat", request, 5.0)
        assert stage.service.called == ["MetadataStream", "BrokerHeartbeat"]


async def test_a_refused_broker_waits_longer_and_longer_and_not_with_a_new_certificate(
    ca: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    real_time = loop.time
    shift_s = 0.0
    # Pauses are long beside the time that the calls of this test take.
    monkeypatch.setattr(grpc_transport, "REFUSED_S", 1_000.0)
    monkeypatch.setattr(grpc_transport, "REFUSED_S_MAX", 2_000.0)
    async with on_stage(ca) as stage:
        foreign = rpc_keys_of(Authority("another CA").issue("broker-1"), ca)
        found = [foreign]
        request = messages.BrokerHeartbeatRequest(broker_id=1)
        handshakes = 0

        def keys() -> RpcKeys:
            nonlocal handshakes
            handshakes += 1
            return stage.known

        stage.server_keys = keys
        async with stage.called_by(lambda: found[-1]) as transport:

            async def handshakes_after(seconds: float) -> int:
                nonlocal shift_s
                shift_s += seconds
                before = handshakes
                monkeypatch.setattr(loop, "time", lambda: real_time() + shift_s)
                for _ in range(5):
                    with pytest.raises(ControllerUnavailableError, match="may refuse the cert"):
                        await transport.unary("BrokerHeartbeat", request, 5.0)
                monkeypatch.setattr(loop, "time", real_time)
                return handshakes - before

            found_after = [await handshakes_after(seconds) for seconds in (0, *[1_001] * 5)]
            assert found_after == [1, 1, 0, 1, 0, 1]
            found.append(rpc_keys_of(ca.issue("broker-1"), ca))
            await transport.unary("BrokerHeartbeat", request, 5.0)
        assert stage.service.called == ["BrokerHeartbeat"]


def test_a_refused_broker_asks_again_within_half_a_session_however_often_it_was_refused() -> None:
    # The certificate of the controller may be good again.
    assert BrokerLifeSettings().session_timeout_ms >= 2_000 * grpc_transport.REFUSED_S_MAX


def test_every_method_has_its_rule() -> None:
    methods = {each.name for each in messages.SERVICE.methods}
    assert methods >= OF_ONE_BROKER | OF_ITSELF
    for method in methods - OF_ONE_BROKER:
        with pytest.raises(RpcRefusedError, match="is no broker"):
            PRINCIPALS.check("CN=alice", method, SimpleNamespace())
        PRINCIPALS.check("CN=broker-17", method, SimpleNamespace())
    for other in (
        "CN=broker-",
        "CN=broker-1,O=x",
        "CN=broker-x",
        "CN=broker-٣",
        "CN=broker-017",
        "CN=broker-17" + 10 * "0",
        "broker-1",
        "CN=b",
    ):
        assert PRINCIPALS.names.id_of(other) is None


@pytest.mark.parametrize("template", ["CN=broker-{id}", "User:broker", "User:{id}-{id}"])
def test_a_malformed_template_is_refused(template: str) -> None:
    with pytest.raises(ConfigError, match=r"expected User:NAME with \{id\} in NAME"):
        broker_principals(template, SUBJECT_ITSELF)


def test_mapping_rules_name_brokers(ca: Authority) -> None:
    rules = parse("key", "RULE:^CN=(.*?),.*$/$1/L,DEFAULT")
    principals = broker_principals("User:broker-{id}", rules)
    der = ca.issue(name((C, "DE"), (CN, "Broker-4"))).der
    assert principals.caller_of(der, now()).name == "broker-4"
    with pytest.raises(RpcRefusedError, match="no rule names"):
        principals.caller_of(ca.issue(name()).der, now())


def test_keys_that_are_missing_are_named(tmp_path: Path, ca: Authority) -> None:
    issued = ca.issue("broker-1")
    settings = client_tls(
        {
            "listener.name.controller.ssl.keystore.type": "PEM",
            "listener.name.controller.ssl.keystore.location": str(issued.write(tmp_path / "k.pem")),
        },
        "listener.name.controller.",
    )
    with pytest.raises(ConfigError, match=r"listener\.name\.controller\.ssl\.truststore\.location"):
        rpc_keys(settings, tls_files.read(settings, now()))
