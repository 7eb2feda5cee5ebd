"""Clients that log in: unchanged libraries, each mechanism, and a disk that dies under them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import (
    AdminClient,
    ConfigResource,
    ScramMechanism,
    UserScramCredentialDeletion,
)
from joserfc import jwt
from joserfc.jwk import RSAKey
from kafka.net.sasl.oauth import AbstractTokenProvider

from lab.cluster import wait_for
from tests.cluster.harness import made
from tests.cluster.round_trips import by_kafka_python, fails, sent_and_received
from tests.cluster.secured import JAAS, USERS, listens_for_logins, served, set_credentials
from tests.secrets import AT_DEBUG_LEVEL, secret

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("sasl-clients")]

DEADLINE_S = 20.0
WRONG = secret("wrong-secret")
OAUTHBEARER = "OAUTHBEARER"
KEY = RSAKey.generate_key(2048, {"kid": "key"})


class Secured:
    """A cluster whose clients log in on a listener of their own."""

    def __init__(self, root: Path) -> None:
        self.cluster = made(
            root,
            brokers=3,
            dirs=2,
            settings={"default.replication.factor": "3"},
            variables=AT_DEBUG_LEVEL,
        )
        keys = root / "keys.json"
        keys.write_text(json.dumps({"keys": [KEY.as_dict(private=False)]}))
        self.addresses = listens_for_logins(
            self.cluster,
            **{
                "sasl.enabled.mechanisms": ",".join((*USERS, OAUTHBEARER)),
                "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
                "sasl.oauthbearer.expected.issuer": "issuer",
                "sasl.oauthbearer.expected.audience": "kafka",
                "listener.name.client.plain.sasl.jaas.config": JAAS,
            },
        )

    def client(self, mechanism: str, password: str | None = None) -> dict[str, Any]:
        """Settings of librdkafka."""
        user, right = USERS[mechanism]
        return {
            "bootstrap.servers": ",".join(self.addresses),
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": right if password is None else password,
        }


@pytest.fixture(scope="module")
def secured() -> Iterator[Secured]:
    with served(Secured, users=True) as secured:
        yield secured


@pytest.mark.parametrize("mechanism", USERS)
def test_librdkafka_logs_in_by_each_mechanism(secured: Secured, mechanism: str) -> None:
    sent_and_received(secured.client(mechanism), f"rd-{mechanism}")


@pytest.mark.parametrize("mechanism", USERS)
def test_kafka_python_logs_in_by_each_mechanism(secured: Secured, mechanism: str) -> None:
    user, password = USERS[mechanism]
    config: dict[str, Any] = {
        "bootstrap_servers": secured.addresses,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": user,
        "sasl_plain_password": password,
    }
    by_kafka_python(config, f"py-{mechanism}")


def token(lifetime_s: int = 3600) -> tuple[str, float]:
    """Issue a token; return it and when it expires."""
    now = int(time.time())
    claims = {"iss": "issuer", "aud": "kafka", "sub": "dora", "iat": now, "exp": now + lifetime_s}
    return jwt.encode({"alg": "RS256", "kid": "key"}, claims, KEY), now + lifetime_s


def by_token(secured: Secured, lifetime_s: int = 3600) -> dict[str, Any]:
    """Settings of librdkafka.

    The library looks only each second whether four fifths of a token's time have passed, so it is
    told a time that ends 2 s sooner: else it would now and then renew with the old token.
    """

    def issued(_: str) -> tuple[str, float]:
        value, expires = token(lifetime_s)
        return value, expires - 2

    return {
        "bootstrap.servers": ",".join(secured.addresses),
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": OAUTHBEARER,
        "oauth_cb": issued,
    }


def test_librdkafka_logs_in_by_a_token(secured: Secured) -> None:
    sent_and_received(by_token(secured), "rd-token")


def test_a_client_renews_its_login_before_its_token_expires(secured: Secured) -> None:
    errors: list[KafkaError | None] = []
    producer = Producer({**by_token(secured, lifetime_s=5), "error_cb": errors.append})
    end = time.monotonic() + 7
    while time.monotonic() < end:
        producer.produce("rd-token", b"value", on_delivery=lambda error, _: errors.append(error))
        producer.poll(0.1)
    assert producer.flush(DEADLINE_S) == 0
    assert not [error for error in errors if error]


def test_kafka_python_logs_in_by_a_token(secured: Secured) -> None:
    class Tokens(AbstractTokenProvider):  # type: ignore[misc]
        def token(self) -> str:
            return token()[0]

    config = {
        "bootstrap_servers": secured.addresses,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": OAUTHBEARER,
        "sasl_oauth_token_provider": Tokens(),
    }
    by_kafka_python(config, "py-token")


@pytest.mark.parametrize("mechanism", USERS)
def test_a_wrong_password_is_named_by_the_client(secured: Secured, mechanism: str) -> None:
    fails(secured.client(mechanism, WRONG), "_AUTHENTICATION")
    for node in secured.cluster.nodes.values():
        assert WRONG not in node.output()


def test_o01_no_secrets(secured: Secured) -> None:
    """Logs, also of refused logins, and descriptions of settings; see `tests.secrets`."""
    secured.cluster.hide_credentials()
    secured.cluster.check_logs()
    secrets = [password for _, password in USERS.values()]
    outputs = [node.output() for node in secured.cluster.nodes.values()]
    assert not [each for each in secrets if any(each in output for output in outputs)]
    described = secured.cluster.admin().describe_configs([ConfigResource("BROKER", "1")])
    for result in described.values():
        entries = result.result(DEADLINE_S)
        values = [str(entry.value) for entry in entries.values()]
        assert not [each for each in secrets if any(each in value for value in values)]


def test_a_disk_dies_while_clients_are_logged_in(secured: Secured) -> None:
    topic = "dying"
    config = secured.client("SCRAM-SHA-256")
    sent_and_received(config, topic)
    leader = secured.cluster.leader(topic, 0)
    directory = leader.log_dir_of(topic, 0)
    acknowledged: list[Any] = []
    producer = Producer(config)
    with directory.fails("permission"):
        for index in range(200):
            producer.produce(
                topic,
                b"%d" % index,
                partition=0,
                on_delivery=lambda error, _: acknowledged.append(error),
            )
            producer.poll(0.005)
        assert producer.flush(DEADLINE_S) == 0
    assert acknowledged == [None] * 200


def test_s22_user_deleted(secured: Secured) -> None:
    """S22: the connection of a removed user ends within a second, and a login fails."""
    errors: list[KafkaError] = []
    client = Producer({**secured.client("SCRAM-SHA-512"), "error_cb": errors.append})
    client.list_topics(timeout=DEADLINE_S)
    admin = AdminClient({"bootstrap.servers": secured.cluster.bootstrap})
    deletion = UserScramCredentialDeletion("carol", ScramMechanism.SCRAM_SHA_512)
    for result in admin.alter_user_scram_credentials([deletion]).values():
        result.result(DEADLINE_S)
    wait_for(
        "the removed user to be sent away",
        lambda: (
            client.poll(0.1) is not None
            and any(each.code() == KafkaError._AUTHENTICATION for each in errors)
        ),
        DEADLINE_S,
    )
    set_credentials(secured.cluster)
