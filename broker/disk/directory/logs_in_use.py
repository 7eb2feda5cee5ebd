"""The replicas of a directory, as the upkeep of directories sees them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from broker.disk.directory.log_cleaning import LogCleaning
from broker.disk.directory.log_dir import LogDir
from jbodlab.storage.compaction.compaction_plan import CleanedSegment
from jbodlab.storage.log.instructions import Instructions, SyncRequest
from jbodlab.storage.log.loaded_log import LoadedLog
from jbodlab.storage.log.log_config import LogConfig
from jbodlab.storage.log.log_files import LogFiles
from jbodlab.storage.log.log_state import LogState
from jbodlab.storage.log.segments import ClosedSegment
from jbodlab.vocabulary.ids import TopicPartition


class LogWithState(Protocol):
    """A log of which it is to be seen what it holds."""

    @property
    def topic_partition(self) -> TopicPartition:
        """Whose log it is."""

    @property
    def start_offset(self) -> int:
        """Offset of the first record."""

    @property
    def config(self) -> LogConfig:
        """The settings in force."""

    @property
    def state(self) -> LogState:
        """Its state; changed by its owner only."""

    @property
    def files(self) -> LogFiles:
        """Its files."""


class OwnedLog(LogWithState, Protocol):
    """A log as its owner shows it to the upkeep; on the event loop."""

    @property
    def cleaning(self) -> LogCleaning:
        """Whether it may be compacted."""

    @property
    def is_held(self) -> bool:
        """Whether somebody holds it; see `hold`."""

    def hold(self) -> None:
        """Let nothing begin to cut or drop anything, until `release`."""

    def release(self) -> None:
        """Let changes go on."""

    def replace(
        self, former: Sequence[ClosedSegment], cleaned: Sequence[CleanedSegment], now_ms: int
    ) -> asyncio.Future[None]:
        """Put what compaction has left of segments in their place; see `LogState.replace`.

        The future is done when that is carried out, or waits for room.
        """

    @property
    def is_blocked(self) -> bool:
        """Whether something that is on its way to the disk waits for room there."""

    def retain(self, now_ms: int, high_watermark: int) -> bool:
        """Let a log begin behind what is old; returns whether it begins later now."""

    def drop_below(self, offset: int, now_ms: int) -> None:
        """Drop the segments below an offset, which is a log start that is on the disk."""

    def sync(self, request: SyncRequest) -> asyncio.Future[None]:
        """Have something synced by the upkeep that was written; the recovery point follows.

        The future gets `WaitsForRoomError` where it was not.
        """

    def barrier(self) -> asyncio.Future[None]:
        """Return a future of when all that was asked for in its directory so far had its turn.

        All of it is carried out then, but for logs that are blocked.
        """

    def close(self) -> Instructions:
        """Nothing is done with it any more; returns what is left to do to its files."""


class LogInUse(NamedTuple):
    """A log that is in use, current or future, and its high watermark."""

    log: OwnedLog
    high_watermark: int


class FoundLog(NamedTuple):
    """A log that was loaded and is nobody's yet.

    Attributes:
        high_watermark: From the checkpoint of its directory, inside of the log.
    """

    log: LoadedLog
    high_watermark: int


class LogsInUse(Protocol):
    """The owner of the replicas; asked on the event loop."""

    def logs_in(self, log_dir: LogDir) -> Sequence[LogInUse]:
        """Return the logs in a directory.

        Work on them is queued before the loop does anything else, hence before a later
        deletion or move of a log.
        """

    def all_in_sync(self, topic_partition: TopicPartition) -> bool:
        """Return whether every replica of a partition is known to be in the ISR."""

    def log_start_moved(self, log: OwnedLog) -> None:
        """Take notice that retention let a log begin at a later offset."""
