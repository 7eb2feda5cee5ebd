"""Keys and certificates from files to contexts of `ssl`; the only part of this room with files.

`ssl` reads a private key from a file only. A key or certificate outside a file of PEM (settings
that hold PEM, stores in PKCS12) is given to it as a file in memory, which no other process sees.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import re
import ssl
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jbodlab.security import certificate
from jbodlab.security.certificate import Certificate
from jbodlab.security.secret import HIDDEN, Secret
from jbodlab.security.tls_settings import ClientAuth, Store, TlsSettings
from jbodlab.vocabulary.errors import ConfigError, DecodeError

STORE_BYTES_MAX = 4 << 20
"""A larger file is no store."""

CERTIFICATE = re.compile(
    rb"-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----", re.MULTILINE
)
KEY = re.compile(rb"-----BEGIN ([A-Z ]*)PRIVATE KEY-----.+?-----END \1PRIVATE KEY-----", re.DOTALL)
JKS, JCEKS, DER = b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce", b"\x30"
CONVERT = "convert it with keytool -importkeystore -deststoretype PKCS12"

DH_PARAMETERS = b"""\
-----BEGIN DH PARAMETERS-----
MIIBCAKCAQEA//////////+t+FRYortKmq/cViAnPTzx2LnFg84tNpWp4TZBFGQz
+8yTnc4kmz75fS/jY2MMddj2gbICrsRhetPfHtXV/WVhJDP1H18GbtCFY2VVPe0a
87VXE15/V8k1mE8McODmi3fipona8+/och3xWKE2rec1MKzKT0g6eXq8CrGCsyT7
YdEIqUuyyOP7uWrat2DX9GgdT0Kj3jlN9K5W7edjcrsZCwenyO4KbXCeAvzhzffi
7MA0BM0oNC9hkXL+nOmFg/+OTxIy7vKBg8P+OxtMb61zO7X8vC7CIAXFjvGDfRaD
ssbzSibBsu/6iGtCOGEoXJf//////////wIBAg==
-----END DH PARAMETERS-----
"""
"""The group ffdhe2048 of RFC 7919."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pem:
    """Content of stores, as PEM; empty where there is no such store.

    Attributes:
        key: The private key, maybe encrypted.
        chain: Its certificate, then those of its issuers.
        roots: Certificates of whoever is trusted.
    """

    key: Secret[bytes]
    chain: bytes
    roots: bytes

    @property
    def leaf(self) -> Certificate:
        """The certificate of this side; raises DecodeError."""
        return certificate.read(leaf_of(self.chain))


def leaf_of(chain: bytes) -> bytes:
    """Return the first certificate of a chain, as DER.

    Raises:
        DecodeError: it is no certificate.
    """
    found = CERTIFICATE.search(chain)
    assert found is not None
    try:
        return ssl.PEM_cert_to_DER_cert(found[0].decode())
    except ValueError as error:
        reason = "its PEM is not base64 with line ends"
        raise DecodeError(reason) from error


def read(settings: TlsSettings, now: datetime.datetime) -> Pem:
    """Read the stores and check them.

    Args:
        settings: Where they are.
        now: A certificate of this side has to be valid at that time.

    Raises:
        ConfigError: a store cannot be read, or is of no use; the text names the setting.
    """
    key, chain, roots = b"", b"", b""
    if settings.key_store is not None:
        key, chain = _key_and_chain(settings.key_store, settings.key_password)
    if settings.trust_store is not None:
        roots = _roots(settings.trust_store)
    pem = Pem(key=Secret(key), chain=chain, roots=roots)
    if settings.key_store is not None:
        _check_leaf(settings.key_store, pem, now)
        if b"ENCRYPTED" in key and settings.key_password is None:
            raise ConfigError(
                f"{settings.prefix}ssl.key.password", "null", "the private key is encrypted"
            )
    return pem


