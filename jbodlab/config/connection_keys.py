"""The limits of connections that may be changed in a running broker.

Source: `kafka.network.ConnectionQuotas`, KIP-402, KIP-612.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping

from jbodlab.config.key_table import Values, parse_integer
from jbodlab.vocabulary.errors import ConfigError

TOTAL = "max.connections"
PER_IP = "max.connections.per.ip"
PER_IP_OVERRIDES = "max.connections.per.ip.overrides"


def check(values: Values) -> None:
    """Check the limits that are set.

    Raises:
        ConfigError: a broker would serve nobody, or an address is none.
    """
    for name in values.properties:
        if (name == TOTAL or name.endswith(f".{TOTAL}")) and not values.integer(name):
            raise ConfigError(name, 0, "value must be at least 1")
    if values.is_set(PER_IP_OVERRIDES):
        per_ip_overrides(values)


def per_ip_overrides(values: Values) -> Mapping[str, int]:
    """Read the limits of single addresses; names of hosts are none.

    Raises:
        ConfigError: an entry is not ADDRESS:NUMBER.
    """
    found: dict[str, int] = {}
    for entry in values.words(PER_IP_OVERRIDES):
        address, _, number = entry.rpartition(":")
        try:
            found[str(ipaddress.ip_address(address.strip("[]")))] = parse_integer(number)
        except ValueError as error:
            raise ConfigError(PER_IP_OVERRIDES, entry, "expected ADDRESS:NUMBER") from error
    return found
