"""All settings, read from `kafka_configs.tsv` when this is imported.

The file has one row for each setting of Apache Kafka 4.3 (`kafka.server.KafkaConfig`, `LogConfig`,
`GroupConfig`, `DynamicBrokerConfig`), and for each that is ours alone, in these columns:

* resource: `node` in a property file, `broker` set dynamically only, `topic`, `group` or
  `client-metrics` (subscriptions to the metrics of clients)
* name, and type as in Kafka's `ConfigDef.Type`
* default as in a property file; `null` where there is none
* valid values: `least..most` of a number, inclusive and either may be missing, or `one|another`
* update mode of a setting of a node or broker, as in Kafka's documentation: `read-only`,
  `per-broker` (it means nothing for all brokers together) or `cluster-wide`
* synonyms: settings of a node whose value a topic or group has that sets none, the strongest
  first, each with the factor between their units, as in `log.roll.hours*3600000`
* meaning; `ignored: ` and the reason where a setting has no effect, `refused: ` where a server that
  went on without it would protect less than was asked for

One file may configure brokers and controllers, as in Kafka; so a key that only the other role uses
is no unknown key.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping

from jbodlab.config.key_table import ConfigType, Key

MAXIMA = {ConfigType.SHORT: 2**15 - 1, ConfigType.INT: 2**31 - 1, ConfigType.LONG: 2**63 - 1}


def _key(row: list[str]) -> Key:
    _, name, kind_name, default, valid, update_mode, synonyms, meaning = row
    kind = ConfigType[kind_name]
    least, dots, most = valid.partition("..")
    return Key(
        name,
        kind,
        None if default == "null" else default,
        meaning,
        minimum=_number(least, kind) if dots else None,
        maximum=_number(most, kind) if dots and most else MAXIMA.get(kind),
        choices=tuple(valid.split("|")) if valid and not dots else (),
        update_mode=update_mode,
        synonyms=tuple(map(_synonym, synonyms.split(","))) if synonyms else (),
    )


def _number(text: str, kind: ConfigType) -> float | None:
    if not text:
        return None
    return float(text) if kind is ConfigType.DOUBLE else int(text)


def _synonym(text: str) -> tuple[str, int]:
    name, _, factor = text.partition("*")
    return name, int(factor or 1)


def _read() -> dict[str, dict[str, Key]]:
    data = pkgutil.get_data(__package__, "kafka_configs.tsv")
    assert data is not None
    found: dict[str, dict[str, Key]] = {}
    for line in data.decode().splitlines()[1:]:
        row = line.split("\t")
        found.setdefault(row[0], {})[row[1]] = _key(row)
    return found


_TABLES = _read()

NODE: Mapping[str, Key] = _TABLES["node"]
"""Settings of a property file."""

BROKER: Mapping[str, Key] = {**NODE, **_TABLES["broker"]}
"""All settings of a broker."""

TOPIC: Mapping[str, Key] = _TABLES["topic"]
GROUP: Mapping[str, Key] = _TABLES["group"]
CLIENT_METRICS: Mapping[str, Key] = _TABLES["client-metrics"]
