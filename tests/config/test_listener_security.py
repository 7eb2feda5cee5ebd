from __future__ import annotations

from typing import Any

import pytest

from broker.config import BrokerConfig, from_properties
from jbodlab.vocabulary.errors import ConfigError

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
PLAIN_JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_bob="geheim";'


def config(**changes: str) -> BrokerConfig:
    return from_properties({**BASE, **changes})[0]


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
    assert (security.session_ms, security.max_receive_bytes) == (5000, 1000)
    assert "geheim" not in repr(security)
    assert [(each.name, each.security_protocol) for each in found.advertised_listeners] == [
        ("INTERNAL", 0),
        ("CLIENT", 2),
    ]


def test_scram_needs_no_text_for_users() -> None:
    found = config(**{"sasl.enabled.mechanisms": "SCRAM-SHA-256"})
    assert found.security["CLIENT"].passwords == {}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, "sasl.enabled.mechanisms"),
        ({"sasl.enabled.mechanisms": "OAUTHBEARER"}, "OAUTHBEARER"),
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
            "must be PLAINTEXT",
        ),
        (
            {
                "listener.security.protocol.map": (
                    "CONTROLLER:PLAINTEXT,INTERNAL:PLAINTEXT,CLIENT:SASL_SSL"
                ),
            },
            "unsupported security protocol SASL_SSL, expected PLAINTEXT or SASL_PLAINTEXT",
        ),
    ],
)
def test_a_broker_that_nobody_could_log_in_to_does_not_start(
    changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        config(**changes)
