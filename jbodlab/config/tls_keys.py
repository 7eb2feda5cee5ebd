"""Kafka's settings `ssl.*` as values, with and without the prefix of a listener.

A setting with the prefix `listener.name.<name>.` is for one listener and takes precedence. The same
names stand in the property files of clients.

Source: `org.apache.kafka.common.config.SslConfigs`, `BrokerSecurityConfigs`, KIP-651, KIP-684.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path

from jbodlab.config import kafka_configs
from jbodlab.security import mapping_rules
from jbodlab.security.mapping_rules import MappingRules
from jbodlab.security.secret import HIDDEN, Secret
from jbodlab.security.tls_settings import (
    SUITES,
    SUITES_13,
    VERSIONS,
    ClientAuth,
    Store,
    TlsSettings,
)
from jbodlab.vocabulary.errors import ConfigError

CLIENT_AUTH = "ssl.client.auth"
KEY_STORE, TRUST_STORE = "ssl.keystore", "ssl.truststore"
KEY, CHAIN, CERTIFICATES = (
    "ssl.keystore.key",
    "ssl.keystore.certificate.chain",
    "ssl.truststore.certificates",
)
KEY_PASSWORD = "ssl.key.password"
STORE_TYPES = ("JKS", "PEM", "PKCS12")
STORES = frozenset(
    {
        KEY,
        CHAIN,
        CERTIFICATES,
        KEY_PASSWORD,
        *(
            f"{store}.{part}"
            for store in (KEY_STORE, TRUST_STORE)
            for part in ("location", "password", "type")
        ),
    }
)
"""Settings of key stores and trust stores."""

SECRETS = frozenset(
    {KEY, CHAIN, CERTIFICATES, KEY_PASSWORD, f"{KEY_STORE}.password", f"{TRUST_STORE}.password"}
)
"""Settings that nobody may see, as Kafka's type PASSWORD."""

PREFIXED = STORES | {
    CLIENT_AUTH,
    "ssl.allow.dn.changes",
    "ssl.allow.san.changes",
    "ssl.cipher.suites",
    "ssl.enabled.protocols",
    "ssl.endpoint.identification.algorithm",
    "ssl.principal.mapping.rules",
    "ssl.protocol",
}
"""Settings that a listener may have of its own."""


class _Settings:
    """The settings of one listener, or of a client."""

    def __init__(self, properties: Mapping[str, str], prefix: str) -> None:
        self._properties = properties
        self.prefix = prefix

    def name(self, key: str) -> str:
        """Return the name under which a setting is found."""
        return self.prefix + key if self.prefix + key in self._properties else key

    def text(self, key: str) -> str | None:
        """Return a setting; None where it is not set and has no default."""
        found = self._properties.get(self.name(key), kafka_configs.NODE[key].default)
        return None if found is None else found.strip()

    def secret(self, key: str) -> Secret[str] | None:
        """Return a setting that nobody may see; None where it is not set."""
        found = self._properties.get(self.name(key))
        return None if found is None else Secret(found.strip())

    def words(self, key: str) -> tuple[str, ...]:
        """Return a comma-separated setting."""
        return tuple(word for part in (self.text(key) or "").split(",") if (word := part.strip()))

    def flag(self, key: str) -> bool:
        """Return a setting that is true or false."""
        text = (self.text(key) or "").lower()
        if text not in ("true", "false"):
            raise ConfigError(self.name(key), text, "expected true or false")
        return text == "true"


def client_tls(properties: Mapping[str, str], prefix: str = "") -> TlsSettings:
    """Read how a client encrypts, also a broker that connects to others.

    Args:
        properties: All settings.
        prefix: Of the listener whose settings they are; empty in the file of a client.

    Raises:
        ConfigError: a setting is wrong.
    """
    settings = _Settings(properties, prefix)
    minimum, maximum, suites = _versions_and_suites(settings)
    return TlsSettings(
        prefix=prefix,
        key_store=_key_store(settings),
        key_password=settings.secret(KEY_PASSWORD),
        trust_store=_trust_store(settings),
        minimum=minimum,
        maximum=maximum,
        suites=suites,
        checks_host=_checks_host(settings),
    )


def listener_tls(properties: Mapping[str, str], prefix: str, *, logs_in: bool) -> TlsSettings:
    """Read how a listener encrypts.

    Args:
        properties: All settings of the server.
        prefix: Of the listener's own ones.
        logs_in: Whether its clients log in, and only the prefixed `ssl.client.auth` counts.

    Raises:
        ConfigError: a setting is wrong, or one is missing.
    """
    settings = _Settings(properties, prefix)
    minimum, maximum, suites = _versions_and_suites(settings)
    key_store, trust_store = _key_store(settings), _trust_store(settings)
    if key_store is None:
        raise ConfigError(
            f"{prefix}{KEY_STORE}.location", "null", "a listener that encrypts needs a key store"
        )
    client_auth = _client_auth(settings, logs_in=logs_in)
    if client_auth is not ClientAuth.NONE and trust_store is None:
        raise ConfigError(
            f"{prefix}{TRUST_STORE}.location",
            "null",
            f"{CLIENT_AUTH}={client_auth.value} needs a trust store",
        )
    return TlsSettings(
        prefix=prefix,
        key_store=key_store,
        key_password=settings.secret(KEY_PASSWORD),
        trust_store=trust_store,
        client_auth=client_auth,
        minimum=minimum,
        maximum=maximum,
        suites=suites,
        rules=_rules(settings),
        checks_host=_checks_host(settings),
        allows_other_name=settings.flag("ssl.allow.dn.changes"),
        allows_fewer_names=settings.flag("ssl.allow.san.changes"),
    )


