"""Leading: what is made when this node is elected, and thrown away when it leads no longer.

Between two elections a controller has only the committed state. A term begins in this order:

1. The node is elected: `quorum-state` and the LeaderChange record of the new epoch are committed.
2. The activation records and then the registration of this process are committed.
3. An active controller and a stream of metadata are made; periodic tasks start.

Each step of the begin checks that its epoch still stands. The end of a term takes one turn of the
event loop: operations that wait fail with `NotLeaderError`, streams end with it, and the committed
state is what is left.

Source: `QuorumController.claim` and `renounce`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from uuid import UUID

import msgspec

from controller.config import ControllerConfig
from controller.decide.heartbeats import Heartbeats
from controller.decide.mutation_quotas import MutationQuotas
from controller.decide.state import ControllerSettings, ControllerState
from controller.lead.activation import activation_records, is_registered, registration_records
from controller.lead.active_controller import ActiveController, OperationCounts
from controller.lead.committed_state import CommittedState
from controller.lead.metadata_stream import MetadataStream
from controller.limits import FAILURES_MAX, FAILURES_MS
from controller.metadata_dir import OpenedDir
from controller.quorum.log_thread import LogThread
from controller.quorum.replicated_log import (
    NewBatch,
    NotLeaderError,
    QuorumFollower,
    ReplicatedLog,
)
from jbodlab.metadata.log import snapshots
from jbodlab.metadata.records import frame
from jbodlab.metadata.records.frame import VersionedRecord
from jbodlab.metadata.records.metadata_version import FEATURE_NAME
from jbodlab.raft.messages import VoterChangeRequest
from jbodlab.runtime.environment import Environment
from jbodlab.runtime.supervised import end_tasks
from jbodlab.storage.directory import names
from jbodlab.vocabulary.ids import BrokerId, DirectoryId, LeaderEpoch, Offset

logger = logging.getLogger(__name__)


class Term(msgspec.Struct, frozen=True):
    """The parts that lead in one leader epoch."""

    controller: ActiveController
    stream: MetadataStream
    periodic: list[asyncio.Task[None]]


class Leadership:
    """Leads the metadata log whenever this node is elected; a `RoleListener` on the event loop.

    Args:
        config: The controller's.
        incarnation_id: Of this process.
        opened: The metadata directory; its log is used on `log_thread` only.
        log_thread: The thread of the log.
        log: The same log, as the quorum replicates it.
        committed: The committed state of this node, a listener of `log`.
        environment: Clocks of the process.
        start_periodic: Starts the periodic tasks of an active controller.
    """

    def __init__(
        self,
        *,
        config: ControllerConfig,
        incarnation_id: UUID,
        opened: OpenedDir,
        log_thread: LogThread,
        log: ReplicatedLog,
        committed: CommittedState,
        environment: Environment,
        start_periodic: Callable[[ActiveController], list[asyncio.Task[None]]],
    ) -> None:
        self.wall_ms = environment.wall_ms
        self.cluster_id = opened.cluster_id
        self.committed = committed
        self.epoch = opened.epoch
        """The newest leader epoch."""
        self.leader: BrokerId | None = None
        """Leader of that epoch; None if it is unknown."""
        self.counts = OperationCounts()
        self._config = config
        self._incarnation_id = incarnation_id
        self._metadata_log = opened.log
        self._log_thread = log_thread
        self._now_ms = environment.monotonic_ms
        self._start_periodic = start_periodic
        self._log = log
        self._elected = asyncio.Event()
        self._is_elected = False
        self._is_decided = asyncio.Event()
        """Set when the claim of this node, if it was elected, has succeeded or failed."""
        self.is_settled = asyncio.Event()
        """Set as soon as a term has begun, or another node leads."""
        self._term: Term | None = None
        self._failures_ms: deque[int] = deque(maxlen=FAILURES_MAX)
        """When the last operations failed unexpectedly."""
        self._has_given_up = False
        """Whether this process has handed over for that."""

    @property
    def is_active(self) -> bool:
        """Whether an active controller runs here."""
        return self._term is not None

    @property
    def is_claiming(self) -> bool:
        """Whether this node was elected, and no active controller runs here yet."""
        return self._is_elected and self._term is None

    async def claimed(self, timeout_s: float) -> None:
        """Wait until this node has claimed, or does not lead after all; at most for a time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._is_decided.wait()

    @property
    def node_id(self) -> BrokerId:
        """Id of this node."""
        return self._config.node.node_id

    @property
    def listener_name(self) -> str:
        """Name of the listeners at which controllers serve brokers."""
        return self._config.listener.name

    @property
    def followers(self) -> Sequence[QuorumFollower]:
        """The other controllers, as this one knows them while it leads."""
        return self._log.followers()

    @property
    def directory_id(self) -> DirectoryId | None:
        """Where this node keeps the log; None where the quorum does not know that."""
        return self._log.directory_id

    async def change_voters(self, request: VoterChangeRequest) -> None:
        """Change the voters of the quorum; see `ReplicatedLog`."""
        await self._log.change_voters(request)

    @property
    def _leads(self) -> bool:
        return self.leader == self._config.node.node_id

    @property
    def term(self) -> Term:
        """The present term.

        Raises:
            NotLeaderError: this node does not lead.
        """
        if self._term is None:
            raise NotLeaderError
        return self._term

    def registration(self) -> list[VersionedRecord]:
        """Return the record that registers this process; none where the metadata has no such."""
        return registration_records(
            self.committed.image.features.metadata_version,
            self.node_id,
            self._incarnation_id,
            self._config.advertised_listeners,
        )

    async def confirmed(self) -> None:
        """Return when it is sure that no other node has led up to this call.

        Raises:
            NotLeaderError: this node does not lead.
        """
        confirmation = self._log.confirm(self.term.controller.epoch)
        if confirmation is not None:
            await confirmation

    def on_leader(self, epoch: LeaderEpoch) -> None:
        """Begin a term in an epoch; see `RoleListener`."""
        assert not self._leads
        self.epoch, self.leader = epoch, self._config.node.node_id
        self._elected.set()

    def on_elected(self, epoch: LeaderEpoch) -> None:
        """Have requests wait for the term; see `RoleListener`."""
        self.epoch, self._is_elected = epoch, True
        self._is_decided.clear()

    def on_follower(self, epoch: LeaderEpoch, leader: BrokerId | None) -> None:
        """End the term, or its begin; see `RoleListener`."""
        self.epoch, self.leader, self._is_elected = epoch, leader, False
        self._is_decided.set()
        self._end_term()
        if leader is not None:
            self.is_settled.set()

    def on_controls(self, end_offset: Offset) -> None:
        """Have the next batch begin behind records of the quorum; see `RoleListener`."""
        if self._term is not None:
            self._term.controller.controls_appended(end_offset)

    async def run(self) -> None:
        """Lead in a term after each election; runs until cancelled.

        Raises:
            FormatError: the log has a feature level that is not supported.
            CorruptRecordError: the log is empty, and the bootstrap records are damaged.
            LogDirError: the metadata directory failed.
        """
        try:
            while True:
                await self._elected.wait()
                self._elected.clear()
                with contextlib.suppress(NotLeaderError):
                    await self._lead(self.epoch)
        finally:
            self.resign()

    def resign(self, successor: BrokerId | None = None) -> None:
        """Give up the leadership; everything that waits fails with `NotLeaderError`."""
        self._log.resign(successor)

    def _operation_failed(self) -> None:
        """Resign after repeated failures: the next leader rebuilds its state of the brokers.

        A process resigns once for that: a fault in the requests would pass from node to node.
        """
        self._failures_ms.append(self._now_ms())
        since_ms = self._failures_ms[-1] - self._failures_ms[0]
        is_often = len(self._failures_ms) == FAILURES_MAX and since_ms <= FAILURES_MS
        if is_often and not self._has_given_up:
            self._has_given_up = True
            logger.error("this controller leads no more, as its operations fail unexpectedly")
            # A round of operations is under way.
            asyncio.get_running_loop().call_soon(self.resign)

    def _end_term(self) -> None:
        self._elected.clear()
        term, self._term = self._term, None
        if term is None:
            return
        term.controller.resign()
        self._log.remove_listener(term.stream)
        term.stream.close()
        for task in term.periodic:
            task.cancel()

    async def _lead(self, epoch: LeaderEpoch) -> None:
        """Lead in an epoch; runs until its end.

        Raises:
            NotLeaderError: this node does not lead in the epoch any more.
        """
        await self._begin_term(epoch)
        term = self.term
        try:
            await term.controller.run()
        finally:
            await end_tasks(term.periodic)

    async def _begin_term(self, epoch: LeaderEpoch) -> None:
        assert self._term is None
        committed = self.committed
        # Later it counts for nothing, whatever has become of it.
        is_fresh = FEATURE_NAME not in committed.image.features.levels
        bootstrap = await self._log_thread.run(self._bootstrap) if is_fresh else []
        self._require(epoch)
        await self._append(
            epoch,
            activation_records(
                committed.image,
                committed.transaction_is_open,
                bootstrap,
                self._config.static_configs,
            ),
        )
        level = committed.image.features.metadata_version
        records = self.registration()
        # A standby has registered itself; a controller that is alone does at each election.
        if self._config.quorum.is_alone or not is_registered(committed.image, records):
            await self._append(epoch, records)
        stream = MetadataStream(
            self._metadata_log,
            self._log_thread,
            self._log.high_watermark,
            self.node_id,
            epoch,
            lambda: self._log.kraft_version,
        )
        controller = ActiveController(
            log=self._log,
            state=self._initial_state(),
            epoch=epoch,
            committed=committed,
            counts=self.counts,
            on_failure=self._operation_failed,
            now_ms=self._now_ms,
            wall_ms=self.wall_ms,
        )
        self._log.add_listener(stream)
        self._term = Term(controller, stream, self._start_periodic(controller))
        self.is_settled.set()
        self._is_decided.set()
        logger.info(
            "active controller of the metadata log",
            extra={
                "leader_epoch": epoch,
                "start_offset": self._metadata_log.start_offset,
                "end_offset": self._log.high_watermark,
                "metadata_version": level,
            },
        )

    def _require(self, epoch: LeaderEpoch) -> None:
        if not (self._leads and self.epoch == epoch):
            raise NotLeaderError

    async def _append(self, epoch: LeaderEpoch, records: list[VersionedRecord]) -> None:
        """Commit records of the activation as one batch."""
        if not records:
            return
        batch = NewBatch(
            base_offset=self._log.end_offset,
            records=[(None, frame.encode(record, version)) for record, version in records],
            timestamp_ms=self.wall_ms(),
        )
        await self._log.append(epoch, [batch])
        self._require(epoch)

    def _bootstrap(self) -> list[VersionedRecord]:
        fs = self._metadata_log.fs
        path = Path(self._config.node.metadata_log_dir) / names.BOOTSTRAP_CHECKPOINT_FILE
        return snapshots.read_bootstrap(path, fs=fs) if fs.exists(path) else []

    def _initial_state(self) -> ControllerState:
        """Return the state at the begin of a term: every broker counts as just heard."""
        config, image = self._config, self.committed.image
        return ControllerState(
            image=image,
            heartbeats=Heartbeats.at_activation(
                image.cluster.brokers,
                config.session_timeout_ms,
                self._now_ms(),
                interval_ms=config.heartbeat_interval_ms,
            ),
            settings=ControllerSettings(
                cluster_id=self.cluster_id,
                node_id=config.node.node_id,
                num_partitions=config.num_partitions,
                default_replication_factor=config.default_replication_factor,
                delete_topic_enable=config.delete_topic_enable,
                static_configs=config.static_configs,
                authorizer=config.authorizer,
            ),
            next_offset=self._log.end_offset,
            mutations=MutationQuotas(kept_s=config.mutations_kept_s),
        )
