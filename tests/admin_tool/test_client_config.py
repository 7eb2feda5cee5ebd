from __future__ import annotations

import ssl

import pytest

from admin_tool.client_config import client_config
from jbodlab.vocabulary.errors import ConfigError


def test_properties_become_the_librarys() -> None:
    found = client_config(
        {
            "bootstrap.servers": "elsewhere:1",
            "security.protocol": "sasl_ssl",
            "sasl.mechanisms": "PLAIN",
            "sasl.username": "a b",
            "sasl.password": "secret",
            "ssl.endpoint.identification.algorithm": "none",
            "request.timeout.ms": "5000",
            "client.id": "me",
        }
    )

    context = found.settings["ssl_context"]
    assert isinstance(context, ssl.SSLContext)
    assert not context.check_hostname
    assert found.settings == {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "a b",
        "sasl_plain_password": "secret",
        "ssl_context": context,
        "request_timeout_ms": 5000,
        "client_id": "me",
    }
    assert found.unknown == ()
    assert found.request_timeout_ms == 5000


def test_unknown_properties_are_named() -> None:
    found = client_config({"linger.ms": "5", "retry.backoff.ms": "7"})
    assert found.unknown == ("linger.ms",)
    assert found.settings == {"retry_backoff_ms": 7}
    assert found.client.security is None
    assert found.request_timeout_ms == 30_000


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("security.protocol", "TLS", "must be one of PLAINTEXT, SSL"),
        ("request.timeout.ms", "soon", "not a number"),
    ],
)
def test_wrong_values_are_refused_by_name(key: str, value: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason) as refused:
        client_config({key: value})
    assert refused.value.key == key
