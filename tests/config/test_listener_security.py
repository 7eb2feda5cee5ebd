from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from broker.config import BrokerConfig, from_properties, load
from jbodlab.security.oauthbearer import TokenSettings
from jbodlab.vocabulary.errors import ConfigError
from jbodlab.vocabulary.properties import render

BASE = {
    "process.roles": "broker",
    "node.id": "1",
    "controller.quorum.voters": "100@localhost:9093",
    "controller.listener.names": "CONTROLLER",
    "listeners": "INTERNAL://:9091,CLIENT://:9092",
    "advertised.listeners": "INTERNAL://localhost:9091,CLIENT://localhost:9092",
    "listener.security.protocol.map": (
        "CONTROLLER:PLAINTEXT,INTERNAL:PLAINTEXT,CLIENT:SASL_PLAINTEXT"
    ),
    "inter.broker.listener.name": "INTERNAL",
    "log.dirs": "/data",
}
TOKENS = {
    "sasl.enabled.mechanisms": "OAUTHBEARER",
    "sasl.oauthbearer.jwks.endpoint.url": "https://issuer/keys",
    "sasl.oauthbearer.expected.issuer": "https://issuer",
    "sasl.oauthbearer.expected.audience": "kafka, others",
}
PLAIN_JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_bob="geheim";'


def config(remove: Sequence[str] = (), **changes: str) -> BrokerConfig:
    found = {key: value for key, value in {**BASE, **changes}.items() if key not in remove}
    return from_properties(found)[0]


def test_settings_of_a_listener_come_before_those_of_all() -> None:
    found = config(
        **{
            "sasl.enabled.mechanisms": "GSSAPI",
            "listener.name.client.sasl.enabled.mechanisms": "SCRAM-SHA-512, PLAIN",
            "listener.name.client.plain.sasl.jaas.config": PLAIN_JAAS,
            "connections.max.reauth.ms": "1000",
            "listener.name.client.connections.max.reauth.ms": "5000",
            "sasl.server.max.receive.size": "1000",
        }
    )
    assert list(found.security) == ["CLIENT"]
    security = found.security["CLIENT"]
    assert security.mechanisms == ("SCRAM-SHA-512", "PLAIN")
    assert security.passwords["bob"].reveal() == "geheim"
    assert security.sessions_ms == {"SCRAM-SHA-512": 5000, "PLAIN": 5000}
    assert security.max_receive_bytes == 1000
    assert "geheim" not in repr(security)
    assert [(each.name, each.security_protocol) for each in found.advertised_listeners] == [
        ("INTERNAL", 0),
        ("CLIENT", 2),
    ]


def test_a_listener_that_takes_tokens_knows_their_issuer_and_its_keys() -> None:
    tokens = (
        config(
            **TOKENS,
            **{
                "listener.name.client.sasl.oauthbearer.sub.claim.name": "upn",
                "listener.name.client.oauthbearer.sasl.server.callback.handler.class": (
                    "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
                ),
                "listener.name.client.oauthbearer.sasl.jaas.config": (
                    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;"
                ),
            },
        )
        .security["CLIENT"]
        .tokens
    )
    assert tokens == TokenSettings(
        url="https://issuer/keys",
        issuer="https://issuer",
        audiences=("kafka", "others"),
        subject_claim="upn",
        clock_skew_s=30,
        refresh_s=3600.0,
    )


