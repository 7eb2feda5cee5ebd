"""Builds a controller from its parts; starts them in order of dependency, stops them backwards."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from pathlib import Path

from controller import periodic
from controller.active_controller import ActiveController
from controller.config import ControllerConfig
from controller.heartbeats import Heartbeats
from controller.log_thread import LogThread
from controller.metadata_dir import OpenedDir, open_metadata_dir
from controller.metadata_dir_watch import watch_metadata_dir
from controller.metadata_stream import MetadataStream
from controller.metrics import ControllerMetrics
from controller.mutation_quotas import MutationQuotas
from controller.service import ControllerService
from controller.snapshotter import ControllerSnapshotter
from controller.state import ControllerSettings, ControllerState
from jbodlab.controller_api.transport import RpcServer
from jbodlab.runtime.machine import system_environment
from jbodlab.runtime.metrics_endpoint import MetricsEndpoint
from jbodlab.runtime.outside import Outside
from jbodlab.runtime.supervised import supervised
from jbodlab.vocabulary.ids import Offset

logger = logging.getLogger(__name__)

STOP_GRACE_S = 1.0
"""Time for answers on their way when the controller stops."""
CLOSE_DEADLINE_S = 5.0
"""Longest wait for the files of the metadata log at a stop."""


class ControllerServer:
    """One controller process, from its configuration to its port.

    Args:
        config: The controller's.
        outside: What it is in; the machine by default.
    """

    def __init__(self, config: ControllerConfig, outside: Outside | None = None) -> None:
        self._config = config
        self._outside = outside or system_environment()
        self._incarnation_id = self._outside.new_id()

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until asked to stop.

        Raises:
            ConfigError: the port cannot be used.
            JbodlabError: the metadata directory cannot be used.
            LogDirError: the metadata directory failed while serving.
            OSError: it failed before.
        """
        rpc_server = self._outside.rpc_server(self._config.listener)
        log_thread = LogThread(self._outside.threads)
        try:
            opened = await log_thread.run(
                partial(open_metadata_dir, self._config, self._incarnation_id, self._outside)
            )
            # Everything that was answered is on the disk, so an error leaves nothing to save.
            await self._serve(opened, log_thread, rpc_server, stop)
            async with asyncio.timeout(CLOSE_DEADLINE_S):
                await log_thread.run(opened.log.close)
            opened.lock.close()
        finally:
            log_thread.stop()

    async def _serve(
        self,
        opened: OpenedDir,
        log_thread: LogThread,
        rpc_server: RpcServer,
        stop: asyncio.Event,
    ) -> None:
        config, outside = self._config, self._outside
        stream = MetadataStream(opened.log, log_thread, Offset(opened.log.end_offset))
        controller = ActiveController(
            log=opened.log,
            log_thread=log_thread,
            state=initial_state(config, opened, outside.monotonic_ms()),
            epoch=opened.epoch,
            listener=stream,
            now_ms=outside.monotonic_ms,
            wall_ms=outside.wall_ms,
        )
        snapshotter = ControllerSnapshotter(
            controller=controller,
            log=opened.log,
            log_thread=log_thread,
            settings=config.metadata_log,
            appended_bytes=opened.replayed_bytes,
            threads=outside.threads,
            monotonic_s=outside.monotonic_s,
        )
        service = ControllerService(
            controller=controller,
            stream=stream,
            heartbeat_interval_ms=config.heartbeat_interval_ms,
            randomness=outside.random,
            new_id=outside.new_id,
        )
        rpc_server.bind(service)
        metrics = None
        if config.metrics is not None:
            collect = ControllerMetrics(controller, snapshotter.snapshots)
            metrics = MetricsEndpoint(config.metrics, collect)
            await metrics.start()
        watch = watch_metadata_dir(
            outside.fs_of(metadata_dir := Path(config.node.metadata_log_dir)),
            metadata_dir,
            opened.log.directory,
            log_thread,
            interval_ms=config.probe_interval_ms,
        )
        tasks = [asyncio.create_task(each) for each in (controller.run(), snapshotter.run(), watch)]
        periodic_tasks = start_periodic(config, controller)
        await rpc_server.start()
        logger.info(
            "the controller serves brokers", extra={"addresses": ", ".join(rpc_server.addresses)}
        )
        try:
            await _until_one_ends(tasks, stop)
        finally:
            if metrics is not None:
                await metrics.close()
            await rpc_server.stop(STOP_GRACE_S if stop.is_set() else None)
            for each in (*tasks, *periodic_tasks):
                each.cancel()
            await asyncio.gather(*tasks, *periodic_tasks, return_exceptions=True)


async def _until_one_ends(tasks: list[asyncio.Task[None]], stop: asyncio.Event) -> None:
    """Wait until a stop is asked for; a task only ever ends by an error, which goes through."""
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait([*tasks, stopping], return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            if task.done():
                task.result()
    finally:
        stopping.cancel()


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


def initial_state(config: ControllerConfig, opened: OpenedDir, now_ms: int) -> ControllerState:
    """Return the state of a controller that has just become active: everybody is there."""
    return ControllerState(
        image=opened.image,
        heartbeats=Heartbeats.at_activation(
            opened.image.cluster.brokers, config.session_timeout_ms, now_ms
        ),
        settings=ControllerSettings(
            cluster_id=opened.cluster_id,
            node_id=config.node.node_id,
            num_partitions=config.num_partitions,
            default_replication_factor=config.default_replication_factor,
            delete_topic_enable=config.delete_topic_enable,
            static_configs=config.static_configs,
        ),
        next_offset=Offset(opened.log.end_offset),
        mutations=MutationQuotas(kept_s=config.mutations_kept_s),
    )
