"""The address of a listener."""

from __future__ import annotations

import msgspec


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """One address at which a broker or a controller is reached.

    Source: `org.apache.kafka.common.Endpoint`.

    Attributes:
        name: Name of the listener.
        host: Empty for all addresses of the machine, where it is bound.
        port: 0 for a free one, where it is bound.
        security_protocol: Number of the protocol; 0 is PLAINTEXT.
    """

    name: str
    host: str
    port: int
    security_protocol: int = 0
