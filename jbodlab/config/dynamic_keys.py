"""The broker settings that may be changed while brokers run.

They are set for one broker, or for all of them together; some for one listener of a broker, with
the prefix `listener.name.NAME.`. All others are read once, when a process starts, and can be
changed in its property file only. A key that nobody knows is stored, as Kafka does for its plugins.

Source: `kafka.server.DynamicBrokerConfig`, KIP-226; KIP-1066 for cordoned directories.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec.structs import replace

from jbodlab.config import connection_keys, kafka_configs, key_table, tls_keys
from jbodlab.config.key_table import Key
from jbodlab.config.listener_security import JAAS, PREFIXED
from jbodlab.vocabulary.errors import ConfigError

CORDONED_LOG_DIRS = "cordoned.log.dirs"
ALL_LOG_DIRS = "*"
LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
MOVE_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"

NOT_DYNAMIC = "Cannot update these configs"
ONLY_PER_LISTENER = "These security configs can be dynamically updated only per-listener"
"""Starts of the reasons for which a setting cannot be changed here at all."""

_OF_LISTENER = re.compile(r"listener\.name\.([^.]*)\.(.*)")
_SECURITY_OF_LISTENERS = frozenset(
    {
        "ssl.key.password",
        *(f"ssl.keystore.{each}" for each in ("certificate.chain", "key", "location")),
        *(
            f"ssl.{store}.{each}"
            for store in ("keystore", "truststore")
            for each in ("password", "type")
        ),
        *(f"ssl.truststore.{each}" for each in ("certificates", "location")),
    }
)


def key_of(name: str) -> Key | None:
    """Return how a setting is declared, also one of a listener; None where no part knows it."""
    of_listener = _OF_LISTENER.fullmatch(name)
    key = kafka_configs.BROKER.get(of_listener[2] if of_listener else name)
    return None if key is None else replace(key, name=name)


def of_listeners(values: Mapping[str, str], setting: str) -> dict[str, str]:
    """Return what listeners have of a setting, by their names in lower case."""
    found = ((_OF_LISTENER.fullmatch(name), value) for name, value in values.items())
    return {match[1].lower(): value for match, value in found if match and match[2] == setting}


def is_read_only(name: str) -> bool:
    """Return whether a setting is described as one that is read once.

    Kafka says so of settings of a listener and of unknown ones, too, although they may be set.
    """
    key = kafka_configs.BROKER.get(name)
    return key is None or key.update_mode == "read-only"


def _is_static(name: str) -> bool:
    of_listener = _OF_LISTENER.fullmatch(name)
    if of_listener is not None:
        # How clients log in on a listener is read at the start, for each mechanism; and secrets
        # would be stored in the metadata log of every node.
        setting = of_listener[2]
        return setting.endswith((*PREFIXED, JAAS)) or setting in tls_keys.SECRETS
    return name in kafka_configs.BROKER and is_read_only(name)


def _is_per_broker(name: str) -> bool:
    key = key_of(name)
    return key is not None and key.update_mode == "per-broker"


def check(configs: Mapping[str, str], *, all_brokers: bool) -> None:
    """Check the dynamic settings of one broker, or of all brokers.

    Raises:
        ConfigError: a setting is not dynamic, is not one of all brokers or only one of a listener,
            or a value is not permitted.
    """
    for refused, problem in (
        (_is_static, f"{NOT_DYNAMIC} dynamically"),
        (
            lambda name: name in _SECURITY_OF_LISTENERS,
            f"{ONLY_PER_LISTENER} using the listener prefix",
        ),
        (
            lambda name: all_brokers and _is_per_broker(name),
            f"{NOT_DYNAMIC} at default cluster level, broker id must be specified",
        ),
    ):
        names = sorted(filter(refused, configs))
        if names:
            raise ConfigError(f"[{', '.join(names)}]", configs[names[0]], problem)
    known = {name: key for name in configs if (key := key_of(name)) is not None}
    values, _ = key_table.read(known, configs)
    connection_keys.check(values)
    directories = words(configs.get(CORDONED_LOG_DIRS, ""))
    if ALL_LOG_DIRS in directories and len(directories) > 1:
        raise ConfigError(
            CORDONED_LOG_DIRS,
            configs[CORDONED_LOG_DIRS],
            f"{ALL_LOG_DIRS} must be the only value",
        )


def words(value: str) -> tuple[str, ...]:
    """Return the entries of a comma-separated list."""
    return tuple(word.strip() for word in value.split(",") if word.strip())
