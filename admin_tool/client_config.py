"""The client's properties, from a file, in kafka-python's words.

How the client encrypts and logs in is read by `client_properties`. Of the others kafka-python has
most with underscores instead of dots.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from jbodlab.peers.client_properties import ClientProperties, client_properties
from jbodlab.vocabulary.errors import ConfigError

DEFAULT_REQUEST_TIMEOUT_MS = 30_000

_RENAMED = {
    "socket.receive.buffer.bytes": "receive_buffer_bytes",
    "socket.send.buffer.bytes": "send_buffer_bytes",
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
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig:
    """kafka-python's settings, and the properties that mean nothing to it.

    Attributes:
        client: How the cluster is reached.
    """

    client: ClientProperties
    settings: Mapping[str, object]
    unknown: tuple[str, ...] = ()

    @property
    def request_timeout_ms(self) -> int:
        """Longest wait for one answer."""
        value = self.settings.get("request_timeout_ms", DEFAULT_REQUEST_TIMEOUT_MS)
        assert isinstance(value, int)
        return value


def client_config(properties: Mapping[str, str]) -> ClientConfig:
    """Translate properties.

    Raises:
        ConfigError: a value is wrong.
    """
    client = client_properties(properties)
    names = {**_RENAMED, **{key: key.replace(".", "_") for key in _SAME}}
    others = client.others
    settings = {
        names[key]: _value(key, names[key], text) for key, text in others.items() if key in names
    }
    unknown = [key for key in others if key not in names and key != "bootstrap.servers"]
    return ClientConfig(
        client=client, settings={**settings, **client.kafka_python()}, unknown=tuple(unknown)
    )


def _value(key: str, name: str, text: str) -> object:
    if not name.endswith(("_ms", "_bytes")):
        return text
    if not (text.isascii() and text.isdecimal()):
        raise ConfigError(key, text, "not a number")
    return int(text)
