"""Kafka's client settings, from a property file, in kafka-python's words.

| Kafka                                        | kafka-python                                     |
|----------------------------------------------|--------------------------------------------------|
| security.protocol, sasl.mechanism            | the same with underscores                        |
| sasl.jaas.config                             | sasl_plain_username, sasl_plain_password         |
| ssl.truststore.location (PEM)                | ssl_cafile                                       |
| ssl.keystore.location (PEM)                  | ssl_certfile and ssl_keyfile                     |
| ssl.key.password                             | ssl_password                                     |
| ssl.endpoint.identification.algorithm empty  | ssl_check_hostname off                           |
| client.id and the time-outs and buffers      | the same with underscores                        |

Java's key stores (JKS, PKCS12) cannot be read and are refused by name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from jbodlab.errors import ConfigError

DEFAULT_REQUEST_TIMEOUT_MS = 30_000

_TEXTS = {
    "client.id": "client_id",
    "sasl.kerberos.service.name": "sasl_kerberos_service_name",
    "ssl.key.password": "ssl_password",
}
_NUMBERS = {
    "connections.max.idle.ms": "connections_max_idle_ms",
    "metadata.max.age.ms": "metadata_max_age_ms",
    "receive.buffer.bytes": "receive_buffer_bytes",
    "reconnect.backoff.max.ms": "reconnect_backoff_max_ms",
    "reconnect.backoff.ms": "reconnect_backoff_ms",
    "request.timeout.ms": "request_timeout_ms",
    "retry.backoff.ms": "retry_backoff_ms",
    "send.buffer.bytes": "send_buffer_bytes",
}
_CHOICES = {
    "security.protocol": (
        "security_protocol",
        ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    ),
    "sasl.mechanism": (
        "sasl_mechanism",
        ("PLAIN", "GSSAPI", "SCRAM-SHA-256", "SCRAM-SHA-512"),
    ),
}
_STORES = {
    "ssl.truststore.location": ("ssl.truststore.type", ("ssl_cafile",)),
    "ssl.keystore.location": ("ssl.keystore.type", ("ssl_certfile", "ssl_keyfile")),
}
_WITHOUT_EFFECT = {"bootstrap.servers", "ssl.truststore.type", "ssl.keystore.type"}
"""Named by the command line, or read with another key."""

_JAAS_OPTION = re.compile(r"""(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'([^']*)'|([^\s;"']+))""")
_JAAS_MODULES = ("PlainLoginModule", "ScramLoginModule")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig:
    """kafka-python's settings, and the keys of the file that mean nothing to it."""

    settings: Mapping[str, object]
    unknown: tuple[str, ...] = ()

    @property
    def request_timeout_ms(self) -> int:
        """Longest wait for one answer."""
        value = self.settings.get("request_timeout_ms", DEFAULT_REQUEST_TIMEOUT_MS)
        assert isinstance(value, int)
        return value

    @property
    def is_plaintext(self) -> bool:
        """Whether connections are neither encrypted nor authenticated."""
        return self.settings.get("security_protocol", "PLAINTEXT") == "PLAINTEXT"


def client_config(properties: Mapping[str, str]) -> ClientConfig:
    """Translate settings.

    Raises:
        ConfigError: a value is wrong, or names a kind of store that cannot be read.
    """
    settings: dict[str, object] = {}
    unknown: list[str] = []
    for key, value in properties.items():
        if key in _TEXTS:
            settings[_TEXTS[key]] = value
        elif key in _NUMBERS:
            settings[_NUMBERS[key]] = _number(key, value)
        elif key in _CHOICES:
            name, choices = _CHOICES[key]
            settings[name] = _choice(key, value, choices)
        elif key in _STORES:
            settings.update(_store(key, value, properties))
        elif key == "sasl.jaas.config":
            settings.update(_jaas(key, value))
        elif key == "ssl.endpoint.identification.algorithm":
            settings["ssl_check_hostname"] = value != ""
        elif key not in _WITHOUT_EFFECT:
            unknown.append(key)
    return ClientConfig(settings=settings, unknown=tuple(unknown))


def _number(key: str, value: str) -> int:
    if not (value.isascii() and value.isdecimal()):
        raise ConfigError(key, value, "not a number")
    return int(value)


def _choice(key: str, value: str, choices: tuple[str, ...]) -> str:
    if value not in choices:
        raise ConfigError(key, value, f"must be one of {', '.join(choices)}")
    return value


def _store(key: str, path: str, properties: Mapping[str, str]) -> dict[str, object]:
    type_key, names = _STORES[key]
    kind = properties.get(type_key, "JKS")
    if kind.upper() != "PEM":
        raise ConfigError(key, path, f"{kind} stores cannot be read; use PEM and {type_key}=PEM")
    return dict.fromkeys(names, path)


def _jaas(key: str, value: str) -> dict[str, object]:
    module = value.split()[0] if value.split() else ""
    if module.rpartition(".")[2] not in _JAAS_MODULES:
        # Kerberos takes its credentials from the ticket cache.
        if "Krb5LoginModule" in module:
            return {}
        raise ConfigError(
            key, module, f"the login module must be one of {', '.join(_JAAS_MODULES)}"
        )
    found: dict[str, str] = {}
    for name, double, single, bare in _JAAS_OPTION.findall(value):
        found[name] = re.sub(r"\\(.)", r"\1", double) or single or bare
    if not {"username", "password"} <= set(found):
        # The value holds a password: it is not repeated.
        raise ConfigError(key, module, "username and password are needed")
    return {
        "sasl_plain_username": found["username"],
        "sasl_plain_password": found["password"],
    }