def test_scram_needs_no_text_for_users() -> None:
    found = config(**{"sasl.enabled.mechanisms": "SCRAM-SHA-256"})
    assert found.security["CLIENT"].passwords == {}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, "sasl.enabled.mechanisms"),
        ({"sasl.enabled.mechanisms": "GSSAPI"}, "GSSAPI"),
        ({"sasl.enabled.mechanisms": "OAUTHBEARER"}, r"jwks\.endpoint\.url"),
        (TOKENS | {"sasl.oauthbearer.jwks.endpoint.url": "http://issuer/keys"}, "http://issuer"),
        (TOKENS | {"sasl.oauthbearer.expected.issuer": ""}, "expected.issuer"),
        (TOKENS | {"sasl.oauthbearer.expected.audience": " , "}, "expected.audience"),
        (
            TOKENS
            | {
                "listener.name.client.oauthbearer.sasl.jaas.config": (
                    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
                    'unsecuredLoginStringClaim_sub="bob";'
                )
            },
            "unsecuredLoginStringClaim_sub is not supported",
        ),
        (
            TOKENS | {"listener.name.client.oauthbearer.sasl.server.callback.handler.class": "Own"},
            "callback.handler.class",
        ),
        (
            TOKENS
            | {
                "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
                "inter.broker.listener.name": "CLIENT",
            },
            "must be one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512",
        ),
        ({"listener.name.client.sasl.enabled.mechanisms": ""}, "at least one mechanism"),
        ({"sasl.enabled.mechanisms": "PLAIN"}, "PLAIN needs users"),
        (
            {
                "sasl.enabled.mechanisms": "SCRAM-SHA-256",
                "listener.name.client.connections.max.reauth.ms": "soon",
            },
            "expected an integer",
        ),
        (
            {
                "sasl.enabled.mechanisms": "SCRAM-SHA-256",
                "inter.broker.listener.name": "CLIENT",
            },
            r"sasl\.mechanism\.inter\.broker\.protocol: must be enabled on CLIENT: SCRAM-SHA-256",
        ),
        (
            {
                "sasl.enabled.mechanisms": "SCRAM-SHA-256",
                "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256",
                "inter.broker.listener.name": "CLIENT",
            },
            r"client\.scram-sha-256\.sasl\.jaas\.config: brokers log in by username",
        ),
        (
            {
                "sasl.enabled.mechanisms": "SCRAM-SHA-256",
                "listener.security.protocol.map": (
                    "CONTROLLER:PLAINTEXT,INTERNAL:PLAINTEXT,CLIENT:SASL_SSL"
                ),
            },
            r"listener\.name\.client\.ssl\.keystore\.location: a listener that encrypts needs",
        ),
        (
            {
                "sasl.enabled.mechanisms": "SCRAM-SHA-256",
                "listener.security.protocol.map": (
                    "CONTROLLER:SASL_SSL,INTERNAL:PLAINTEXT,CLIENT:SASL_PLAINTEXT"
                ),
            },
            "must be PLAINTEXT, or SSL with certificates of brokers",
        ),
        (
            {"security.inter.broker.protocol": "SSL"},
            "inter.broker.listener.name is set, too",
        ),
    ],
)
def test_a_broker_that_nobody_could_log_in_to_does_not_start(
    changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        config(**changes)


def test_brokers_log_in_among_themselves_by_the_users_of_the_jaas_text() -> None:
    found = config(
        **{
            "sasl.enabled.mechanisms": "SCRAM-SHA-256",
            "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256",
            "inter.broker.listener.name": "CLIENT",
            "listener.name.client.scram-sha-256.sasl.jaas.config": (
                "org.apache.kafka.common.security.scram.ScramLoginModule required "
                'username="broker" password="geheim";'
            ),
        }
    )
    assert (found.peers.mechanism, found.peers.user) == ("SCRAM-SHA-256", "broker")
    assert found.peers.password.reveal() == "geheim"
    assert found.peers.tls is None
    assert "geheim" not in repr(found.peers)


def test_the_listener_of_brokers_may_be_named_by_its_protocol() -> None:
    found = config(
        **{
            "listeners": "SSL://:9091,PLAINTEXT://:9092",
            "advertised.listeners": "SSL://localhost:9091,PLAINTEXT://localhost:9092",
            "listener.security.protocol.map": ("CONTROLLER:PLAINTEXT,SSL:SSL,PLAINTEXT:PLAINTEXT"),
            "security.inter.broker.protocol": "SSL",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": "/keys.pem",
        },
        remove=("inter.broker.listener.name",),
    )
    assert found.inter_broker_listener_name == "SSL"
    assert found.peers.tls is not None
    assert list(found.tls) == ["SSL"]
    with pytest.raises(ConfigError, match="must be a name of listeners"):
        config(
            **{"security.inter.broker.protocol": "SASL_SSL"},
            remove=("inter.broker.listener.name",),
        )


def test_a_setting_that_does_not_count_where_clients_log_in_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = {
        **BASE,
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,INTERNAL:SSL,CLIENT:SASL_SSL",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": "/keys.pem",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": "/ca.pem",
        "ssl.client.auth": "required",
        "listener.name.elsewhere.num.io.threads": "3",
    }
    file = tmp_path / "broker.properties"
    file.write_text(render(settings))

    load(file)

    assert "ssl.client.auth is ignored for listener CLIENT" in caplog.text
    assert "unknown configuration listener.name.elsewhere.num.io.threads" in caplog.text


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("ssl.client.auth", "required"),
        ("sasl.jaas.config", PLAIN_JAAS),
        ("listener.name.client.sasl.jaas.config", PLAIN_JAAS),
        ("listener.name.client.scram-sha512.sasl.jaas.config", PLAIN_JAAS),
        ("listener.name.clients.connections.max.reauth.ms", "3000"),
        ("listener.name.CLIENT.connections.max.reauth.ms", "3000"),
        ("listener.name.client.scram-sha512.connections.max.reauth.ms", "3000"),
        ("listener.name.client.scram-sha-512.sasl.server.max.receive.size", "3000"),
        ("listener.name.client.scram-sha-512.sasl.server.callback.handler.class", "com.example.X"),
        ("listener.name.client.plain.sasl.login.class", "com.example.X"),
        ("listener.name.client.ssl.engine.factory.class", "com.example.X"),
        ("listener.name.client.principal.builder.class", "com.example.X"),
        ("scram-sha-512.connections.max.reauth.ms", "3000"),
        ("oauthbearer.sasl.server.callback.handler.class", "com.example.X"),
        *(
            (key, "com.example.X")
            for key in (
                *("principal.builder.class", "security.providers", "ssl.engine.factory.class"),
                *("ssl.trustmanager.algorithm", "ssl.provider", "sasl.login.class"),
                *("sasl.server.callback.handler.class", "sasl.client.callback.handler.class"),
                *("sasl.oauthbearer.jwt.validator.class", "create.topic.policy.class.name"),
                *("ssl.truststore.pasword", "sasl.enabled.mechanism", "super.user"),
            )
        ),
    ],
)
def test_a_setting_that_would_protect_nothing_stops_the_start(key: str, value: str) -> None:
    with pytest.raises(ConfigError, match=f"for configuration {key}: ") as raised:
        config(
            **{
                "listener.security.protocol.map": (
                    "CONTROLLER:PLAINTEXT,INTERNAL:PLAINTEXT,CLIENT:SASL_SSL"
                ),
                "sasl.enabled.mechanisms": "SCRAM-SHA-512",
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": "/keys.pem",
                key: value,
            }
        )
    assert "geheim" not in str(raised.value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("ssl.trustmanager.algorithm", "PKIX"),
        ("ssl.protocol", "TLSv1.3"),
        ("sasl.kerberos.service.name", "kafka"),
        ("listener.name.internal.num.io.threads", "3"),
        (
            "principal.builder.class",
            "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
        ),
        ("listener.name.controller.ssl.keystore.location", "/keys.pem"),
    ],
)
def test_a_default_and_what_only_others_read_stop_nothing(key: str, value: str) -> None:
    assert config(**{"sasl.enabled.mechanisms": "SCRAM-SHA-512", key: value}).security


