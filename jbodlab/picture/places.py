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
    """A target in a moment: a directory of a node, or a whole node with directory 0.

    Attributes:
        broker: A broker; below -1 a controller, as minus its `node.id`.
    """

    broker: int
    directory: int = 0

    def __str__(self) -> str:
        if self.broker in WORDS:
            return WORDS[self.broker]
        node = f"broker-{self.broker}" if self.broker > 0 else f"controller-{-self.broker}"
        return node + (f"/dir-{self.directory}" if self.directory else "")
