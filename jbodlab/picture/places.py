"""Places of a cluster: nodes and log directories, by numbers that people see."""

from __future__ import annotations

from dataclasses import dataclass

CONTROLLER = 0
"""The number of a place that is the controller; brokers begin with 1."""
CLUSTER = -1
"""The number of a place that is the whole cluster, for what its users lose."""
WORDS = {CONTROLLER: "controller", CLUSTER: "cluster"}


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A target in a moment: a directory of a broker, or a whole node with directory 0."""

    broker: int
    directory: int = 0

    def __str__(self) -> str:
        if self.broker in WORDS:
            return WORDS[self.broker]
        return f"broker-{self.broker}" + (f"/dir-{self.directory}" if self.directory else "")
