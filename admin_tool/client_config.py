"""The client's properties, from a file, in kafka-python's words.

The properties are those of librdkafka, which other commands hand on as they are.

| property                               | kafka-python                      |
|----------------------------------------|-----------------------------------|
| security.protocol, sasl.mechanism      | the same with underscores         |
| sasl.username, sasl.password           | sasl_plain_username and _password |
| ssl.ca.location                        | ssl_cafile                        |
| ssl.certificate.location               | ssl_certfile                      |
| ssl.key.location, ssl.key.password     | ssl_keyfile, ssl_password         |
| ssl.endpoint.identification.algorithm  | ssl_check_hostname                |
| client.id and the timeouts and buffers | the same with underscores         |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from jbodlab.errors import ConfigError

DEFAULT_REQUEST_TIMEOUT_MS = 30_000

_TEXTS = {
    "client.id": "client_id",
    "sasl.kerberos.service.name": "sasl_kerberos_service_name",
    "sasl.password": "sasl_plain_password",
    "sasl.username": "sasl_plain_username",
    "ssl.ca.location": "ssl_cafile",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.key.location": "ssl_keyfile",
    "ssl.key.password": "ssl_password",
}
_NUMBERS = {
    "connections.max.idle.ms": "connections_max_idle_ms",
    "metadata.max.age.ms": "metadata_max_age_ms",
    "reconnect.backoff.max.ms": "reconnect_backoff_max_ms",
    "reconnect.backoff.ms": "reconnect_backoff_ms",
    "request.timeout.ms": "request_timeout_ms",
    "retry.backoff.ms": "retry_backoff_ms",
    "socket.receive.buffer.bytes": "receive_buffer_bytes",
    "socket.send.buffer.bytes": "send_buffer_bytes",
}
_CHOICES = {
    "security.protocol": ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    "sasl.mechanism": ("PLAIN", "GSSAPI", "SCRAM-SHA-256", "SCRAM-SHA-512"),
}
_ALIASES = {"sasl.mechanisms": "sasl.mechanism"}
"""Properties with two names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig:
    """kafka-python's settings, and the properties that mean nothing to it."""

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
    """Translate properties.

    Raises:
        ConfigError: a value is wrong.
    """
    settings: dict[str, object] = {}
    unknown: list[str] = []
    for name, value in properties.items():
        key = _ALIASES.get(name, name)
        if key in _TEXTS:
            settings[_TEXTS[key]] = value
        elif key in _NUMBERS:
            settings[_NUMBERS[key]] = _number(key, value)
        elif key in _CHOICES:
            settings[key.replace(".", "_")] = _choice(key, value.upper())
        elif key == "ssl.endpoint.identification.algorithm":
            settings["ssl_check_hostname"] = value not in ("", "none")
        elif key != "bootstrap.servers":
            unknown.append(key)
    return ClientConfig(settings=settings, unknown=tuple(unknown))


def _number(key: str, value: str) -> int:
    if not (value.isascii() and value.isdecimal()):
        raise ConfigError(key, value, "not a number")
    return int(value)


def _choice(key: str, value: str) -> str:
    if value not in _CHOICES[key]:
        raise ConfigError(key, value, f"must be one of {', '.join(_CHOICES[key])}")
    return value