def controllers_tls(properties: Mapping[str, str], prefix: str) -> TlsSettings:
    """Read how controllers encrypt among themselves, as servers and as clients.

    Each of them shows a certificate, whatever `ssl.client.auth` says.

    Raises:
        ConfigError: as `listener_tls`.
    """
    known = {**properties, prefix + CLIENT_AUTH: ClientAuth.REQUIRED.value}
    return listener_tls(known, prefix, logs_in=False)


def mapping(properties: Mapping[str, str], prefix: str) -> MappingRules:
    """Read the rules that name users by the subjects of their certificates.

    Raises:
        ConfigError: a rule is malformed.
    """
    return _rules(_Settings(properties, prefix))


def _rules(settings: _Settings) -> MappingRules:
    key = "ssl.principal.mapping.rules"
    return mapping_rules.parse(settings.name(key), settings.text(key) or "")


def _checks_host(settings: _Settings) -> bool:
    key = "ssl.endpoint.identification.algorithm"
    algorithm = settings.text(key) or ""
    if algorithm.lower() not in ("", "https"):
        raise ConfigError(settings.name(key), algorithm, "must be https, or empty")
    return bool(algorithm)


def _client_auth(settings: _Settings, *, logs_in: bool) -> ClientAuth:
    name = settings.name(CLIENT_AUTH)
    if logs_in and name == CLIENT_AUTH:
        return ClientAuth.NONE
    text = settings.text(CLIENT_AUTH) or ""
    try:
        return ClientAuth(text.lower())
    except ValueError:
        choices = ", ".join(each.value for each in ClientAuth)
        raise ConfigError(name, text, f"must be one of {choices}") from None


def _versions_and_suites(
    settings: _Settings,
) -> tuple[ssl.TLSVersion, ssl.TLSVersion, tuple[str, ...]]:
    key = "ssl.enabled.protocols"
    versions = []
    for word in settings.words(key):
        if word.upper() not in VERSIONS:
            raise ConfigError(settings.name(key), word, "must be TLSv1.2 or TLSv1.3")
        versions.append(VERSIONS[word.upper()])
    if not versions:
        raise ConfigError(settings.name(key), "", "must be TLSv1.2 or TLSv1.3")
    minimum, maximum = min(versions), max(versions)
    key = "ssl.cipher.suites"
    words = settings.words(key)
    if not words:
        return minimum, maximum, tuple(SUITES.values())
    for word in words:
        if word not in SUITES and word not in SUITES_13:
            known = ", ".join((*SUITES, *sorted(SUITES_13)))
            raise ConfigError(settings.name(key), word, f"must be one of {known}")
    of_13 = SUITES_13.intersection(words)
    if of_13 and of_13 != SUITES_13 and maximum == VERSIONS["TLSV1.3"]:
        raise ConfigError(
            settings.name(key),
            ",".join(words),
            f"must name all suites of TLS 1.3 or none: {', '.join(sorted(SUITES_13))}",
        )
    suites = tuple(SUITES[word] for word in words if word in SUITES)
    if not suites:
        minimum = VERSIONS["TLSV1.3"]
    if not of_13:
        maximum = VERSIONS["TLSV1.2"]
    if minimum > maximum:
        versions_name = settings.name("ssl.enabled.protocols")
        raise ConfigError(
            settings.name(key), ",".join(words), f"has no suite of a version of {versions_name}"
        )
    return minimum, maximum, suites


def _key_store(settings: _Settings) -> Store | None:
    key, chain = settings.secret(KEY), settings.secret(CHAIN)
    if (key is None) != (chain is None):
        missing = KEY if key is None else CHAIN
        raise ConfigError(settings.name(missing), "null", f"{KEY} and {CHAIN} belong together")
    text = None
    if key is not None and chain is not None:
        text = Secret(f"{_pem(key.reveal())}\n{_pem(chain.reveal())}\n")
    return _store(settings, KEY_STORE, KEY, text)


def _trust_store(settings: _Settings) -> Store | None:
    text = settings.secret(CERTIFICATES)
    text = None if text is None else Secret(_pem(text.reveal()))
    return _store(settings, TRUST_STORE, CERTIFICATES, text)


def _store(settings: _Settings, store: str, inline: str, text: Secret[str] | None) -> Store | None:
    location = settings.text(f"{store}.location")
    password = settings.secret(f"{store}.password")
    kind = (settings.text(f"{store}.type") or "").upper()
    if kind not in STORE_TYPES:
        raise ConfigError(
            settings.name(f"{store}.type"), kind, f"must be one of {', '.join(STORE_TYPES)}"
        )
    if text is None and not location:
        return None
    if text is not None and location:
        raise ConfigError(settings.name(inline), HIDDEN, f"{store}.location is set, too")
    if text is not None and kind != "PEM":
        raise ConfigError(
            settings.name(f"{store}.type"), kind, f"must be PEM where {inline} is set"
        )
    if kind == "PEM" and password is not None:
        raise ConfigError(
            settings.name(f"{store}.password"),
            HIDDEN,
            f"a store of type PEM has no password; that of a private key is {KEY_PASSWORD}",
        )
    return Store(
        key=settings.name(inline) if text is not None else settings.prefix + store,
        kind=kind,
        location=Path(location) if location else None,
        password=password,
        text=text,
    )


def _pem(text: str) -> str:
    """Return PEM with its lines apart: in a property file they may be joined by blanks."""
    words = text.replace("-----BEGIN ", "\n-----BEGIN ").replace("-----END ", "\n-----END ")
    lines = []
    for line in filter(None, map(str.strip, words.splitlines())):
        if line.startswith("-----"):
            head, _, rest = line[5:].partition("-----")
            lines += [f"-----{head}-----", *rest.split()]
        else:
            lines += line.split()
    return "\n".join(lines)
