from __future__ import annotations

import pytest

from admin_tool.client_config import client_config
from jbodlab.errors import ConfigError

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def test_kafkas_keys_become_the_librarys() -> None:
    found = client_config(
        {
            "bootstrap.servers": "elsewhere:1",
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": f'{PLAIN} required username="a b" password="c\\"d";',
            "ssl.truststore.location": "/ca.pem",
            "ssl.truststore.type": "PEM",
            "ssl.endpoint.identification.algorithm": "",
            "request.timeout.ms": "5000",
            "client.id": "me",
        }
    )

    assert found.settings == {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "a b",
        "sasl_plain_password": 'c"d',
        "ssl_cafile": "/ca.pem",
        "ssl_check_hostname": False,
        "request_timeout_ms": 5000,
        "client_id": "me",
    }
    assert found.unknown == ()
    assert found.request_timeout_ms == 5000
    assert not found.is_plaintext


def test_unknown_keys_are_named() -> None:
    found = client_config({"linger.ms": "5", "retry.backoff.ms": "7"})
    assert found.unknown == ("linger.ms",)
    assert found.settings == {"retry_backoff_ms": 7}
    assert found.is_plaintext
    assert found.request_timeout_ms == 30_000


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("security.protocol", "TLS", "must be one of PLAINTEXT, SSL"),
        ("sasl.mechanism", "NONE", "must be one of PLAIN, GSSAPI"),
        ("request.timeout.ms", "soon", "not a number"),
        ("ssl.truststore.location", "/a.jks", "JKS stores cannot be read"),
        ("sasl.jaas.config", "com.example.Other required;", "login module must be one of"),
        ("sasl.jaas.config", f"{PLAIN} required username=a;", "username and password are needed"),
        ("sasl.jaas.config", "", "login module must be one of"),
    ],
)
def test_wrong_values_are_refused_by_name(key: str, value: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason) as refused:
        client_config({key: value})
    assert refused.value.key == key


def test_a_refused_login_does_not_repeat_the_password() -> None:
    with pytest.raises(ConfigError) as refused:
        client_config({"sasl.jaas.config": f'{PLAIN} required password="secret";'})
    assert "secret" not in str(refused.value)
