"""Builds a controller from its parts; starts them in order of dependency, stops them backwards."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from itertools import chain
from pathlib import Path

from controller.config import ControllerConfig
from controller.encryption import ControllerEncryption
from controller.lead import periodic
from controller.lead.active_controller import ActiveController
from controller.lead.committed_state import CommittedState
from controller.lead.leadership import Leadership
from controller.lead.snapshotter import ControllerSnapshotter
from controller.lead.standby_registration import register_as_standby, registered
from controller.limits import CLOSE_DEADLINE_S, STOP_GRACE_S
from controller.metadata_dir import OpenedDir, open_metadata_dir
from controller.metadata_dir_watch import MetadataDirSpace, watch_metadata_dir
from controller.metrics import ControllerMetrics, raft_metrics
from controller.quorum.log_thread import LogThread
from controller.quorum.raft_files import RaftFiles, election_state
from controller.quorum.raft_log import QuorumNodeSettings, RaftLog
from controller.quorum.raft_peers import RaftPeers
from controller.serve.kafka_listener import KafkaListener
from controller.serve.raft_apis import QuorumParts
from controller.serve.service import ControllerService
from jbodlab.controller_api.transport import RpcServer
from jbodlab.peers.peer_pool import REFUSED_S, PeerPool
from jbodlab.raft.voters import ReplicaKey
from jbodlab.runtime.environment import Environment
from jbodlab.runtime.machine import system_environment
from jbodlab.runtime.metrics_endpoint import MetricsEndpoint
from jbodlab.runtime.supervised import end_tasks, supervised
from jbodlab.server.rights import AllRights, EnforcedRights, Rights
from jbodlab.vocabulary.endpoint import Endpoint

logger = logging.getLogger(__name__)


class ControllerServer:
    """One controller process, from its configuration to its port.

    Args:
        config: The controller's.
        environment: Surroundings of the process; the machine by default.
    """

    def __init__(self, config: ControllerConfig, environment: Environment | None = None) -> None:
        self._config = config
        self._environment = environment or system_environment()
        self._incarnation_id = self._environment.new_id()

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until asked to stop.

        Raises:
            ConfigError: the port cannot be used.
            JbodlabError: the metadata directory cannot be used.
            LogDirError: the metadata directory failed while serving.
            OSError: it failed before.
        """
        encryption = ControllerEncryption(self._config, self._environment)
        rpc_server = self._environment.rpc_server(self._config.listener, encryption.brokers)
        log_thread = LogThread(self._environment.threads)
        encryption.watch.start()
        try:
            opened = await log_thread.run(
                partial(open_metadata_dir, self._config, self._environment)
            )
            # Everything that was answered is on the disk, so an error leaves nothing to save.
            await self._serve(opened, log_thread, rpc_server, encryption, stop)
            async with asyncio.timeout(CLOSE_DEADLINE_S):
                await log_thread.run(opened.log.close)
            opened.lock.close()
        finally:
            log_thread.stop()
            await encryption.watch.stop()

    async def _serve(
        self,
        opened: OpenedDir,
        log_thread: LogThread,
        rpc_server: RpcServer,
        encryption: ControllerEncryption,
        stop: asyncio.Event,
    ) -> None:
        config, environment = self._config, self._environment
        committed = CommittedState(opened.loader)
        quorum = self._quorum(opened, log_thread, committed, encryption)
        quorum.add_listener(committed)
        leadership = Leadership(
            config=config,
            incarnation_id=self._incarnation_id,
            opened=opened,
            log_thread=log_thread,
            log=quorum,
            committed=committed,
            environment=environment,
            start_periodic=partial(start_periodic, config),
        )
        snapshotter = ControllerSnapshotter(
            committed=committed,
            log=opened.log,
            log_thread=log_thread,
            settings=config.metadata_log,
            appended_bytes=opened.replayed_bytes,
            threads=environment.threads,
            monotonic_s=environment.monotonic_s,
            wall_ms=environment.wall_ms,
            quorum=quorum,
        )
        quorum.add_listener(snapshotter)
        service = ControllerService(
            leadership=leadership,
            heartbeat_interval_ms=config.heartbeat_interval_ms,
            hold_ms=config.hold_ms,
            randomness=environment.random,
            new_id=environment.new_id,
            monotonic_s=environment.monotonic_s,
        )
        rpc_server.bind(service)
        metadata_dir = Path(config.node.metadata_log_dir)
        space = MetadataDirSpace(metadata_dir, config.metadata_log.retention_bytes)
        metrics = None
        if config.metrics is not None:
            collect = ControllerMetrics(leadership, committed, snapshotter.snapshots)
            metrics = MetricsEndpoint(
                config.metrics,
                lambda: chain(
                    collect(),
                    space.metrics(),
                    raft_metrics(quorum, service.held),
                    encryption.metrics(),
                ),
            )
            await metrics.start()
        watch = watch_metadata_dir(
            environment.fs_of(metadata_dir),
            metadata_dir,
            opened.log.directory,
            log_thread,
            space,
            interval_ms=config.probe_interval_ms,
        )
        running = [quorum.run(leadership), leadership.run(), snapshotter.run(), watch]
        listener = None
        if config.quorum.listener is not None:
            listener = self._kafka_listener(
                config.quorum.listener, quorum, leadership, service, encryption
            )
            leader = partial(quorum.leader_address, config.quorum.listener.name)
            pool = self._pool("registration", encryption)
            running.append(register_as_standby(leadership, leader, pool))
        tasks = [asyncio.create_task(each) for each in running]
        try:
            if listener is None:
                await _until_one_ends(tasks, leadership.is_settled)
            else:
                await listener.start()
            await rpc_server.start()
            logger.info(
                "the controller serves brokers",
                extra={"addresses": ", ".join(rpc_server.addresses)},
            )
            try:
                await _until_one_ends(tasks, stop)
            finally:
                # Also without a disk: the others need not wait for the end of their timers.
                await quorum.leave()
        finally:
            if metrics is not None:
                await metrics.close()
            await rpc_server.stop(STOP_GRACE_S if stop.is_set() else None)
            if listener is not None:
                await listener.stop()
            await end_tasks(tasks)

    def _quorum(
        self,
        opened: OpenedDir,
        log_thread: LogThread,
        committed: CommittedState,
        encryption: ControllerEncryption,
    ) -> RaftLog:
        environment, node_id = self._environment, self._config.node.node_id
        config = self._config.quorum
        return RaftLog(
            settings=QuorumNodeSettings(
                me=ReplicaKey(node_id, opened.directory_id),
                endpoints=config.endpoints,
                voters=config.voters,
                bootstrap_servers=len(config.bootstrap_servers),
                stored=election_state(opened.stored),
                timing=config.timing,
            ),
            files=RaftFiles(opened.log, config.reserve_bytes),
            log_thread=log_thread,
            peers=RaftPeers(
                self._pool("raft", encryption),
                cluster_id=opened.cluster_id,
                listener_name=self._config.node.controller_listener_names[0].upper(),
                bootstrap_servers=config.bootstrap_servers,
                timeout_ms=config.timing.request_timeout_ms,
            ),
            high_watermark=committed.end_offset,
            on_snapshot=committed.load_snapshot,
            now_ms=environment.monotonic_ms,
            wall_ms=environment.wall_ms,
            # Nobody else stands for election.
            random=(lambda: 0.0) if config.is_alone else environment.random.random,
        )

    def _pool(self, purpose: str, encryption: ControllerEncryption) -> PeerPool:
        """Return connections to other controllers."""
        return PeerPool(
            f"{purpose}-client-{self._config.node.node_id}",
            self._config.quorum.timing.request_timeout_ms / 1000,
            encryption.peers,
            # The node itself asks, too, as soon as it has other keys.
            refused_s_max=REFUSED_S,
        )

    def _kafka_listener(
        self,
        endpoint: Endpoint,
        log: RaftLog,
        leadership: Leadership,
        service: ControllerService,
        encryption: ControllerEncryption,
    ) -> KafkaListener:
        environment, committed = self._environment, leadership.committed
        authorizer = self._config.authorizer
        rights: Rights = AllRights()
        if authorizer is not None:
            rights = EnforcedRights(lambda: committed.image, authorizer, environment.monotonic_s)
        parts = QuorumParts(
            cluster_id=leadership.cluster_id,
            log=log,
            image=lambda: committed.image,
            decide=service.decide,
            register=partial(registered, leadership),
        )
        return KafkaListener(
            endpoint,
            parts,
            rights=rights,
            names=self._config.quorum.names,
            tls=encryption.listener,
            environment=environment,
        )


