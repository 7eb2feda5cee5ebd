"""How connections are encrypted, as settings say it: Kafka's `ssl.*`.

Source: `org.apache.kafka.common.config.SslConfigs`, KIP-651 for PEM.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from jbodlab.security.mapping_rules import SUBJECT_ITSELF, MappingRules
from jbodlab.security.secret import Secret

VERSIONS = {"TLSV1.2": ssl.TLSVersion.TLSv1_2, "TLSV1.3": ssl.TLSVersion.TLSv1_3}
"""The versions that are spoken; older ones are broken."""

SUITES = {
    f"TLS_{exchange}_WITH_{cipher}": f"{exchange.replace('_', '-')}-{name}"
    for exchange in ("ECDHE_ECDSA", "ECDHE_RSA", "DHE_RSA")
    for cipher, name in (
        ("AES_256_GCM_SHA384", "AES256-GCM-SHA384"),
        ("AES_128_GCM_SHA256", "AES128-GCM-SHA256"),
        ("CHACHA20_POLY1305_SHA256", "CHACHA20-POLY1305"),
    )
}
"""Suites of TLS 1.2 that are offered, and OpenSSL's names of them; the best one first."""

SUITES_13 = frozenset(
    {"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"}
)
"""Suites of TLS 1.3: `ssl` enables all of them, or with that version none."""


class ClientAuth(Enum):
    """Whether clients have certificates: `ssl.client.auth`."""

    NONE = "none"
    REQUESTED = "requested"
    REQUIRED = "required"


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """A key store or a trust store.

    Attributes:
        key: Start of the names of its settings, such as `ssl.keystore`.
        kind: PEM, PKCS12 or JKS, as the setting says.
        location: Its file; None where the settings themselves hold it.
        password: Of the file.
        text: PEM in place of a file: of a key store the private key and its certificates.
    """

    key: str
    kind: str
    location: Path | None = None
    password: Secret[str] | None = None
    text: Secret[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """How one listener, or one client, encrypts.

    Attributes:
        prefix: Of the settings' names, for errors.
        key_store: Key and certificates of this side; None of a client without any.
        key_password: Of an encrypted private key.
        trust_store: Whom this side trusts; None for nobody on a server, and for the authorities of
            the system on a client.
        client_auth: Whether clients have to show a certificate.
        minimum, maximum: Versions.
        suites: Names of OpenSSL's for TLS 1.2, the best one first.
        rules: Names of users from the subjects of their certificates.
        checks_host: Whether a client compares the server's name.
        allows_other_name, allows_fewer_names: Changes of names that a new certificate may bring
            without a restart.
    """

    prefix: str = ""
    key_store: Store | None = None
    key_password: Secret[str] | None = None
    trust_store: Store | None = None
    client_auth: ClientAuth = ClientAuth.NONE
    minimum: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2
    maximum: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3
    suites: tuple[str, ...] = tuple(SUITES.values())
    rules: MappingRules = SUBJECT_ITSELF
    checks_host: bool = True
    allows_other_name: bool = False
    allows_fewer_names: bool = False