def server_context(settings: TlsSettings, pem: Pem) -> ssl.SSLContext:
    """Return the context of a listener.

    Raises:
        ConfigError: key and certificate do not fit, or cannot be used.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _set_up(context, settings, pem)
    # A session that is taken up again skips the trust store. Without tickets there is none in TLS
    # 1.3, and one of TLS 1.2 only as long as this context is used: a new trust store makes a new
    # one, which knows no session. `ssl` cannot switch off the sessions of TLS 1.2.
    context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
    context.num_tickets = 0
    context.verify_mode = {
        ClientAuth.NONE: ssl.CERT_NONE,
        ClientAuth.REQUESTED: ssl.CERT_OPTIONAL,
        ClientAuth.REQUIRED: ssl.CERT_REQUIRED,
    }[settings.client_auth]
    with _in_memory(DH_PARAMETERS) as path:
        context.load_dh_params(str(path))
    return context


def client_context(settings: TlsSettings, pem: Pem) -> ssl.SSLContext:
    """Return the context of a client.

    Raises:
        ConfigError: key and certificate do not fit, or cannot be used.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _set_up(context, settings, pem)
    context.check_hostname = settings.checks_host
    if not pem.roots:
        context.load_default_certs()
    return context


def unencrypted(settings: TlsSettings, pem: Pem) -> bytes:
    """Return the private key without its password, for who cannot be told one.

    Raises:
        ConfigError: the library that it takes is not there, or the password is wrong.
    """
    key = pem.key.reveal()
    if b"ENCRYPTED" not in key:
        return key
    name = f"{settings.prefix}ssl.key.password"
    serialization = _cryptography(name)
    assert settings.key_password is not None
    try:
        loaded = serialization.load_pem_private_key(key, settings.key_password.reveal().encode())
    except (ValueError, TypeError):
        raise ConfigError(name, HIDDEN, "the private key cannot be decrypted") from None
    return _key_as_pem(serialization, loaded)


def stamp(settings: TlsSettings) -> tuple[tuple[int, int, int] | None, ...]:
    """Return what changes with the files of the stores; None for one that is not there."""
    stamps: list[tuple[int, int, int] | None] = []
    for store in (settings.key_store, settings.trust_store):
        if store is None or store.location is None:
            continue
        try:
            found = store.location.stat()
        except OSError:
            stamps.append(None)
        else:
            stamps.append((found.st_ino, found.st_size, found.st_mtime_ns))
    return tuple(stamps)


def _set_up(context: ssl.SSLContext, settings: TlsSettings, pem: Pem) -> None:
    context.minimum_version, context.maximum_version = settings.minimum, settings.maximum
    if settings.suites:
        context.set_ciphers(":".join(settings.suites))
    # As in Java, whoever is in a trust store is trusted, be it an authority at the root or not.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if pem.roots:
        assert settings.trust_store is not None
        try:
            context.load_verify_locations(cadata=pem.roots.decode())
        except (ssl.SSLError, ValueError, TypeError) as error:
            raise _unusable(settings.trust_store, _reason(error)) from error
    if settings.key_store is None:
        return
    password = settings.key_password
    with _in_memory(pem.key.reveal() + b"\n" + pem.chain) as path:
        try:
            # Without a function OpenSSL would ask the terminal.
            context.load_cert_chain(path, password=lambda: password.reveal() if password else "")
        except (ssl.SSLError, ValueError) as error:
            is_encrypted = b"ENCRYPTED" in pem.key.reveal()
            raise _unusable(settings.key_store, _reason(error, is_encrypted=is_encrypted)) from None


def _reason(error: Exception, *, is_encrypted: bool = False) -> str:
    reason = getattr(error, "reason", None)
    if reason == "KEY_VALUES_MISMATCH":
        return "the private key is not that of the certificate"
    if is_encrypted:
        # OpenSSL has a reason of its own for each kind of encryption, and none for some.
        return "the password of the private key is wrong"
    return f"OpenSSL refuses it ({reason or error})"


