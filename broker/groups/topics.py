"""The cluster's topics, as groups see them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from jbodlab.vocabulary.ids import TopicId


class Topics(Protocol):
    """The topics as the broker's metadata has them at this moment."""

    def frozen(self) -> Topics:
        """Return what stays as it is now, and may be read on another thread."""
        ...

    @property
    def version(self) -> int:
        """Offset of the metadata; grows with every change."""
        ...

    @property
    def names_version(self) -> int:
        """The version in which a topic was last created or deleted."""
        ...

    def names(self) -> Iterable[str]:
        """Return the names of all topics."""
        ...

    def topic_id(self, name: str) -> TopicId | None:
        """Return the id of a topic; None if there is no such topic."""
        ...

    def topic_name(self, topic_id: TopicId) -> str | None:
        """Return the name of a topic; None if there is no such topic."""
        ...

    def partition_count(self, name: str) -> int:
        """Return how many partitions a topic has; 0 if there is no such topic."""
        ...

    def racks(self, name: str, partition: int) -> frozenset[str]:
        """Return the racks of a partition's replicas; empty where brokers have none."""
        ...