def test_a_setting_of_a_mechanism_comes_before_that_of_its_listener() -> None:
    found = config(
        **{
            "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
            **{key: value for key, value in TOKENS.items() if key.startswith("sasl.oauth")},
            "connections.max.reauth.ms": "1000",
            "listener.name.client.connections.max.reauth.ms": "2000",
            "listener.name.client.scram-sha-512.connections.max.reauth.ms": "3000",
            "listener.name.client.sasl.oauthbearer.expected.issuer": "https://listener",
            "listener.name.client.oauthbearer.sasl.oauthbearer.expected.issuer": "https://own",
            "listener.name.client.oauthbearer.sasl.oauthbearer.clock.skew.seconds": "7",
        }
    ).security["CLIENT"]
    assert found.sessions_ms == {"SCRAM-SHA-256": 2000, "SCRAM-SHA-512": 3000, "OAUTHBEARER": 2000}
    assert found.tokens is not None
    assert (found.tokens.issuer, found.tokens.clock_skew_s) == ("https://own", 7)


def test_a_wrong_setting_of_a_mechanism_is_named_as_it_stands_in_the_file() -> None:
    key = "listener.name.client.scram-sha-512.connections.max.reauth.ms"
    with pytest.raises(ConfigError, match=f"invalid value '3s' for configuration {key}: expected"):
        config(**{"sasl.enabled.mechanisms": "SCRAM-SHA-512", key: "3s"})
