"""How plans write values: each type with the function that reads it and its JSON Schema."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from typing import Annotated, Any

from msgspec import Meta

from fault_injection.kinds import size_bytes
from jbodlab.config.node_config import read_values
from jbodlab.vocabulary.durations import duration_s
from jbodlab.vocabulary.errors import ConfigError
from lab.cluster.engine import RELEASE
from lab.cluster.limits import DISK_MB_MIN
from lab.plan import targets
from lab.plan.values import parse_rate

SHOWN_MAX = 60
RATE_MAX = 100_000
MESSAGE_BYTES = range(40, (10 << 20) + 1)
ANY_SIZE = 100


def written(read: Callable[[Any], Any], *types: str, **more: Any) -> Meta:
    """Return how a value is read, which raises ValueError, and of which JSON types it may be."""
    schema = {"anyOf": [{"type": each} for each in types]} if types else {}
    return Meta(extra={"read": read}, extra_json_schema=schema | more)


def one_of(*words: str) -> Meta:
    """Return that a value is one of some words."""

    def read(value: Any) -> str:
        if str(value) in words:
            return str(value)
        raise ValueError(f"expected one of {', '.join(words)}, got {value!r:.{SHOWN_MAX}}")

    numbers = [int(word) for word in words if word.lstrip("-").isdecimal()]
    return written(read, enum=[*words, *numbers])


def texts(value: Any) -> dict[str, str]:
    """Return a mapping of texts to texts, such as Kafka's settings.

    Raises:
        ValueError: it is not a mapping, or one of its values is a list or a mapping.
    """
    if not isinstance(value, dict):
        raise ValueError(f"expected a mapping, got {value!r:.{SHOWN_MAX}}")
    found = {}
    for key, each in value.items():
        if isinstance(each, dict | list):
            raise ValueError(f"expected one word for {key!r}")
        found[key] = str(each).lower() if isinstance(each, bool) else str(each)
    return found


def _words(value: Any) -> tuple[str, ...]:
    """Return a list of words, written as such or as a shell would split them."""
    if isinstance(value, str) and value.strip():
        return tuple(shlex.split(value))
    if isinstance(value, list) and value and not any(isinstance(x, dict | list) for x in value):
        return tuple(map(str, value))
    raise ValueError(f"expected a list of words, got {value!r:.{SHOWN_MAX}}")


def _positive(value: Any) -> float:
    found = duration_s(value)
    if found <= 0:
        raise ValueError(f"expected more than 0, got {value!r}")
    return found


def _addresses(value: Any) -> str:
    found = ",".join(value) if isinstance(value, list) else str(value)
    for address in found.split(","):
        host, _, port = address.strip().rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise ValueError(f"expected HOST:PORT, got {address!r}")
    return found


def _node_settings(value: Any) -> dict[str, str]:
    found = texts(value)
    try:
        read_values(found)
    except ConfigError as error:
        raise ValueError(str(error)) from error
    return found


def _changed_settings(value: Any) -> dict[str, str]:
    found = texts(value)
    if not found:
        raise ValueError("expected at least one setting")
    return found


def _disk_bytes(value: Any) -> int:
    found = size_bytes(value)
    if found < DISK_MB_MIN << 20:
        raise ValueError(f"expected at least {DISK_MB_MIN}MiB for a disk, got {value!r}")
    return found


def _message_bytes(value: Any) -> int:
    found = size_bytes(value)
    if found not in MESSAGE_BYTES:
        raise ValueError(f"expected a size from 40B to 10MiB, got {found} bytes")
    return found


def _rate(value: Any) -> str:
    """Return the text: how many messages a rate in bytes is depends on their size."""
    parse_rate(str(value), ANY_SIZE)
    return str(value)


def _probe(value: Any) -> str:
    if isinstance(value, str) and re.match(r"https?://[^/]+", value):
        return value
    raise ValueError(
        f"expected an address such as http://127.0.0.1:8000/health, got {value!r:.{SHOWN_MAX}}"
    )


def _release(value: Any) -> str:
    if RELEASE.fullmatch(str(value)):
        return str(value)
    raise ValueError(f"expected a release such as 4.3.1, got {value!r:.{SHOWN_MAX}}")


def _condition(value: Any) -> str:
    if isinstance(value, str):
        return value
    shown = "a list" if isinstance(value, list) else f"{value!r:.{SHOWN_MAX}}"
    raise ValueError(f"expected a condition such as writers.lost == 0, got {shown}")


def _target(value: Any) -> targets.Target:
    return targets.parse(str(value))


Text = Annotated[str, Meta(pattern=r"\S")]
Seconds = Annotated[float, written(duration_s, "string", "number", examples=["250ms", "1m30s"])]
LongerThanZero = Annotated[float, written(_positive, "string", "number", examples=["20s"])]
Words = Annotated[tuple[str, ...], written(_words, "string", "array")]
Settings = Annotated[Mapping[str, str], written(texts, "object")]
NodeSettings = Annotated[Mapping[str, str], written(_node_settings, "object")]
ChangedSettings = Annotated[Mapping[str, str], written(_changed_settings, "object")]
Addresses = Annotated[str, written(_addresses, "string", "array", examples=["localhost:19092"])]
DiskBytes = Annotated[int, written(_disk_bytes, "string", "integer", examples=["256MiB"])]
MessageBytes = Annotated[int, written(_message_bytes, "string", "integer", examples=["200B"])]
Rate = Annotated[Any, written(_rate, "string", examples=["500/s", "2MiB/s"])]
Probe = Annotated[str, written(_probe, "string", examples=["http://127.0.0.1:8000/health"])]
Release = Annotated[str, written(_release, "string", examples=["4.3.1"])]
Condition = Annotated[Any, written(_condition, "string", examples=["writers.lost == 0"])]
TargetText = Annotated[Any, written(_target, "string", examples=targets.EXAMPLES.split(", "))]
