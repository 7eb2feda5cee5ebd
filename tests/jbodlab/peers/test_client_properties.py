"""The property file of a Java client, as each kind of client gets it."""

from __future__ import annotations

from pathlib import Path

import pytest

from jbodlab.kafka_admin.properties import admin_properties
from jbodlab.peers.client_properties import client_properties
from jbodlab.vocabulary.errors import ConfigError
from tests.certificates import Authority, Issued

SCRAM = (
    "org.apache.kafka.common.security.scram.ScramLoginModule required "
    'username="alice" password="geheim";'
)


@pytest.fixture(scope="module")
def ca() -> Authority:
    return Authority()


@pytest.fixture(scope="module")
def issued(ca: Authority) -> Issued:
    return ca.issue("alice")


def in_java(ca: Authority, issued: Issued, folder: Path) -> dict[str, str]:
    return {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": SCRAM,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(ca.write(folder / "ca.pem")),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(issued.write(folder / "alice.pem")),
        "client.id": "me",
    }


def in_librdkafka(ca: Authority, issued: Issued, folder: Path) -> dict[str, str]:
    (folder / "alice.chain").write_text(issued.chain)
    (folder / "alice.key").write_text(issued.private_key())
    return {
        "security.protocol": "sasl_ssl",
        "sasl.mechanisms": "SCRAM-SHA-512",
        "sasl.username": "alice",
        "sasl.password": "geheim",
        "ssl.ca.location": str(ca.write(folder / "ca.pem")),
        "ssl.certificate.location": str(folder / "alice.chain"),
        "ssl.key.location": str(folder / "alice.key"),
        "client.id": "me",
    }


def in_pkcs12(ca: Authority, issued: Issued, folder: Path) -> dict[str, str]:
    store = folder / "alice.p12"
    store.touch(mode=0o600)
    store.write_bytes(issued.pkcs12("store"))
    return {
        **in_java(ca, issued, folder),
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(store),
        "ssl.keystore.password": "store",
    }


@pytest.mark.parametrize("dialect", [in_java, in_librdkafka, in_pkcs12])
def test_each_client_gets_user_key_and_trust(
    tmp_path: Path, ca: Authority, issued: Issued, dialect: object
) -> None:
    assert callable(dialect)
    found = client_properties(dialect(ca, issued, tmp_path))

    rdkafka = found.librdkafka()
    assert rdkafka["ssl.key.pem"].strip() == issued.private_key().strip()
    assert rdkafka["ssl.certificate.pem"].startswith(issued.chain.strip())
    assert rdkafka["ssl.ca.pem"].strip() == ca.pem.strip()
    assert {key: rdkafka[key] for key in rdkafka if "pem" not in key} == {
        "security.protocol": "sasl_ssl",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "alice",
        "sasl.password": "geheim",
    }
    security = found.security
    assert security is not None
    assert security.login is not None
    assert (security.login.user, security.login.password.reveal()) == ("alice", "geheim")
    assert found.others == {"client.id": "me"}
    assert "geheim" not in repr(found)


def test_a_file_without_security_changes_nothing() -> None:
    found = client_properties({"client.id": "me"})
    assert (found.librdkafka(), found.security) == ({}, None)


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"security.protocol": "TLS"}, "security.protocol: must be one of PLAINTEXT, SSL"),
        (
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"},
            "sasl.mechanism: must be one of PLAIN",
        ),
        (
            {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"},
            "sasl.jaas.config: PLAIN needs username",
        ),
        (
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.jaas.config": SCRAM,
            },
            "sasl.jaas.config: must name the login module",
        ),
        (
            {"security.protocol": "SSL", "ssl.ca.location": "/no/file"},
            "ssl.truststore.location: No such file",
        ),
        (
            {"security.protocol": "SSL", "ssl.key.location": "/no/key"},
            "ssl.key.location: No such file",
        ),
    ],
)
def test_wrong_properties_are_named_without_a_secret(
    properties: dict[str, str], message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        client_properties(properties).librdkafka()
    assert message in str(caught.value)
    assert "geheim" not in str(caught.value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("ssl.engine.factory.class", "com.example.X"),
        ("ssl.provider", "BC"),
        ("security.providers", "com.example.X"),
        ("sasl.login.callback.handler.class", "com.example.X"),
        ("sasl.client.callback.handler.class", "com.example.X"),
    ],
)
def test_a_property_that_would_protect_nothing_is_refused(key: str, value: str) -> None:
    with pytest.raises(ConfigError, match=f"for configuration {key}: "):
        client_properties({key: value})
    with pytest.raises(ConfigError, match=r"configuration ssl\.truststore\.pasword: "):
        admin_properties({"ssl.truststore.pasword": "geheim"})


def test_versions_and_suites_are_those_of_the_file_for_librdkafka_too(
    ca: Authority, issued: Issued, tmp_path: Path
) -> None:
    given = in_java(ca, issued, tmp_path)
    versions = {"ssl.enabled.protocols": "TLSv1.3"}

    with pytest.raises(ConfigError, match=r"for configuration ssl\.enabled\.protocols: librdkafka"):
        client_properties({**given, **versions}).librdkafka()
    every = "TLS_AES_128_GCM_SHA256,TLS_AES_256_GCM_SHA384,TLS_CHACHA20_POLY1305_SHA256"
    suites = {"ssl.cipher.suites": f"TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,{every}"}
    found = client_properties({**given, **suites}).librdkafka()
    assert found["ssl.cipher.suites"] == "ECDHE-RSA-AES256-GCM-SHA384"
