"""Settings of Kafka's clients, in librdkafka's words, and its errors in ours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from admin_tool.client_config import client_config
from admin_tool.errors import AdminError, UsageError
from admin_tool.options import Parsed
from admin_tool.requests.connection import bootstrap_servers
from jbodlab.command_line import read_properties

METADATA_TIMEOUT_S = 10.0
CONFIG_OPTIONS = ("command-config", "producer.config", "consumer.config")
PROPERTY_OPTIONS = ("command-property", "producer-property", "consumer-property")

_TRANSLATED = {
    "sasl_plain_username": "sasl.username",
    "sasl_plain_password": "sasl.password",
    "ssl_cafile": "ssl.ca.location",
    "ssl_certfile": "ssl.certificate.location",
    "ssl_keyfile": "ssl.key.location",
}
"""What `client_config` reads out of Java's settings."""
_RENAMED = {
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "send.buffer.bytes": "socket.send.buffer.bytes",
}
_READ_OTHERWISE = {
    *("bootstrap.servers", "sasl.jaas.config"),
    *("ssl.truststore.location", "ssl.truststore.type"),
    *("ssl.keystore.location", "ssl.keystore.type"),
    *("key.serializer", "value.serializer", "key.deserializer", "value.deserializer"),
}
_NO_HOST_CHECK = "none"


def settings(options: Parsed, defaults: Mapping[str, object]) -> dict[str, object]:
    """Return librdkafka's settings: defaults, then the file's, then those of the command line.

    Raises:
        ConfigError: a setting has a wrong value.
        FormatError: the file cannot be read.
        UsageError: a property has no value.
        AdminError: an address is none.
    """
    bootstrap = options.required("bootstrap-server")
    bootstrap_servers(bootstrap)
    given: dict[str, str] = {}
    for name in CONFIG_OPTIONS:
        given |= from_file(options, name)
    for name in PROPERTY_OPTIONS:
        given |= properties(options.texts(name))
    return {**defaults, **translated(given), "bootstrap.servers": bootstrap, "log_level": 0}


def translated(given: Mapping[str, str]) -> dict[str, object]:
    """Return settings in librdkafka's words; most have the same name there.

    Raises:
        ConfigError: a setting has a wrong value.
    """
    known = client_config(given).settings
    found: dict[str, object] = {
        name: known[ours] for ours, name in _TRANSLATED.items() if ours in known
    }
    for key, value in given.items():
        if key == "ssl.endpoint.identification.algorithm":
            found[key] = value or _NO_HOST_CHECK
        elif key not in _READ_OTHERWISE:
            found[_RENAMED.get(key, key)] = value
    return found


def properties(texts: tuple[str, ...]) -> dict[str, str]:
    """Read values of options of the form `key=value`.

    Raises:
        UsageError: one has no `=`.
    """
    found = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not (key and equals):
            raise UsageError(f"Invalid property '{text}', expected key=value")
        found[key] = value
    return found


def from_file(options: Parsed, name: str) -> dict[str, str]:
    """Read the property file that an option names, if it does.

    Raises:
        ConfigError: a line is none.
        FormatError: the file cannot be read.
    """
    path = options.text(name)
    return {} if path is None else read_properties(Path(path))


def is_true(text: str) -> bool:
    """Return what a property says that is true or false."""
    return text.strip().lower() == "true"


def unescaped(text: str) -> str:
    """Return a separator; a shell hands a tab or a line end on as two characters."""
    return text.replace("\\t", "\t").replace("\\n", "\n")


@contextmanager
def errors_in_one_line() -> Iterator[None]:
    """Turn librdkafka's errors into ours.

    Raises:
        AdminError: one came up, or the library is not there.
    """
    try:
        from confluent_kafka import KafkaException
    except ImportError as error:
        raise AdminError(
            "the library confluent-kafka is not installed: pip install confluent-kafka"
        ) from error
    try:
        yield
    except KafkaException as error:
        raise AdminError(error.args[0].str()) from error
