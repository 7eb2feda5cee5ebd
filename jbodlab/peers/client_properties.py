r"""How a client reaches a cluster, from the property file of a Java client.

One file is read once, for the own client and for librdkafka. Stores of every kind are read here, so
that each client gets what it can use.

    security.protocol=SASL_SSL
    ssl.truststore.type=PEM
    ssl.truststore.location=/etc/kafka/ca.pem
    sasl.mechanism=SCRAM-SHA-512
    sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \
        username="alice" password="...";

librdkafka's names for the same things may stand there, too.

Source: `org.apache.kafka.clients.CommonClientConfigs`, `SslConfigs`, `SaslConfigs`.
"""

from __future__ import annotations

import datetime
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jbodlab.config import kafka_configs, tls_keys
from jbodlab.config.node_config import PROTOCOLS, encrypts, logs_in
from jbodlab.security import jaas
from jbodlab.security.plain import PLAIN
from jbodlab.security.scram import MECHANISMS
from jbodlab.security.secret import NO_SECRET, Secret
from jbodlab.security.tls_settings import SUITES, VERSIONS, TlsSettings
from jbodlab.vocabulary.errors import ConfigError

if TYPE_CHECKING:
    from jbodlab.peers.client_security import ClientSecurity
    from jbodlab.security.tls_files import Pem

PROTOCOL, MECHANISM, JAAS = "security.protocol", "sasl.mechanism", "sasl.jaas.config"
USER, PASSWORD = "sasl.username", "sasl.password"
CA, CHAIN, KEY = "ssl.ca.location", "ssl.certificate.location", "ssl.key.location"
PROTOCOLS_OF_TLS = "ssl.enabled.protocols"
OTHER_NAMES = {"sasl.mechanisms": MECHANISM}
KERBEROS = "GSSAPI"
"""Works with clients that have a library for it."""

KEYS = tls_keys.PREFIXED | {PROTOCOL, MECHANISM, JAAS, USER, PASSWORD, CA, CHAIN, KEY, *OTHER_NAMES}
"""Properties that are read here."""


@dataclass(frozen=True, kw_only=True)
class ClientProperties:
    """Content of a file.

    Attributes:
        protocol: One of `PROTOCOLS`.
        tls: How to encrypt; None for not at all.
        mechanism: How to log in; empty for not at all.
        user, password: Credentials of the login.
        others: All other properties.
    """

    protocol: str = "PLAINTEXT"
    tls: TlsSettings | None = None
    mechanism: str = ""
    user: str = ""
    password: Secret[str] = NO_SECRET
    others: Mapping[str, str]

    @property
    def security(self) -> ClientSecurity | None:
        """Security of the own client; None for nothing.

        Raises:
            ConfigError: a store is of no use, or the own client cannot log in that way.
        """
        from jbodlab.peers.client_security import ClientSecurity, Login

        if self.mechanism == KERBEROS:
            raise ConfigError(MECHANISM, KERBEROS, f"expected {PLAIN}, {', '.join(MECHANISMS)}")
        login = None
        if self.mechanism:
            login = Login(mechanism=self.mechanism, user=self.user, password=self.password)
        if self.tls is None and login is None:
            return None
        return ClientSecurity(
            tls=None if self.tls is None else lambda: self._context,
            login=login,
            random_bytes=os.urandom,
        )

    def librdkafka(self) -> dict[str, str]:
        """Return librdkafka's properties.

        Raises:
            ConfigError: a store is of no use, or the versions of TLS are not all.
        """
        found = {PROTOCOL: self.protocol.lower()} if self.protocol != "PLAINTEXT" else {}
        if self.mechanism:
            found[MECHANISM] = self.mechanism
        if self.user:
            found |= {USER: self.user, PASSWORD: self.password.reveal()}
        if self.tls is None:
            return found
        pem = self._pem
        texts = {
            "ssl.key.pem": pem.key.reveal().decode(),
            "ssl.certificate.pem": pem.chain.decode(),
            "ssl.ca.pem": pem.roots.decode(),
        }
        found |= {name: text for name, text in texts.items() if text}
        if self.tls.key_password is not None:
            found["ssl.key.password"] = self.tls.key_password.reveal()
        if (self.tls.minimum, self.tls.maximum) != (min(VERSIONS.values()), max(VERSIONS.values())):
            reason = "librdkafka, which this command uses, speaks TLSv1.2 and TLSv1.3"
            raise ConfigError(PROTOCOLS_OF_TLS, self.tls.minimum.name, reason)
        if self.tls.suites != tuple(SUITES.values()):
            found["ssl.cipher.suites"] = ":".join(self.tls.suites)
        if not self.tls.checks_host:
            found["ssl.endpoint.identification.algorithm"] = "none"
        return found

    @cached_property
    def _pem(self) -> Pem:
        from jbodlab.security import tls_files

        assert self.tls is not None
        return tls_files.read(self.tls, datetime.datetime.now(datetime.UTC))

    @cached_property
    def _context(self) -> ssl.SSLContext:
        from jbodlab.security import tls_files

        assert self.tls is not None
        return tls_files.client_context(self.tls, self._pem)


