"""The client's properties, from a file, in kafka-python's words.

The properties are those of librdkafka, which other commands hand on as they are. kafka-python has
most of them with underscores instead of dots.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from jbodlab.vocabulary.errors import ConfigError

DEFAULT_REQUEST_TIMEOUT_MS = 30_000

_RENAMED = {
    "sasl.mechanisms": "sasl_mechanism",
    "sasl.password": "sasl_plain_password",
    "sasl.username": "sasl_plain_username",
    "socket.receive.buffer.bytes": "receive_buffer_bytes",
    "socket.send.buffer.bytes": "send_buffer_bytes",
    "ssl.ca.location": "ssl_cafile",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.endpoint.identification.algorithm": "ssl_check_hostname",
    "ssl.key.location": "ssl_keyfile",
    "ssl.key.password": "ssl_password",
}
_SAME = (
    "client.id",
    "connections.max.idle.ms",
    "metadata.max.age.ms",
    "reconnect.backoff.max.ms",
    "reconnect.backoff.ms",
    "request.timeout.ms",
    "retry.backoff.ms",
    "sasl.kerberos.service.name",
    "sasl.mechanism",
    "security.protocol",
)
_CHOICES = {
    "security_protocol": ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    "sasl_mechanism": ("PLAIN", "GSSAPI", "SCRAM-SHA-256", "SCRAM-SHA-512"),
}


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
    names = {**_RENAMED, **{key: key.replace(".", "_") for key in _SAME}}
    settings = {
        names[key]: _value(key, names[key], text)
        for key, text in properties.items()
        if key in names
    }
    unknown = [key for key in properties if key not in names and key != "bootstrap.servers"]
    return ClientConfig(settings=settings, unknown=tuple(unknown))


def _value(key: str, name: str, text: str) -> object:
    if name in _CHOICES:
        if text.upper() not in _CHOICES[name]:
            raise ConfigError(key, text, f"must be one of {', '.join(_CHOICES[name])}")
        return text.upper()
    if name.endswith(("_ms", "_bytes")):
        if not (text.isascii() and text.isdecimal()):
            raise ConfigError(key, text, "not a number")
        return int(text)
    return text not in ("", "none") if name == "ssl_check_hostname" else text
