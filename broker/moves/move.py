"""One move of one replica: its progress, and what its parts share.

Source: KIP-113.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from broker.disk.directory import LogDir
from broker.moves.future_copy import FutureCopy
from broker.moves.move_states import MoveState
from broker.replica.log import PartitionLog
from broker.replica.partition import Partition
from jbodlab.storage.log.replica_copy import CopyPoint
from jbodlab.vocabulary.errors import JbodlabError
from jbodlab.vocabulary.ids import TopicPartition


class NoRoomError(JbodlabError):
    """The target takes no more records, or not so many bytes of them."""

    def __init__(self, path: Path, size_bytes: int) -> None:
        super().__init__(f"log directory {path} has not enough free space")
        self.size_bytes = size_bytes


class ChangedError(JbodlabError):
    """The log changed under the copy; the next round sees how."""


class Move:
    """One move of one replica.

    Attributes:
        future: The future replica, None before it is there.
        end: Where the copy ends, as the loop knows it.
        source_end: Where the log ended at the last look.
    """

    def __init__(self, partition: Partition, log: PartitionLog, target: LogDir) -> None:
        self.partition = partition
        self.log = log
        self.source = log.log_dir
        self.target = target
        self.state = MoveState.COPYING
        self.future: PartitionLog | None = None
        self.copy: FutureCopy | None = None
        self.task: asyncio.Task[None] | None = None
        self.aside: asyncio.Future[None] | asyncio.Future[int] | None = None
        self.changed = asyncio.Event()
        self.attempt = 0
        self.end = 0
        self.base_offset = 0
        self.adopted_size = 0
        self.position = 0
        self.bytes_before = 0
        self.cut_to: int | None = None
        self.is_aligned = False
        self.point: CopyPoint | None = None
        self.begun_s = asyncio.get_running_loop().time()
        self.complaint = ""

    @property
    def topic_partition(self) -> TopicPartition:
        """Of the replica."""
        return self.partition.topic_partition

    @property
    def size_bytes(self) -> int:
        """Bytes of the copy, those included that belong to no whole segment yet."""
        position = max(self.position, self.adopted_size)
        if self.copy is not None:
            position = max(position, self.copy.position)
        return self.bytes_before + position

    @property
    def lag(self) -> int:
        """About how many offsets the copy is behind; -1 if the current replica is offline."""
        if self.partition.log is not self.log or self.state is MoveState.SUSPENDED:
            return -1
        reached = self.end
        for segment in () if self.point is None else self.point.segments:
            if segment.base_offset == self.base_offset and self.copy is not None and segment.size:
                share = min(self.copy.position, segment.size) / segment.size
                span = segment.next_offset - segment.base_offset
                # Only a whole batch counts, so that nothing seems complete before it is.
                reached = max(reached, segment.base_offset + int(span * share) - 1)
        return max(self.log.end_offset - reached, 0)

    def fields(self) -> dict[str, object]:
        """Return what every line of the log about this move carries as `extra`."""
        return {
            "topic": self.topic_partition.topic,
            "partition": self.topic_partition.partition,
            "log_dir": str(self.target.path),
            "directory_id": self.target.id_text,
        }
