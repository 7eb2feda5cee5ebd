from __future__ import annotations

import pytest

from jbodlab.kafka_admin.properties import admin_properties
from jbodlab.vocabulary.errors import ConfigError

LOGIN = {"security.protocol": "SASL_PLAINTEXT", "sasl.username": "a b", "sasl.password": "secret"}


def test_properties_of_a_file_are_those_of_the_client() -> None:
    found = admin_properties(
        {
            **LOGIN,
            "bootstrap.servers": "elsewhere:1",
            "sasl.mechanisms": "PLAIN",
            "request.timeout.ms": "5000",
            "client.id": "me",
        }
    )

    assert found.security is not None
    assert found.security.login is not None
    assert (found.security.login.user, found.security.login.password.reveal()) == ("a b", "secret")
    assert (found.client_id, found.request_timeout_ms, found.unknown) == ("me", 5000, ())


def test_unknown_properties_are_named() -> None:
    found = admin_properties({"linger.ms": "5", "retry.backoff.ms": "7"})

    assert found.unknown == ("linger.ms",)
    assert found.security is None
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
        admin_properties({key: value})
    assert refused.value.key == key


def test_kerberos_is_named_where_a_command_would_log_in_by_it() -> None:
    with pytest.raises(ConfigError, match="administration commands do not log in by Kerberos"):
        admin_properties({**LOGIN, "sasl.mechanism": "GSSAPI"})
