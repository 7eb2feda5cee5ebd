"""A replicated log whose roles and commits a test decides."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from controller.quorum.replicated_log import (
    CommitListener,
    Committed,
    NewBatch,
    NotLeaderError,
    QuorumFollower,
    RoleListener,
)
from jbodlab.metadata.records.control_records import ControlRecord
from jbodlab.raft.messages import VoterChangeRequest
from jbodlab.record_batch.record_batch import build_batch
from jbodlab.vocabulary.ids import BrokerId, DirectoryId, LeaderEpoch, Offset


class ScriptedLog:
    """A `ReplicatedLog` whose roles and commits the test decides."""

    def __init__(self, roles: Callable[[], RoleListener]) -> None:
        self.roles = roles
        self.epoch: LeaderEpoch | None = None
        self.high_watermark = Offset(0)
        self.confirmation: asyncio.Future[None] | None = None
        self.listeners: list[CommitListener] = []
        self.waiting: deque[tuple[asyncio.Future[Committed], Committed]] = deque()

    @property
    def end_offset(self) -> Offset:
        return self.waiting[-1][1].end_offset if self.waiting else self.high_watermark

    @property
    def directory_id(self) -> DirectoryId | None:
        return None

    @property
    def kraft_version(self) -> int:
        return 1

    def followers(self) -> Sequence[QuorumFollower]:
        return ()

    def add_listener(self, listener: CommitListener) -> None:
        self.listeners.append(listener)

    def remove_listener(self, listener: CommitListener) -> None:
        self.listeners.remove(listener)

    async def run(self, roles: RoleListener) -> None:
        raise AssertionError("the test decides who leads")

    def lead(self, epoch: int) -> None:
        self.epoch = LeaderEpoch(epoch)
        self.roles().on_leader(self.epoch)

    def follow(self, epoch: int, leader: int | None = None) -> None:
        """Another epoch begins; what was appended and is not committed is gone."""
        self.epoch = None
        for future, _ in self.waiting:
            if not future.done():
                future.set_exception(NotLeaderError())
        self.waiting.clear()
        self.roles().on_follower(LeaderEpoch(epoch), None if leader is None else BrokerId(leader))

    def resign(self, successor: BrokerId | None = None) -> None:
        if self.epoch is not None:
            self.follow(self.epoch)

    @property
    def has_begun(self) -> bool:
        return True

    def records_at(self, offset: Offset) -> Sequence[ControlRecord]:
        return ()

    def snapshots_changed(self) -> None:
        pass

    async def change_voters(self, request: VoterChangeRequest) -> None:
        raise AssertionError("no test changes the voters")

    def confirm(self, epoch: LeaderEpoch) -> asyncio.Future[None] | None:
        return self.confirmation

    def append(self, epoch: LeaderEpoch, batches: Sequence[NewBatch]) -> asyncio.Future[Committed]:
        if epoch != self.epoch:
            raise NotLeaderError
        written = [
            (
                each.base_offset,
                build_batch(
                    each.records,
                    base_offset=each.base_offset,
                    leader_epoch=epoch,
                    timestamp_ms=each.timestamp_ms,
                    attributes=each.attributes,
                ),
            )
            for each in batches
        ]
        end = Offset(batches[-1].base_offset + len(batches[-1].records))
        future: asyncio.Future[Committed] = asyncio.get_running_loop().create_future()
        self.waiting.append((future, Committed(written, end)))
        return future

    def commit(self) -> None:
        """Commit the oldest append."""
        future, committed = self.waiting.popleft()
        self.high_watermark = committed.end_offset
        for listener in tuple(self.listeners):
            listener.committed(committed)
        if not future.done():
            future.set_result(committed)