async def _until_one_ends(tasks: list[asyncio.Task[None]], event: asyncio.Event) -> None:
    """Wait for an event; a task only ever ends by an error, which goes through."""
    waiting = asyncio.create_task(event.wait())
    try:
        await asyncio.wait([*tasks, waiting], return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            if task.done():
                task.result()
    finally:
        waiting.cancel()


def start_periodic(
    config: ControllerConfig, controller: ActiveController
) -> list[asyncio.Task[None]]:
    """Start what a controller does without being asked; what one run raises ends no task."""
    tasks = [
        supervised(
            partial(
                periodic.fence_stale_brokers,
                controller,
                config.session_timeout_ms,
                config.heartbeat_interval_ms,
            ),
            name="fencing",
        ),
        supervised(
            partial(periodic.elect_uncleanly, controller, config.unclean_election_interval_ms),
            name="unclean elections",
        ),
    ]
    if config.idle_interval_ms > 0:
        write_no_ops = partial(periodic.write_no_ops, controller, config.idle_interval_ms)
        tasks.append(supervised(write_no_ops, name="records of an idle controller"))
    if config.auto_leader_rebalance_enable:
        balance = partial(
            periodic.balance_leaders, controller, config.leader_imbalance_check_interval_ms
        )
        tasks.append(supervised(balance, name="balancing of leaders"))
    return tasks