def client_properties(properties: Mapping[str, str]) -> ClientProperties:
    """Read the properties of a client; no store is read before it is needed.

    Raises:
        ConfigError: one is wrong; the text repeats no secret.
    """
    given = {OTHER_NAMES.get(key, key): value for key, value in properties.items()}
    others = {key: value for key, value in given.items() if key not in KEYS}
    for key, value in others.items():
        if key in kafka_configs.NODE:
            kafka_configs.NODE[key].refuse(key, value)
    protocol = given.get(PROTOCOL, "PLAINTEXT").strip().upper()
    if protocol not in PROTOCOLS:
        raise ConfigError(PROTOCOL, given[PROTOCOL], f"must be one of {', '.join(PROTOCOLS)}")
    number = PROTOCOLS[protocol]
    tls = tls_keys.client_tls(_stores(given)) if encrypts(number) else None
    login: dict[str, Any] = _login(given) if logs_in(number) else {}
    return ClientProperties(protocol=protocol, tls=tls, others=others, **login)


def _login(given: Mapping[str, str]) -> dict[str, Any]:
    mechanism = given.get(MECHANISM, KERBEROS).strip().upper()
    known = (PLAIN, *MECHANISMS, KERBEROS)
    if mechanism not in known:
        raise ConfigError(MECHANISM, given[MECHANISM], f"must be one of {', '.join(known)}")
    if mechanism == KERBEROS:
        return {"mechanism": mechanism}
    if JAAS in given:
        module = jaas.PLAIN_MODULE if mechanism == PLAIN else jaas.SCRAM_MODULE
        user, password = jaas.parse(JAAS, given[JAAS], module).own_login(JAAS)
    elif USER in given and PASSWORD in given:
        user, password = given[USER], Secret(given[PASSWORD])
    else:
        raise ConfigError(JAAS, "null", f'{mechanism} needs username="NAME" password="PASSWORD"')
    return {"mechanism": mechanism, "user": user, "password": password}


def _stores(given: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of stores by Java's names."""
    found = {key: value for key, value in given.items() if key in tls_keys.PREFIXED}
    if found.get("ssl.endpoint.identification.algorithm") == "none":
        found["ssl.endpoint.identification.algorithm"] = ""
    if CA in given:
        found |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": given[CA]}
    if CHAIN in given or KEY in given:
        chain, key = (given.get(one) or given[other] for one, other in ((CHAIN, KEY), (KEY, CHAIN)))
        found |= {
            "ssl.keystore.type": "PEM",
            tls_keys.KEY: _text(KEY, key),
            tls_keys.CHAIN: _text(CHAIN, chain),
        }
    return found


def _text(key: str, path: str) -> str:
    try:
        return Path(path).read_text("utf-8")
    except UnicodeDecodeError:
        raise ConfigError(key, path, "it is no PEM") from None
    except OSError as error:
        raise ConfigError(key, path, error.strerror or str(error)) from error
