"""Subscriptions to the metrics of clients (resource type CLIENT_METRICS of configs), KIP-714.

A subscription names metrics by the beginnings of their names, an interval, and the clients that it
is meant for by RE2 expressions, which their attributes must match as a whole.

Source: `org.apache.kafka.server.metrics.ClientMetricsConfigs`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

import msgspec

from jbodlab.config import kafka_configs
from jbodlab.config.key_table import parse_integer
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError

INTERVAL, MATCH, METRICS = "interval.ms", "match", "metrics"
LEAST_INTERVAL_MS, MOST_INTERVAL_MS, DEFAULT_INTERVAL_MS = 100, 3_600_000, 300_000
ALL_METRICS = "*"
ATTRIBUTES = (
    *("client_instance_id", "client_id", "client_software_name", "client_software_version"),
    *("client_source_address", "client_source_port"),
)
"""Attributes by which a subscription may choose clients."""

PATTERN_BYTES_MAX = 1 << 20
"""Memory of one compiled expression."""


class Pattern(Protocol):
    """A compiled expression."""

    def fullmatch(self, text: str) -> object | None:
        """Return something if the whole text matches."""


class Subscription(msgspec.Struct, frozen=True, kw_only=True):
    """One subscription.

    Attributes:
        metrics: Beginnings of names; `*` for all, none for none.
        interval_ms: Time between two pushes of a client.
        patterns: Conditions for attributes of a client, all of them; empty for every client.
    """

    metrics: frozenset[str]
    interval_ms: int
    patterns: Mapping[str, Pattern]

    def is_for(self, attributes: Mapping[str, str]) -> bool:
        """Return whether a client with these attributes is meant."""
        return all(
            pattern.fullmatch(attributes.get(name, "")) for name, pattern in self.patterns.items()
        )


def check(name: str, configs: Mapping[str, str]) -> None:
    """Check the settings of a subscription, all of them together.

    Raises:
        KafkaError: INVALID_REQUEST or INVALID_CONFIG, a name or value is wrong.
    """
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Subscription name can't be empty")
    for key in configs:
        if key not in kafka_configs.CLIENT_METRICS:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"Unknown client metrics configuration: {key}"
            )
    subscription(configs)


def subscription(configs: Mapping[str, str]) -> Subscription:
    """Read a subscription; raises as `check`."""
    return Subscription(
        metrics=frozenset(_words(configs.get(METRICS, ""))),
        interval_ms=_interval_ms(configs.get(INTERVAL, str(DEFAULT_INTERVAL_MS))),
        patterns=dict(map(_pattern, _words(configs.get(MATCH, "")))),
    )


def _words(text: str) -> Iterable[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _interval_ms(text: str) -> int:
    try:
        interval_ms = parse_integer(text.strip())
    except ValueError:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"Invalid value {text} for configuration {INTERVAL}: Not a number of type INT",
        ) from None
    if not LEAST_INTERVAL_MS <= interval_ms <= MOST_INTERVAL_MS:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Invalid value {text} for {INTERVAL}, interval must be between {LEAST_INTERVAL_MS} "
            f"and {MOST_INTERVAL_MS} (1 hour)",
        )
    return interval_ms


def _pattern(text: str) -> tuple[str, Pattern]:
    # A server without subscriptions needs no expressions.
    import re2

    name, equals, expression = (part.strip() for part in text.partition("="))
    options = re2.Options()
    options.log_errors = False
    options.max_mem = PATTERN_BYTES_MAX
    problem = KafkaError(ErrorCode.INVALID_CONFIG, f"Illegal client matching pattern: {text}")
    if not equals or name not in ATTRIBUTES or not expression or "=" in expression:
        raise problem
    try:
        return name, re2.compile(expression, options)
    except re2.error as error:
        raise problem from error
