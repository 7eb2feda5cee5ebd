"""Reports to the controller in which directory a replica is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from jbodlab.vocabulary.ids import DirectoryId, TopicId


class Assigner(Protocol):
    """Tells the controller where replicas are, until it has accepted."""

    def assign(
        self,
        topic_id: TopicId,
        partition: int,
        directory_id: DirectoryId,
        callback: Callable[[], None] | None = None,
    ) -> None:
        """Report the directory of a replica.

        Args:
            topic_id: Of the partition.
            partition: Its index.
            directory_id: Where the replica is, or is about to be.
            callback: Called when the controller has accepted; with one, the report is the
                announcement of a move and goes out exactly as it is.
        """
