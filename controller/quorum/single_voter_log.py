"""The replicated log of a quorum with one voter: a batch is committed when this node has synced it.

A resignation takes nothing back. Batches that were on their way to the disk are committed when they
arrive there, although their writer no longer learns of it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

from controller.quorum.election import Event, SoleVoter
from controller.quorum.log_thread import LogThread
from controller.quorum.replicated_log import (
    CommitListener,
    Committed,
    NewBatch,
    NotLeaderError,
    QuorumFollower,
    RoleListener,
    encoded,
)
from jbodlab.metadata.log import quorum_state
from jbodlab.metadata.log.metadata_log import MetadataLog
from jbodlab.metadata.log.quorum_state import QuorumState
from jbodlab.metadata.records import control_records
from jbodlab.metadata.records.control_records import LeaderChangeMessage
from jbodlab.raft.messages import VoterChangeRequest
from jbodlab.record_batch.record_batch import CONTROL
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError, LogDirError
from jbodlab.vocabulary.ids import BrokerId, LeaderEpoch, Offset

T = TypeVar("T")


class SingleVoterLog:
    """A `ReplicatedLog` that elects this node, again after each resignation.

    Args:
        log: The metadata log, used on `log_thread` only from now on; all of it is synced.
        log_thread: Its thread.
        node_id: Of the sole voter.
        epoch: The highest leader epoch so far; 0 before the first.
        wall_ms: Milliseconds since 1970.
    """

    def __init__(
        self,
        log: MetadataLog,
        log_thread: LogThread,
        *,
        node_id: BrokerId,
        epoch: LeaderEpoch,
        wall_ms: Callable[[], int],
    ) -> None:
        self.voter = SoleVoter(node_id=node_id, epoch=epoch)
        self._log = log
        self._log_thread = log_thread
        self._wall_ms = wall_ms
        self._high_watermark = Offset(log.synced_offset)
        self._listeners: list[CommitListener] = []
        self._roles: RoleListener | None = None
        self._resigned = asyncio.Event()
        self._unwritten: list[_Append] = []
        self._writing: list[_Append] = []
        """Appends that are on their way to the disk, with one sync for all of them."""
        self._failure: LogDirError | None = None
        """Error of the first write that failed; used on the thread of the log only."""

    @property
    def high_watermark(self) -> Offset:
        """First offset that is not committed."""
        return self._high_watermark

    @property
    def end_offset(self) -> Offset:
        """Where the next batch begins; see `ReplicatedLog`."""
        under_way = self._unwritten or self._writing
        return under_way[-1].committed.end_offset if under_way else self._high_watermark

    @property
    def directory_id(self) -> None:
        """None: nobody needs to know it."""

    @property
    def kraft_version(self) -> int:
        """0: there is no other voter for good."""
        return 0

    def followers(self) -> Sequence[QuorumFollower]:
        """Return none: this node is the only controller."""
        return ()

    def add_listener(self, listener: CommitListener) -> None:
        """Tell an object of each commit; see `ReplicatedLog`."""
        self._listeners.append(listener)

    def remove_listener(self, listener: CommitListener) -> None:
        """Tell an object no longer."""
        self._listeners.remove(listener)

    async def run(self, roles: RoleListener) -> None:
        """Be elected, again after each resignation; see `ReplicatedLog`."""
        self._roles = roles
        while True:
            self._resigned.clear()
            with contextlib.suppress(NotLeaderError):
                roles.on_leader(await self._elected())
            await self._resigned.wait()

    async def _elected(self) -> LeaderEpoch:
        """Lead in a new epoch; returns it when its LeaderChange record is committed.

        Raises:
            NotLeaderError: this node resigned before.
            LogDirError: the metadata directory failed.
        """
        voter = self.voter.handle(Event.ELECTED)
        await self._log_thread.run(partial(self._write, partial(self._begin_epoch, voter)))
        self.voter = voter
        member = control_records.Voter(voter_id=voter.node_id)
        change = LeaderChangeMessage(
            leader_id=voter.node_id, voters=(member,), granting_voters=(member,)
        )
        batch = NewBatch(
            # A batch that was on its way at a resignation has arrived: the thread keeps the order.
            base_offset=Offset(self._log.end_offset),
            records=[control_records.encode_control(change)],
            timestamp_ms=self._wall_ms(),
            attributes=CONTROL,
        )
        await self.append(voter.epoch, [batch])
        return voter.epoch

    def resign(self, successor: BrokerId | None = None) -> None:
        """Lead no longer; appends that wait fail, also those that are committed later."""
        if not self.voter.leads_in(self.voter.epoch):
            return
        self.voter = self.voter.handle(Event.RESIGNED)
        for each in (*self._writing, *self._unwritten):
            each.future.set_exception(NotLeaderError())
        # A later leader would not know their end: the thread has not got them.
        self._unwritten.clear()
        self._resigned.set()
        assert self._roles is not None
        self._roles.on_follower(self.voter.epoch, None)

    async def change_voters(self, request: VoterChangeRequest) -> None:
        """Refuse: other controllers could not reach this one."""
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            "this controller is the only one, as it has no listener for others; "
            "controller.listener.names must name two",
        )

    def confirm(self, epoch: LeaderEpoch) -> None:
        """Return None: nobody else could lead."""

    def append(self, epoch: LeaderEpoch, batches: Sequence[NewBatch]) -> asyncio.Future[Committed]:
        """Append batches; see `ReplicatedLog`."""
        assert batches
        if not self.voter.leads_in(epoch):
            raise NotLeaderError
        written = [(batch.base_offset, encoded(batch, epoch)) for batch in batches]
        end_offset = Offset(batches[-1].base_offset + len(batches[-1].records))
        future: asyncio.Future[Committed] = asyncio.get_running_loop().create_future()
        self._unwritten.append(_Append(future, Committed(written, end_offset)))
        if not self._writing:
            self._write_next()
        return future

    def _write_next(self) -> None:
        """Write all appends that wait, with one sync."""
        self._writing, self._unwritten = self._unwritten, []
        parts = [data for each in self._writing for _, data in each.committed.batches]
        write = partial(_append, self._log, parts)
        self._log_thread.call(partial(self._write, write), self._synced)

    def _synced(self, _: None, error: BaseException | None) -> None:
        """Advance the high watermark, tell the listeners, and complete the appends in order."""
        written, self._writing = self._writing, []
        for each in written:
            if error is None:
                self._high_watermark = each.committed.end_offset
                for listener in tuple(self._listeners):
                    listener.committed(each.committed)
            if each.future.done():
                continue
            if error is None:
                each.future.set_result(each.committed)
            else:
                each.future.set_exception(error)
        if self._unwritten:
            self._write_next()

    def _write(self, write: Callable[[], T]) -> T:
        """Write to the disk; after an error nothing more is written. On the thread of the log."""
        if self._failure is not None:
            raise self._failure
        try:
            return write()
        except OSError as error:
            self._failure = LogDirError(self._log.directory, None, str(error))
            raise self._failure from error

    def _begin_epoch(self, voter: SoleVoter) -> None:
        """Keep who leads, durably, and begin the epoch in the log; on the thread of the log."""
        state = QuorumState(
            leader_id=voter.node_id, leader_epoch=voter.epoch, voters=(voter.node_id,)
        )
        quorum_state.write_quorum_state(self._log.directory, state, fs=self._log.fs)
        self._log.begin_epoch(voter.epoch)


class _Append(NamedTuple):
    """An append, and what it is once it is committed."""

    future: asyncio.Future[Committed]
    committed: Committed


def _append(log: MetadataLog, parts: Sequence[bytes]) -> None:
    """Append batches and sync; on the thread of the log."""
    log.append(b"".join(parts))
    log.flush()
