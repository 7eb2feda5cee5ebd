"""What the upkeep of directories needs to know of the replicas in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from broker.logdirs.log_dir import LogDir
from jbodlab.log.replica_log import ReplicaLog


class HostedLog(NamedTuple):
    """A log that is in use, current or future, and its high watermark."""

    log: ReplicaLog
    high_watermark: int


class HostedLogs(Protocol):
    """Whoever owns the replicas; asked on the event loop."""

    def hosted_in(self, log_dir: LogDir) -> Sequence[HostedLog]:
        """Return the logs in a directory.

        What is done with them is queued on the directory's thread before the loop does anything
        else, hence before a later deletion or move of a log.
        """

    def log_start_moved(self, log: ReplicaLog, log_start_offset: int) -> None:
        """Take notice that retention let a log begin at a later offset."""
