"""Topic configs as the controller checks and shows them.

Which configs there are, and what a topic's effective ones are, is defined in
`jbodlab.config.topic_keys` and `jbodlab.config.value_sources`, for brokers as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from jbodlab.config import dynamic_keys, topic_keys
from jbodlab.config.value_sources import BrokerLayers, describe_topic
from jbodlab.controller_api.requests import TopicConfigEntry
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import ConfigError, KafkaError


def check_topic_configs(configs: Iterable[tuple[str, str | None]]) -> dict[str, str]:
    """Check the configs of a new topic; of a name given twice the last value counts.

    Raises:
        KafkaError: INVALID_CONFIG: a value is null or not permitted, or the name is unknown.
    """
    values: dict[str, str] = {}
    for name, value in configs:
        if value is None:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {name}"
            )
        values[name] = value
    try:
        topic_keys.check(values)
    except ConfigError as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, config_error_text(error)) from error
    return values


def config_error_text(error: ConfigError) -> str:
    """Return what a client is told of a wrong config: its name, its value, the reason."""
    if error.reason.startswith(
        ("Unknown", dynamic_keys.NOT_DYNAMIC, dynamic_keys.ONLY_PER_LISTENER)
    ):
        return f"{error.reason}: {error.key}"
    return f"Invalid value {error.value} for configuration {error.key}: {error.reason}"


def effective_configs(
    topic_configs: Mapping[str, str],
    static_configs: Mapping[str, str],
    all_brokers: Mapping[str, str] | None = None,
) -> tuple[TopicConfigEntry, ...]:
    """Return all configs of a topic, by name, each with the source of its value."""
    layers = BrokerLayers(broker={}, all_brokers=all_brokers or {}, static=static_configs)
    return tuple(
        TopicConfigEntry(name=each.name, value=each.value, config_source=each.source)
        for each in describe_topic(topic_configs, layers)
    )
