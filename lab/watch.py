"""Watches a cluster while a directory dies, from four sides at once.

The broker that owns the directory is asked for its log directories, another broker for its
metadata, as clients do; their times are those at which an answer came, with questions a few
milliseconds apart. What the broker logs and what the controller writes into its metadata log is
read as it grows; those times are the ones that broker and controller wrote down themselves.
"""

from __future__ import annotations

import asyncio
import queue
import re
import threading
import time
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto
from pathlib import Path

from jbodlab.ids import TopicPartition
from jbodlab.lab_state import ClusterState, NodeState
from jbodlab.metadata_log.batches import MetadataBatch
from jbodlab.records.cluster_records import BrokerRegistrationChangeRecord
from jbodlab.records.topic_records import PartitionChangeRecord
from lab.cluster import questions
from lab.cluster.growing import GrowingLog, GrowingOutput

ASK_PERIOD_S = 0.005
READ_PERIOD_S = 0.002
TIMEOUT_S = 5.0
WENT_OFFLINE = "went offline: "
_REASON = re.compile(r"\[Errno \d+\] [^:]+")


class Kind(Enum):
    """What was seen."""

    OFFLINE = auto()
    """The broker has logged that its directory is offline, with the reason."""
    OFFLINE_SEEN = auto()
    """The broker tells clients that its directory is offline."""
    REPORTED = auto()
    """The controller wrote down that the broker's directory is gone."""
    ELECTED = auto()
    """The controller wrote down a new leader of a partition."""
    LEADER_SEEN = auto()
    """Another broker tells clients of the new leader."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """Something that was seen, and when, on the monotonic clock."""

    kind: Kind
    at_ns: int
    partition: TopicPartition | None = None
    leader: int = -1
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The directory that is going to die.

    Attributes:
        broker: Who it belongs to.
        number: Its place in the broker's `log.dirs`, from 1.
        led: Partitions that are led from it.
        followed: Partitions that it holds a follower of.
    """

    broker: NodeState
    number: int
    path: str
    led: tuple[TopicPartition, ...]
    followed: tuple[TopicPartition, ...]


class Watch(threading.Thread):
    """One thread with three questioners; each sighting is reported once."""

    def __init__(self, state: ClusterState, target: Target) -> None:
        super().__init__(name="watch", daemon=True)
        self.sightings: queue.SimpleQueue[Sighting] = queue.SimpleQueue()
        self._target = target
        self._other = next(node for node in state.brokers if node != target.broker)
        self._log = GrowingLog(Path(state.controller.metadata_log_dir))
        asyncio.run(self._log.read())  # What is in it already is no news.
        self._output = GrowingOutput(Path(target.broker.log_file))
        asyncio.run(self._output.read())
        self._stopping = threading.Event()

    def stop(self) -> None:
        """Look no more."""
        self._stopping.set()

    def run(self) -> None:
        """Watch until stopped."""
        asyncio.run(self._watch())

    async def _watch(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch_directory())
            group.create_task(self._watch_leaders())
            group.create_task(self._watch_files())

    async def _watch_directory(self) -> None:
        connection = None
        while not self._stopping.is_set():
            try:
                if connection is None:
                    connection = await questions.connect(self._target.broker, TIMEOUT_S)
                for view in await questions.log_dirs(connection, TIMEOUT_S):
                    if view.path == self._target.path and view.error:
                        self._saw(Kind.OFFLINE_SEEN, note=view.error)
                        return
            except questions.NO_ANSWER:
                connection = None
            await asyncio.sleep(ASK_PERIOD_S)

    async def _watch_leaders(self) -> None:
        connection = None
        waiting = set(self._target.led)
        while waiting and not self._stopping.is_set():
            try:
                if connection is None:
                    connection = await questions.connect(self._other, TIMEOUT_S)
                view = await questions.cluster_view(connection, TIMEOUT_S)
            except questions.NO_ANSWER:
                connection = None
            else:
                for partition in sorted(waiting):
                    leader = view.partitions[partition].leader
                    if leader not in (-1, self._target.broker.node_id):
                        waiting.discard(partition)
                        self._saw(Kind.LEADER_SEEN, partition=partition, leader=leader)
            await asyncio.sleep(ASK_PERIOD_S)

    async def _watch_files(self) -> None:
        while not self._stopping.is_set():
            for line in await self._output.read():
                if f"{self._target.path} {WENT_OFFLINE}" in line:
                    reason = _REASON.search(line)
                    self._saw(
                        Kind.OFFLINE,
                        at_ns=_on_monotonic_clock(_logged_at_ns(line)),
                        note=reason[0] if reason else "",
                    )
            for batch in await self._log.read():
                self._look_into(batch)
            await asyncio.sleep(READ_PERIOD_S)

    def _look_into(self, batch: MetadataBatch) -> None:
        at_ns = _on_monotonic_clock(batch.timestamp_ms * 1_000_000)
        # The report is the reason for the elections, though it is written behind them.
        for offset, (record, _) in batch.data_records:
            if isinstance(record, BrokerRegistrationChangeRecord) and (
                record.log_dirs and record.broker_id == self._target.broker.node_id
            ):
                self._saw(Kind.REPORTED, at_ns=at_ns, note=f"offset {offset}")
        for _, (record, _) in batch.data_records:
            if isinstance(record, PartitionChangeRecord) and record.leader >= 0:
                partition = self._log.partition(record)
                if partition in self._target.led:
                    self._saw(Kind.ELECTED, at_ns=at_ns, partition=partition, leader=record.leader)

    def _saw(
        self,
        kind: Kind,
        *,
        at_ns: int | None = None,
        partition: TopicPartition | None = None,
        leader: int = -1,
        note: str = "",
    ) -> None:
        self.sightings.put(
            Sighting(
                kind=kind,
                at_ns=time.monotonic_ns() if at_ns is None else at_ns,
                partition=partition,
                leader=leader,
                note=note,
            )
        )


def _on_monotonic_clock(wall_ns: int) -> int:
    return wall_ns - time.time_ns() + time.monotonic_ns()


def _logged_at_ns(line: str) -> int:
    """Return the time at the beginning of a log line, now where there is none."""
    try:
        at = datetime.strptime(line[:23], "%Y-%m-%d %H:%M:%S,%f").astimezone()
    except ValueError:
        return time.time_ns()
    return int(at.timestamp() * 1000) * 1_000_000
