from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import dsa

from jbodlab.config.tls_keys import client_tls, listener_tls
from jbodlab.security import tls_files
from jbodlab.security.tls_settings import SUITES, TlsSettings
from jbodlab.vocabulary.errors import ConfigError
from tests.certificates import DAY, Authority, Issued, now

PREFIX = "listener.name.client."


@pytest.fixture(scope="module")
def ca() -> Authority:
    return Authority()


@pytest.fixture(scope="module")
def issued(ca: Authority) -> Issued:
    return ca.issue("broker-1")


def settings(**properties: str) -> TlsSettings:
    found = {key.replace("_", "."): value for key, value in properties.items()}
    return listener_tls(found, PREFIX, logs_in=False)


def loaded(found: TlsSettings) -> ssl.SSLContext:
    return tls_files.server_context(found, tls_files.read(found, now()))


def served_by(server: ssl.SSLContext, client: ssl.SSLContext) -> bytes | None:
    """Shake hands in memory; returns the server's certificate."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    one = client.wrap_bio(to_client, to_server, server_hostname="localhost")
    other = server.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(4):
        for each in (one, other):
            try:
                each.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return one.getpeercert(binary_form=True)


def in_one_file(issued: Issued, path: Path) -> dict[str, str]:
    return {
        "ssl_keystore_type": "PEM",
        "ssl_keystore_location": str(issued.write(path / "one.pem")),
    }


def encrypted(issued: Issued, path: Path) -> dict[str, str]:
    return {
        "ssl_keystore_type": "PEM",
        "ssl_keystore_location": str(issued.write(path / "one.pem", "geheim")),
        "ssl_key_password": "geheim",
    }


def inline(issued: Issued, path: Path) -> dict[str, str]:
    return {
        "ssl_keystore_type": "PEM",
        "ssl_keystore_key": issued.private_key(),
        "ssl_keystore_certificate_chain": issued.chain,
    }


def inline_on_one_line(issued: Issued, path: Path) -> dict[str, str]:
    return {key: value.replace("\n", " ") for key, value in inline(issued, path).items()}


def traditional(issued: Issued, path: Path) -> dict[str, str]:
    key = issued.key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    ).decode()
    return {**inline(issued, path), "ssl_keystore_key": key}


def in_pkcs12(issued: Issued, path: Path) -> dict[str, str]:
    file = path / "store.p12"
    file.touch(mode=0o600)
    file.write_bytes(issued.pkcs12("geheim"))
    return {
        "ssl_keystore_type": "PKCS12",
        "ssl_keystore_location": str(file),
        "ssl_keystore_password": "geheim",
    }


def in_pkcs12_as_jks(issued: Issued, path: Path) -> dict[str, str]:
    return {**in_pkcs12(issued, path), "ssl_keystore_type": "JKS"}


@pytest.mark.parametrize(
    "store",
    [
        in_one_file,
        encrypted,
        inline,
        inline_on_one_line,
        traditional,
        in_pkcs12,
        in_pkcs12_as_jks,
    ],
)
def test_each_kind_of_store_serves(
    tmp_path: Path, ca: Authority, issued: Issued, store: Callable[[Issued, Path], dict[str, str]]
) -> None:
    client = ssl.create_default_context(cadata=ca.pem)

    assert served_by(loaded(settings(**store(issued, tmp_path))), client) == issued.der


def test_the_key_of_an_encrypted_store_is_decrypted_for_who_knows_no_password(
    tmp_path: Path, issued: Issued
) -> None:
    found = settings(**encrypted(issued, tmp_path))

    key = tls_files.unencrypted(found, tls_files.read(found, now()))

    assert key.decode() == issued.private_key()


def escaped(key: str) -> Callable[[dict[str, str]], dict[str, str]]:
    """Write line ends as two characters, as some tools print them."""
    return lambda found: {**found, key: found[key].replace("\n", "\\n")}


def without(key: str) -> Callable[[dict[str, str]], dict[str, str]]:
    return lambda found: {name: value for name, value in found.items() if name != key}


def set_to(key: str, value: str) -> Callable[[dict[str, str]], dict[str, str]]:
    return lambda found: {**found, key: value}


@pytest.mark.parametrize(
    ("store", "change", "message"),
    [
        (in_one_file, without("ssl_keystore_location"), "a listener that encrypts needs a key"),
        (in_one_file, set_to("ssl_keystore_password", "x"), "type PEM has no password"),
        (in_one_file, set_to("ssl_keystore_type", "BKS"), "must be one of JKS, PEM, PKCS12"),
        (in_one_file, set_to("ssl_keystore_type", "JKS"), "set the type to PEM"),
        (in_one_file, set_to("ssl_keystore_location", "/no/file"), "No such file"),
        (in_one_file, set_to("ssl_client_auth", "perhaps"), "one of none, requested, required"),
        (in_one_file, set_to("ssl_client_auth", "required"), "required needs a trust store"),
        (in_one_file, set_to("ssl_enabled_protocols", "TLSv1.1"), "must be TLSv1.2 or TLSv1.3"),
        (in_one_file, set_to("ssl_cipher_suites", "TLS_RSA_WITH_RC4_128_MD5"), "must be one of"),
        (in_one_file, set_to("ssl_cipher_suites", "TLS_AES_128_GCM_SHA256"), "must name all"),
        (in_one_file, set_to("ssl_truststore_type", "PEM"), ""),
        (inline, without("ssl_keystore_key"), "belong together"),
        (inline, without("ssl_keystore_certificate_chain"), "belong together"),
        (inline, set_to("ssl_keystore_location", "/keys"), "ssl.keystore.location is set, too"),
        (inline, set_to("ssl_keystore_type", "PKCS12"), "must be PEM where ssl.keystore.key"),
        (inline, set_to("ssl_keystore_key", "nothing"), "no private keys in PEM, expected one"),
        (inline, set_to("ssl_keystore_certificate_chain", "x"), "no certificate in PEM"),
        (inline, escaped("ssl_keystore_certificate_chain"), "its PEM is not base64 with line ends"),
        (inline, escaped("ssl_keystore_key"), "OpenSSL refuses it"),
        (encrypted, without("ssl_key_password"), "the private key is encrypted"),
        (encrypted, set_to("ssl_key_password", "wrong"), "password of the private key is wrong"),
        (in_pkcs12, set_to("ssl_keystore_password", "wrong"), "its password is wrong"),
    ],
)
def test_a_store_of_no_use_is_refused_with_the_name_of_its_setting_and_no_secret(
    tmp_path: Path,
    issued: Issued,
    store: Callable[[Issued, Path], dict[str, str]],
    change: Callable[[dict[str, str]], dict[str, str]],
    message: str,
) -> None:
    properties = change(store(issued, tmp_path))
    if not message:
        loaded(settings(**properties))
        return
    with pytest.raises(ConfigError) as caught:
        loaded(settings(**properties))
    assert message in str(caught.value)
    assert "ssl." in caught.value.key
    for secret in ("geheim", "wrong", "BEGIN"):
        assert secret not in str(caught.value).replace("is wrong", "")


def test_a_key_that_others_may_read_is_refused(tmp_path: Path, issued: Issued) -> None:
    properties = in_one_file(issued, tmp_path)
    Path(properties["ssl_keystore_location"]).chmod(0o644)
    with pytest.raises(ConfigError, match="others may read its private key; chmod o-r"):
        loaded(settings(**properties))


def test_a_key_of_another_certificate_is_refused(ca: Authority, issued: Issued) -> None:
    properties = {**inline(issued, Path()), "ssl_keystore_key": ca.issue("x").private_key()}
    with pytest.raises(ConfigError, match="the private key is not that of the certificate"):
        loaded(settings(**properties))


@pytest.mark.parametrize("start", [b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce"])
def test_stores_of_java_are_refused_with_what_converts_them(tmp_path: Path, start: bytes) -> None:
    file = tmp_path / "store.jks"
    file.touch(mode=0o600)
    file.write_bytes(start + bytes(100))
    with pytest.raises(ConfigError, match="keytool -importkeystore -deststoretype PKCS12"):
        loaded(settings(ssl_keystore_location=str(file)))


def test_certificates_out_of_their_time_are_refused(ca: Authority) -> None:
    for issued, message in (
        (ca.issue(valid_from=-3 * DAY, valid_to=-DAY), "its certificate has expired at"),
        (ca.issue(valid_from=DAY, valid_to=3 * DAY), "its certificate is valid from"),
    ):
        with pytest.raises(ConfigError, match=message):
            loaded(settings(**inline(issued, Path())))


def test_an_empty_trust_store_is_an_error_and_not_everybody(tmp_path: Path, issued: Issued) -> None:
    empty = tmp_path / "ca.pem"
    empty.write_text("")
    with pytest.raises(ConfigError, match="it has no certificate"):
        loaded(
            settings(
                **inline(issued, tmp_path),
                ssl_truststore_type="PEM",
                ssl_truststore_location=str(empty),
            )
        )


@pytest.mark.parametrize(("old", "new"), [("\n", "\\n"), ("M", "\xe9"), ("M", "\ud800")])
def test_an_authority_that_is_no_pem_is_refused(
    tmp_path: Path, ca: Authority, issued: Issued, old: str, new: str
) -> None:
    given = {
        **inline(issued, tmp_path),
        "ssl_truststore_type": "PEM",
        "ssl_truststore_certificates": ca.pem.replace(old, new),
    }
    with pytest.raises(ConfigError, match=r"for configuration ssl\.truststore\.certificates: "):
        loaded(settings(**given))


def test_trust_stores_may_be_pkcs12(tmp_path: Path, ca: Authority, issued: Issued) -> None:
    store = tmp_path / "trust.p12"
    store.write_bytes(issued.pkcs12("geheim"))
    found = client_tls(
        {
            "ssl.truststore.type": "PKCS12",
            "ssl.truststore.location": str(store),
            "ssl.truststore.password": "geheim",
        }
    )
    client = tls_files.client_context(found, tls_files.read(found, now()))

    assert served_by(loaded(settings(**inline(issued, tmp_path))), client) == issued.der


def test_settings_of_a_listener_come_before_those_of_all() -> None:
    found = listener_tls(
        {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": "/all.pem",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": "/ca.pem",
            f"{PREFIX}ssl.keystore.location": "/own.pem",
            "ssl.client.auth": "required",
        },
        PREFIX,
        logs_in=True,
    )
    assert found.key_store is not None
    assert found.key_store.location == Path("/own.pem")
    # KIP-684: where clients log in, only the setting of the listener counts.
    assert found.client_auth.value == "none"


def test_suites_decide_the_versions() -> None:
    of_12 = client_tls({"ssl.cipher.suites": next(iter(SUITES))})
    of_13 = client_tls(
        {
            "ssl.cipher.suites": (
                "TLS_AES_128_GCM_SHA256,TLS_AES_256_GCM_SHA384,TLS_CHACHA20_POLY1305_SHA256"
            )
        }
    )
    assert (of_12.minimum.name, of_12.maximum.name) == ("TLSv1_2", "TLSv1_2")
    assert (of_13.minimum.name, of_13.maximum.name) == ("TLSv1_3", "TLSv1_3")
    with pytest.raises(ConfigError, match="has no suite of a version"):
        client_tls({"ssl.cipher.suites": next(iter(SUITES)), "ssl.enabled.protocols": "TLSv1.3"})


def test_nothing_shows_a_secret(tmp_path: Path, issued: Issued) -> None:
    for store in (encrypted, inline, in_pkcs12):
        found = settings(**store(issued, tmp_path))
        pem = tls_files.read(found, now())
        assert "geheim" not in repr(found)
        assert "PRIVATE" not in repr(found)
        assert "PRIVATE" not in repr(pem)


def test_dsa_is_refused(ca: Authority) -> None:
    from tests.certificates import _built, named

    key = dsa.generate_private_key(2048)
    certificate = _built(
        named("old"),
        ca.name,
        key.public_key(),
        ca.key,
        -DAY,
        DAY,  # type: ignore[arg-type]
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM).decode()
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()
    with pytest.raises(ConfigError, match="keys of kind DSA are not supported"):
        loaded(
            settings(
                ssl_keystore_type="PEM",
                ssl_keystore_key=private,
                ssl_keystore_certificate_chain=pem,
            )
        )
