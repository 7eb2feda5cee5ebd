"""`min.insync.replicas` in force, and what it is taken for where a log does not say.

The value of a topic counts before the one of all brokers, and both stand in the log. Where neither
is set, the brokers' own files decide, which no log holds: something has to be assumed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

MIN_INSYNC_REPLICAS = "min.insync.replicas"
KAFKAS_DEFAULT = 1

OF_TOPIC, OF_CLUSTER, ASSUMED = "topic", "cluster", "assumed"


@dataclass(frozen=True, slots=True)
class AssumedMinIsr:
    """The value that counts where a log does not tell one, and its source."""

    value: int = KAFKAS_DEFAULT
    source: str = "Kafka's default"


class MinIsrInForce(NamedTuple):
    """A value, and where it is set: OF_TOPIC, OF_CLUSTER or ASSUMED."""

    value: int
    origin: str


def min_isr_in_force(
    of_topic: str | None, of_cluster: str | None, assumed: AssumedMinIsr
) -> MinIsrInForce:
    """Return the value in force; what is not a number counts as not set."""
    for text, origin in ((of_topic, OF_TOPIC), (of_cluster, OF_CLUSTER)):
        if text is not None and text.strip().isdecimal():
            return MinIsrInForce(int(text), origin)
    return MinIsrInForce(assumed.value, ASSUMED)
