"""Clients are let in by a login, a token or a certificate, over TLS and in plain text."""

from __future__ import annotations

import time
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer
from kafka.net.sasl.oauth import AbstractTokenProvider

from tests.certificates import Authority
from tests.cluster.round_trips import by_kafka_python, fails, sent_and_received
from tests.cluster.secured import DEADLINE_S, OAUTHBEARER, USERS, Secured, token
from tests.secrets import secret

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("secured")]

WRONG = secret("wrong-secret")
NAMES_IN_KAFKA_PYTHON = {
    "ssl.ca.location": "ssl_cafile",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.key.location": "ssl_keyfile",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
}
LET_IN = [
    ("MTLS", "certificate"),
    *(("CLIENT", mechanism) for mechanism in USERS),
    *(("LOGIN", mechanism) for mechanism in (*USERS, OAUTHBEARER)),
]
"""Listener, and what lets a client in there."""


class Tokens(AbstractTokenProvider):  # type: ignore[misc]
    def token(self) -> str:
        return token()[0]


def by_token(secured: Secured, lifetime_s: int = 3600) -> dict[str, Any]:
    """Settings of librdkafka.

    The library looks only each second whether four fifths of a token's time have passed, so it is
    told a time that ends 2 s sooner: else it would now and then renew with the old token.
    """

    def issued(_: str) -> tuple[str, float]:
        value, expires = token(lifetime_s)
        return value, expires - 2

    return {**secured.logged_in(OAUTHBEARER, "LOGIN"), "oauth_cb": issued}


@pytest.mark.parametrize(("listener", "by"), LET_IN)
@pytest.mark.parametrize("library", ["librdkafka", "kafka-python"])
def test_a_client_is_let_in(secured: Secured, library: str, listener: str, by: str) -> None:
    topic = f"{library}-{listener}-{by}"
    is_by_token = by == OAUTHBEARER
    config = secured.with_certificate() if listener == "MTLS" else secured.logged_in(by, listener)
    if library == "librdkafka":
        sent_and_received(by_token(secured) if is_by_token else config, topic)
    else:
        words = {
            NAMES_IN_KAFKA_PYTHON.get(name, name.replace(".", "_")): value
            for name, value in config.items()
        }
        if is_by_token:
            words["sasl_oauth_token_provider"] = Tokens()
        by_kafka_python(words, topic)


def test_a_client_renews_its_login_before_its_token_expires(secured: Secured) -> None:
    errors: list[KafkaError | None] = []
    producer = Producer({**by_token(secured, lifetime_s=5), "error_cb": errors.append})
    end = time.monotonic() + 7
    while time.monotonic() < end:
        producer.produce("renewed", b"value", on_delivery=lambda error, _: errors.append(error))
        producer.poll(0.1)
    assert producer.flush(DEADLINE_S) == 0
    assert not [error for error in errors if error]


@pytest.mark.parametrize("mechanism", USERS)
def test_a_wrong_password_is_named_by_the_client(secured: Secured, mechanism: str) -> None:
    config = {**secured.logged_in(mechanism, "LOGIN"), "sasl.password": WRONG}
    fails(config, "_AUTHENTICATION")
    assert not any(WRONG in node.output() for node in secured.cluster.nodes.values())


def test_a_client_that_does_not_know_the_authority_names_the_reason_and_logins_are_counted(
    secured: Secured,
) -> None:
    unknown = Authority("another CA").write(secured.folder / "another.pem")
    first = secured.addresses("CLIENT").partition(",")[0]
    of_one = {**secured.logged_in("PLAIN"), "bootstrap.servers": first}
    fails({**of_one, "ssl.ca.location": str(unknown)}, "certificate")
    found = secured.metrics()

    def samples(name: str) -> dict[str, float]:
        lines = (line for line in found.splitlines() if line.startswith(f"jbodlab_{name}{{"))
        return {line.partition("{")[2].partition("}")[0]: float(line.split()[-1]) for line in lines}

    logins = samples("authentications_total")
    for mechanism in USERS:
        assert logins[f'listener="CLIENT",mechanism="{mechanism}",result="success"'] > 0
    assert samples("tls_handshake_failures_total")
    assert samples("tls_handshakes_total")['listener="MTLS"'] > 0
    states = samples("listener_connections")
    assert states['listener="INTERNAL",protocol="SSL",state="open"'] > 0
    assert states['listener="CLIENT",protocol="SASL_SSL",state="unauthenticated"'] == 0