def _check_leaf(store: Store, pem: Pem, now: datetime.datetime) -> None:
    try:
        leaf = pem.leaf
    except DecodeError as error:
        raise _unusable(store, str(error)) from error
    if leaf.key_algorithm == certificate.DSA:
        raise _unusable(store, "keys of kind DSA are not supported")
    if not leaf.subject and not leaf.alternative_names:
        raise _unusable(store, "its certificate names nobody")
    if now < leaf.not_before:
        raise _unusable(store, f"its certificate is valid from {leaf.not_before.isoformat()} on")
    if now > leaf.not_after:
        raise _unusable(store, f"its certificate has expired at {leaf.not_after.isoformat()}")


def _key_and_chain(store: Store, key_password: Secret[str] | None) -> tuple[bytes, bytes]:
    data = _content(store, is_secret=True)
    if _is_pem(store, data):
        keys, certificates = list(KEY.finditer(data)), CERTIFICATE.findall(data)
        if len(keys) != 1:
            raise _unusable(store, f"it has {len(keys) or 'no'} private keys in PEM, expected one")
        if not certificates:
            raise _unusable(store, "it has no certificate in PEM")
        return keys[0][0], b"\n".join(certificates)
    serialization = _cryptography(f"{store.key}.type")
    password = store.password or key_password
    try:
        key, leaf, others = serialization.pkcs12.load_key_and_certificates(
            data, None if password is None else password.reveal().encode()
        )
    except ValueError:
        raise _unusable(store, "it is no PKCS12 store, or its password is wrong") from None
    if key is None or leaf is None:
        raise _unusable(store, "it has no private key with a certificate")
    encoding = serialization.Encoding.PEM
    chain = b"".join(each.public_bytes(encoding) for each in (leaf, *others))
    return _key_as_pem(serialization, key), chain


def _key_as_pem(serialization: Any, key: Any) -> bytes:
    pem: bytes = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return pem


def _roots(store: Store) -> bytes:
    data = _content(store, is_secret=False)
    if _is_pem(store, data):
        found = CERTIFICATE.findall(data)
    else:
        serialization = _cryptography(f"{store.key}.type")
        try:
            loaded = serialization.pkcs12.load_pkcs12(
                data, None if store.password is None else store.password.reveal().encode()
            )
        except ValueError:
            raise _unusable(store, "it is no PKCS12 store, or its password is wrong") from None
        holders = [*([loaded.cert] if loaded.cert else []), *loaded.additional_certs]
        encoding = serialization.Encoding.PEM
        found = [each.certificate.public_bytes(encoding) for each in holders]
    if not found:
        raise _unusable(store, "it has no certificate")
    return b"\n".join(found)


def _content(store: Store, *, is_secret: bool) -> bytes:
    if store.text is not None:
        return store.text.reveal().encode("utf-8", "replace")
    assert store.location is not None
    try:
        with store.location.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            if is_secret and mode & stat.S_IROTH:
                raise _unusable(store, "others may read its private key; chmod o-r")
            data = file.read(STORE_BYTES_MAX)
    except OSError as error:
        raise _unusable(store, error.strerror or str(error)) from error
    if data[:4] in (JKS, JCEKS):
        raise _unusable(store, f"stores in JKS are not supported; {CONVERT}")
    return data


def _is_pem(store: Store, data: bytes) -> bool:
    """Return whether a store is PEM, else it is PKCS12; Java reads that under the type JKS, too."""
    if store.kind == "PEM":
        return True
    if data[:1] != DER:
        hint = "; set the type to PEM" if b"-----BEGIN" in data else ""
        raise _unusable(store, f"it is no PKCS12 store{hint}")
    return False


def _cryptography(key: str) -> Any:
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.serialization import pkcs12
    except ImportError:
        raise ConfigError(
            key, "PKCS12", "takes the library cryptography: pip install 'jbodlab[pkcs12]'"
        ) from None
    assert pkcs12
    return serialization


def _unusable(store: Store, reason: str) -> ConfigError:
    if store.location is not None:
        return ConfigError(f"{store.key}.location", store.location, reason)
    return ConfigError(store.key, HIDDEN, reason)


@contextlib.contextmanager
def _in_memory(data: bytes) -> Iterator[Path]:
    """Make a file that exists in memory only, and for this process."""
    descriptor = os.memfd_create("pem")
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        yield Path(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)
